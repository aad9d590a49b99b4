#!/usr/bin/env bash
# install_test.sh BUILD_DIR CONSUMER_DIR: installs the built project into an empty prefix, then
# configures, builds and runs the consumer against that prefix alone.
set -euo pipefail
build=$1
consumer=$2
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

cmake --install "$build" --prefix "$tree/prefix" >"$tree/install.log" 2>&1 || {
  cat "$tree/install.log"
  exit 1
}
# Nothing that was installed may point back to the build or the sources.
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if grep -rIl -e "$build" -e "$source_dir" "$tree/prefix"; then
  echo "install_test: these installed files name the build folder or the sources"
  exit 1
fi
cmake -S "$consumer" -B "$tree/build" -G Ninja -DCMAKE_PREFIX_PATH="$tree/prefix" \
  -DCMAKE_BUILD_TYPE=Debug -DOC_EXAMPLES_DIR="$source_dir/examples"
cmake --build "$tree/build"
# The libraries are found by the run paths, inside the prefix alone.
unset LD_LIBRARY_PATH
cd "$tree"
"$tree/build/consumer"
"$tree/build/examples/train_mlp" 10
"$tree/build/examples/own_op" "$(find "$tree/build/examples" -name "libplain_device*")"
"$tree/prefix/bin/ocl" --version
