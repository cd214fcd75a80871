#!/usr/bin/env bash
# From a fresh clone to a first result: installs what is missing, builds, compares a small pair of dumps on two processes.
# Can be run again at any time; what is done already is not done again.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

if [ $# -gt 0 ]; then
  echo "usage: scripts/quickstart.sh
Installs the missing Debian packages (as root or by sudo), builds msvis-mpi into build/ and compares a small pair of dumps."
  [ "$1" = -h ] || [ "$1" = --help ]
  exit
fi

say "1/3 packages"
install_missing "${build_packages[@]}"

say "2/3 build into $root/build"
cd -- "$root"
cmake --preset release -DMSVIS_BUILD_TESTS=OFF -DMSVIS_BUILD_BENCH=OFF
cmake --build --preset release --parallel "$(jobs_at_once)"

case_dir=$root/testdata/golden/statistics/gpt_2ranks
out=$root/build/quickstart
say "3/3 compare two ranks of a small GPT on two processes"
rm -rf -- "$out"
command=(mpirun -n 2 "$root/build/msvis-mpi" -tp "$case_dir/target" -gp "$case_dir/golden" -o "$out")
printf '   %q' "${command[@]}"
echo
"${command[@]}"

say "result:"
ls -l -- "$out"/*.vis.db
echo "Open it in TensorBoard with the plugin tb_graph_ascend: tensorboard --logdir '$out'"
