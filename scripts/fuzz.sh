#!/usr/bin/env bash
# Builds the fuzzers with clang and lets each run for some seconds from its seeds. A finding ends the script with an error and names the input.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "usage: scripts/fuzz.sh [SECONDS for each fuzzer, default 60]"
cd -- "$root"
cmake --preset fuzz -DMSVIS_BUILD_TESTS=ON
targets=(fuzz_dump_json fuzz_stack_json fuzz_construct_json fuzz_dump_directory fuzz_layer_mapping fuzz_pt fuzz_npy fuzz_pack)
cmake --build build-fuzz --parallel "$(jobs_at_once)" --target "${targets[@]}" make_tensor_seeds

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
fuzz() {
  local name=$1 corpus
  case $name in
    fuzz_pt | fuzz_npy | fuzz_pack) corpus=build-fuzz/tests/fuzz/seeds/${name#fuzz_} ;;
    fuzz_layer_mapping) corpus=tests/fuzz/corpus/layer_mapping ;;
    *) corpus=tests/fuzz/corpus/$name ;;
  esac
  mkdir -p -- "$work/$name"
  if ! "build-fuzz/tests/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$root/build-fuzz/$name-" "$work/$name" "$corpus" \
    >"$work/$name.log" 2>&1; then
    tail -n 40 "$work/$name.log"
    echo "== $name: a finding"
    return 1
  fi
  echo "== $name: $(grep -c -- NEW "$work/$name.log" || true) new inputs, $(tail -n 1 "$work/$name.log")"
}
export -f fuzz
export work seconds root
printf '%s\n' "${targets[@]}" | xargs -n 1 -P "$(nproc)" bash -c 'fuzz "$1"' fuzz
