#!/usr/bin/env bash
# scripts/check_layers.sh finds each kind of violation, at its line, and lets legal includes pass.
set -euo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

put() {  # file, lines...
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$tree/$1"
}
expect() {  # what, file, expected part of the output (empty: no violation)
  local output rc=0
  output=$("$script" --root "$tree") || rc=$?
  if [[ -z $3 && ( $rc -ne 0 || -n $output ) ]] || [[ -n $3 && ( $rc -eq 0 || $output != *"$3"* ) ]]; then
    echo "FAILED $1: rc $rc, expected '${3:-nothing}', got '$output'"
    failed=1
  fi
  rm -rf "${tree:?}/${2%%/*}"
}

put graph/ok.h '#include <vector>' '#include "openclaw/core/shape.h"' '#include "graph.pb.h"'
expect 'downwards' graph/ok.h ''
put core/up.h '#pragma once' '#include "openclaw/graph/graph.h"'
expect 'upwards' core/up.h 'core/up.h:2: core/ may not include graph/'
put partitioner/p.cc '#include "openclaw/devices/vcu.h"'
expect 'planner without devices' partitioner/p.cc 'partitioner/p.cc:1: partitioner/ may not'
put runtime/r.cc '#include "openclaw/devices/cpu/kernels.h"'
expect 'a leaf' runtime/r.cc 'runtime/r.cc:1: includes the leaf devices/cpu/'
put devices/reference/r.cc '#include "openclaw/devices/cpu/kernels.h"'
expect 'another leaf' devices/reference/r.cc 'includes the leaf devices/cpu/'
put devices/cpu/r.cc '#include "openclaw/devices/cpu/kernels.h"' '#include <dnnl.hpp>'
expect 'the same leaf' devices/cpu/r.cc ''
put runtime/builtin_leaves.cc '#include "openclaw/devices/cpu/device.h"'
expect 'the list of leaves' runtime/builtin_leaves.cc ''
put comm/nccl/g.cc '#include "openclaw/devices/cuda/stream.h"'
expect 'a written exception' comm/nccl/g.cc ''
put comm/inproc/g.cc '#include "openclaw/devices/cuda/stream.h"'
expect 'no such exception' comm/inproc/g.cc 'includes the leaf devices/cuda/'
put core/c.h '#include <nlohmann/json.hpp>'
expect 'a large header' core/c.h 'core/c.h:1: <nlohmann/json.hpp> is a large library header'
put core/c.cc '#include <nlohmann/json.hpp>'
expect 'a large header in a source' core/c.cc ''
put runtime/m.cc '#include <mpi.h>'
expect "a vendor's header" runtime/m.cc '<mpi.h> belongs to the leaf comm/mpi/'
put comm/mpi/m.h '#include <mpi.h>'
expect "a vendor's header at home" comm/mpi/m.h ''
put tests/h.cc '#include "helpers.h"'
expect "a test's helper" tests/h.cc ''
put core/q.cc '#include "shape.h"'
expect 'a relative include' core/q.cc 'should read openclaw/<folder>/x.h'
put examples/e.cc '#include <openclaw/launcher/config/config.h>'
expect 'an example with the launcher' examples/e.cc 'examples/ may not include launcher/'
put examples/e.cc '#include <openclaw/openclaw.h>'
expect 'an example' examples/e.cc ''
put tests/t.cc '#include "openclaw/devices/cpu/kernels.h"'
expect 'tests see everything' tests/t.cc ''
exit $failed
