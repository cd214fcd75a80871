# What the scripts share; to be sourced. Sets `root` (the project's directory) and the settings of Open MPI for small machines.
# shellcheck shell=bash disable=SC2034

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(
  build-essential cmake ninja-build pkg-config libopenmpi-dev openmpi-bin
  libboost-dev libboost-mpi-dev libboost-serialization-dev libhdf5-openmpi-dev
  nlohmann-json3-dev libsqlite3-dev libxsimd-dev libsimdjson-dev libyaml-cpp-dev libcli11-dev zlib1g-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-h5py hdf5-tools sqlite3)
slurm_packages=(slurmctld slurmd slurm-client munge)
check_packages=(clang libclang-rt-14-dev clang-format clang-tidy git)

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
  exit 1
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]
}

# Installs the named Debian packages that are missing, as root or by sudo. Does nothing, and needs no network, when all are there.
install_missing() {
  local package missing=() become=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "no apt-get here: these Debian packages, or what they hold, must be installed already: $*"
    return
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "all packages are installed"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "missing packages: ${missing[*]}; neither root nor sudo is there to install them"
    become=(sudo)
  fi
  say "installing ${missing[*]}"
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Like install_missing, for what the project can do without: says so and goes on when it can't be had.
install_optional() {
  local purpose=$1
  shift
  if ! (install_missing "$@"); then
    say "$purpose: not tested, since not all of these packages could be installed: $*"
  fi
}

# Number of compilations at a time: the cores, but no more than 1.5 GiB of memory each.
jobs_at_once() {
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local by_memory=$((memory_kib / 1572864))
  [ "$by_memory" -lt 1 ] && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# Open MPI as root (containers), with more processes than cores, without spinning and without warnings about the network.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# Compilations of another clone of the project count for this one.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"
