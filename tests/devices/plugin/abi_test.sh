#!/usr/bin/env bash
# Guards the layout of devices/openclaw_device.h with abidiff, against openclaw_device.abi beside this script.
#   abi_test.sh INCLUDE_DIR           fails where the interface changed: "broken" where plugins that are built
#                                     would misread it, "grown" where it only got more at the ends
#   abi_test.sh INCLUDE_DIR --update  takes the grown interface as the new state; refuses a broken one
#   abi_test.sh INCLUDE_DIR --break   takes any; for a new major version, or a minor one while that is 0
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$(cd "$1" && pwd)
mode=${2:-check}
stored=$here/openclaw_device.abi
for tool in abidw abidiff cc; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

build() {  # INCLUDE_DIR OUTPUT
  (cd "$here" && cc -std=c99 -g -O0 -shared -fPIC -I "$1" abi_probe.c -o "$2")
}
# Says same, grown or broken, and on stderr what abidiff saw.
compare() {  # OLD NEW
  local report rc=0
  report=$(abidiff "$1" "$2") || rc=$?
  if ((rc == 0)); then echo same; return; fi
  echo "$report" >&2
  # An enumerator or a member more at the end is the only change that old plugins survive.
  if ((rc & ~12)) || grep -Eq \
      'offset changed|deletion|type name changed|data member change|enumerator change|subrange|Removed function' \
      <(sed -E '/data member changes?:$/{N;/\n.*(pointed to|of type .* changed|type of )/d}' <<<"$report") ||
      ! grep -Eq 'insertion' <<<"$report"; then
    echo broken
  else
    echo grown
  fi
}

build "$include" "$tree/now.so"
if [[ $mode != check ]]; then
  if [[ -s $stored ]]; then
    what=$(compare "$stored" "$tree/now.so" 2>/dev/null)
    if [[ $what == broken && $mode != --break ]]; then
      echo "the interface is broken, not grown: $mode refused"
      exit 1
    fi
  fi
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed "$tree/now.so" >"$stored"
  exit 0
fi

what=$(compare "$stored" "$tree/now.so")
if [[ $what != same ]]; then
  echo "openclaw_device.h is $what; where that is meant, run abi_test.sh with --update or --break"
  exit 1
fi

# The guard itself: changes of both sorts are told apart.
expect() {  # WANTED SED-EXPRESSION
  mkdir -p "$tree/include/openclaw/devices"
  sed -E "$2" "$include/openclaw/devices/openclaw_device.h" >"$tree/include/openclaw/devices/openclaw_device.h"
  cmp -s "$include/openclaw/devices/openclaw_device.h" "$tree/include/openclaw/devices/openclaw_device.h" &&
    { echo "no line fits $2"; exit 1; }
  build "$tree/include" "$tree/changed.so"
  local got
  got=$(compare "$stored" "$tree/changed.so" 2>/dev/null)
  [[ $got == "$1" ]] || { echo "$2: taken as $got, is $1"; exit 1; }
}
expect grown 's/^(  void \(\*free_host\).*;)/\1\n  int32_t later;/'
expect broken 's/^  (const oc_capture_api\* capture;)/  int32_t before;\n  \1/'
expect broken 's/^  double seconds; .*expected.*/  float seconds;/'
expect broken 's/^  int32_t num_parts;//'
expect broken 's/char message\[1020\]/char message[500]/'
expect broken 's/^(  int64_t offset;)/  int64_t stride;\n\1/'
echo "openclaw_device.h: as it was"
