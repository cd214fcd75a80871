#!/usr/bin/env bash
# Installs what is missing, builds, runs the tests.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--preset NAME] [--no-install] [LABEL ...] [-- CTEST-OPTION ...]

  LABEL          only tests with one of these labels: unit, parity, mpi, failure, docs, package, slurm (default: all)
  --preset NAME  release (default), debug, asan, or fuzz (clang, sanitizers and fuzzers)
  --no-install   do not look for missing packages
  -- ...         passed on to ctest, for example: -- -R parity.md5 --verbose
TEXT
}

preset=release
install=yes
labels=()
ctest_options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --no-install) install=no ;;
    --) shift; ctest_options=("$@"); break ;;
    -*) usage >&2; exit 2 ;;
    *) labels+=("$1") ;;
  esac
  shift
done

if [ "$install" = yes ]; then
  install_missing "${build_packages[@]}" "${test_packages[@]}"
  install_optional "batch scripts on a real Slurm" "${slurm_packages[@]}"
fi
cd -- "$root"
jobs=$(jobs_at_once)
cmake --preset "$preset" -DMSVIS_BUILD_TESTS=ON
if [ "$preset" = release ]; then
  build=$root/build
else
  build=$root/build-$preset
fi
cmake --build "$build" --parallel "$jobs"
if [ ${#labels[@]} -gt 0 ]; then
  ctest_options+=(-L "^($(IFS='|'; echo "${labels[*]}"))\$")
fi
exec ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "${ctest_options[@]}"
