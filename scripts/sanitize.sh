#!/usr/bin/env bash
# Builds with sanitizers and runs the test suites under them.
#   scripts/sanitize.sh                 address and undefined behaviour: all suites; then threads:
#                                       the suites labelled "tsan"
#   scripts/sanitize.sh --short         only the suites labelled "short" (of those), not optimised,
#                                       in build-asan-short/ and build-tsan-short/
#   scripts/sanitize.sh --only asan     one of asan, tsan
#   scripts/sanitize.sh --build-root D  build folders D/build-asan and D/build-tsan
# The thread sanitizer runs reference kernels over the in-process transport: Debian's oneDNN and
# libgomp report races of their own. Which suites keep to that, they say by the label "tsan".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source_dir=$PWD

short=0
root=$source_dir
kinds=(asan tsan)
while [[ $# -gt 0 ]]; do
  case $1 in
    --short) short=1 ;;
    --only) kinds=("$2"); shift ;;
    --build-root) mkdir -p "$2"; root=$(cd "$2" && pwd); shift ;;
    *) echo "sanitize.sh: unknown argument $1" >&2; exit 2 ;;
  esac
  shift
done

supp=$source_dir/scripts/sanitizers
# Tests crash processes on purpose, which is told by the signal.
export ASAN_OPTIONS="detect_stack_use_after_return=0:strict_init_order=1:handle_segv=0"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:suppressions=$supp/ubsan.supp"
export LSAN_OPTIONS="suppressions=$supp/lsan.supp:print_suppressions=0"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$supp/tsan.supp"

# The sanitizers want the classic memory layout, which kernels with much randomisation do not give.
run=()
if setarch "$(uname -m)" -R true 2>/dev/null; then run=(setarch "$(uname -m)" -R); fi

for kind in "${kinds[@]}"; do
  # Tests of the project itself (formatting, installation) say nothing under a sanitizer.
  select=(-LE '^(project|long|nosanitize)$')
  target=all
  build=$root/build-$kind
  options=()
  if [[ $kind == tsan ]]; then
    select+=(-L '^tsan$')
    target=tests_tsan
  fi
  if [[ $short -eq 1 ]]; then
    select+=(-L '^short$')
    build+=-short
    options=(-DOC_SANITIZE_OPTIMIZE=0)
    [[ $kind == tsan ]] && target=tests_tsan_short || target=tests_short
  fi
  echo "== $kind: build"
  cmake --preset "$kind" -B "$build" "${options[@]}" >/dev/null
  cmake --build "$build" --target "$target"
  echo "== $kind: run"
  "${run[@]}" ctest --test-dir "$build" --output-on-failure --no-tests=error \
    --timeout 900 -j 2 "${select[@]}"
done
echo "sanitize.sh: clean (${kinds[*]})"
