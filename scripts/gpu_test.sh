#!/usr/bin/env bash
# Runs the suites and benchmarks of GPUs from a bundle (scripts/bundle.sh), or from a build folder,
# and prints one table: what ran, how it ended, seconds, and its figure.
#   gpu_test.sh [--sanitize] [--logs FOLDER] [BUNDLE]
# --sanitize: the suites once more under compute-sanitizer (memcheck, racecheck), which takes minutes.
# Ends with 1 where anything failed, 77 where there is no GPU.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sanitize=0
logs=$(mktemp -d)
root=$here
[[ -d $root/bin ]] || root=$here/../build
while [[ $# -gt 0 ]]; do
  case $1 in
    --sanitize) sanitize=1 ;;
    --logs)
      logs=$2
      mkdir -p "$logs"
      shift
      ;;
    -*)
      sed -n '2,7s/^# \{0,1\}//p' "$0"
      exit 2
      ;;
    *) root=$1 ;;
  esac
  shift
done
# A bundle's libraries lie beside its programs; CUDA's where the toolkit or Python's wheels have them.
libraries=$root/lib:/usr/local/cuda/lib64
for folder in "${VIRTUAL_ENV:-/opt/torch/.venv}"/lib/python3*/site-packages/nvidia/*/lib; do
  [[ -d $folder ]] && libraries+=:$folder
done
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if ! nvidia-smi -L >"$logs/devices.txt" 2>&1; then
  echo "gpu_test.sh: skipped, no GPU: $(head -n 1 "$logs/devices.txt")"
  exit 77
fi

rows=()
failed=0
# run NAME FIGURE COMMAND...: FIGURE is a command that reads the log and prints a short text.
run() {
  local name=$1 figure=$2 begin end rc how
  shift 2
  if [[ ! -x $1 && $(type -t "$1") == "" ]]; then
    rows+=("$name|not there|-|")
    return
  fi
  begin=$(date +%s.%N)
  "$@" >"$logs/$name.log" 2>&1
  rc=$?
  end=$(date +%s.%N)
  case $rc in
    0) how=passed ;;
    77) how=skipped ;;
    *)
      how="FAILED ($rc)"
      failed=1
      ;;
  esac
  rows+=("$name|$how|$(awk "BEGIN {printf \"%.1f\", $end - $begin}")|$($figure "$logs/$name.log")")
}
tests() { grep -E '^\[  (PASSED|FAILED)  \] [0-9]+ test' "$1" | tr '\n' ' ' | sed 's/\[  //g; s/  \]//g'; }
errors() { grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$1" | tail -n 1 | sed 's/=* *//'; }
# The ops of cuda_ops and how near they come to their floors.
floors() {
  awk '/of it/ {n++; for (i = 2; i <= NF; i++) if ($i == "of") {s += $(i - 1); break}}
       END {if (n) printf "%d ops, %.2f of their floors on average", n, s / n}' "$1"
}
last() { grep -v '^$' "$1" | tail -n 1 | cut -c1-110; }

bin=$root/bin
run devices tests "$bin/devices_conformance_cuda_test"
run ops tests "$bin/ops_conformance_cuda_test"
run replay tests "$bin/runtime_replay_test"
if [[ $sanitize == 1 ]]; then
  small='*.add:*.linear:*.reduce_sum:*.transpose:*.batch_norm*:*.layer_norm*:*.softmax*:*.cross_entropy*'
  small+=':*.embedding*:*.adamw:*.sum_squares:*.max_pool2d*'
  for tool in memcheck racecheck; do
    run "devices-$tool" errors compute-sanitizer --tool $tool --error-exitcode 9 \
      "$bin/devices_conformance_cuda_test"
    run "ops-$tool" errors compute-sanitizer --tool $tool --error-exitcode 9 \
      "$bin/ops_conformance_cuda_test" "--gtest_filter=$small"
  done
fi
run cuda_ops floors "$bin/cuda_ops" "--json=$logs/cuda_ops.json"
run gpt2-124m last "$bin/train_step" gpt2-124m --device cuda --batch 64 --context 1024 --amp O2
run resnet50 last "$bin/train_step" resnet50 --device cuda --batch 256 --amp O2

head -n 1 "$logs/devices.txt"
printf '%-20s %-14s %8s  %s\n' what result seconds figure
for row in "${rows[@]}"; do
  IFS='|' read -r name how seconds figure <<<"$row"
  printf '%-20s %-14s %8s  %s\n' "$name" "$how" "$seconds" "$figure"
done
echo "logs: $logs"
exit $failed
