#!/usr/bin/env bash
# Installs the Debian packages that OpenClaw is built and tested with. Does nothing, and prints
# nothing, where all of them are there. Runs as root, or through sudo.
set -euo pipefail

packages=(
  # the compiler and its tools
  cmake g++ ninja-build ccache clang-format abigail-tools
  # libraries
  libopenmpi-dev openmpi-bin libdnnl-dev libprotobuf-dev protobuf-compiler libabsl-dev libboost-dev
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libhwloc-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  # a second kind of device: OpenCL on the processor
  pocl-opencl-icd ocl-icd-opencl-dev opencl-headers libclblast-dev
  # what the examples train on
  dataset-fashion-mnist fortunes
)

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: this is no Debian: install what corresponds to: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: neither root nor sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
      -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "install_deps.sh: apt-get $1 failed" >&2
    exit 1
  fi
}
apt update
apt install --no-install-recommends "${missing[@]}"
