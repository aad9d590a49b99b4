#!/usr/bin/env bash
# Installs what is missing, builds into build/ and runs the default tests.
#   scripts/test.sh            the default suite (all but the tests labelled "long")
#   scripts/test.sh --long     every test
#   scripts/test.sh -R REGEX   further arguments go to ctest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip=(-LE '^long$')
if [[ ${1:-} == --long ]]; then
  skip=()
  shift
fi

scripts/install_deps.sh
cmake --preset release
cmake --build --preset release
# Two at a time; tests that need both cores for themselves carry RUN_SERIAL.
ctest --test-dir build --output-on-failure --no-tests=error --timeout 300 -j 2 "${skip[@]}" "$@"
