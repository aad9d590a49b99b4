#!/usr/bin/env bash
# train.deterministic: a run of a plan file repeats every loss and every byte of its checkpoints, alone
# with two threads a VCU and under mpirun, whatever its loader threads; with a file for the optimizer's
# states as without.
#   repeat_test.sh OCL
set -u
ocl=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2)
head -c 60000 "$ocl" | od -An -tx1 > "$dir/text.txt"
cat > "$dir/gpt.yaml" <<YAML
model: {name: gpt2, layers: 2, width: 64, heads: 2, context: 32, dropout: 0.1}
data: {format: text, train: [$dir/text.txt], workers: 2}
train: {steps: 4, micro_batch: 2, global_batch: 8, deterministic: true}
optimizer: {name: adamw, lr: 6.0e-4, clip_norm: 1.0}
parallel: {balance: even}
cluster: [{device: cpu, cores: 1}]
YAML

# NAME LAUNCHER... -- ARGUMENTS...: trains into $dir/NAME and prints what must repeat.
train() {
  local name=$1 launcher=()
  shift
  while [[ $1 != -- ]]; do
    launcher+=("$1")
    shift
  done
  shift
  if ! "${launcher[@]}" "$ocl" train "$dir/gpt.yaml" --run-dir "$dir/$name" "$@" > "$dir/$name.log" 2>&1; then
    echo "$name: failed" >&2
    tail -5 "$dir/$name.log" >&2
    return 1
  fi
  grep -o '"loss":[^,}]*' "$dir/$name/metrics.jsonl"
  (cd "$dir/$name/checkpoints" && find . -type f | sort | xargs sha256sum)
}
# NAME LAUNCHER... -- ARGUMENTS...
expect_repeats() {
  local name=$1
  shift
  train "$name-1" "$@" > "$dir/first" && train "$name-2" "$@" --plan "$dir/$name-1/plan.json" > "$dir/second" || {
    failures=$((failures + 1))
    return
  }
  if [[ $(grep -c loss "$dir/first") -ne 4 ]] || ! diff "$dir/first" "$dir/second"; then
    echo "$name: the second run is another"
    failures=$((failures + 1))
  fi
}

expect_repeats threads -- 'cluster=[{device: cpu, cores: 2}]'
expect_repeats ranks "${mpi[@]}" -- parallel.data_parallel=2
expect_repeats file "${mpi[@]}" -- parallel.data_parallel=2 parallel.offload.optimizer=file "parallel.offload.path=$dir"

# Shards of both ways of keeping states are equal; their plans are not.
for shard in "$dir"/ranks-1/checkpoints/*/*.safetensors; do
  if ! cmp "$shard" "${shard/ranks-1/file-1}"; then
    echo "states in a file: another result"
    failures=$((failures + 1))
  fi
done
exit $((failures > 0))
