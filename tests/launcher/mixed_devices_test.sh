#!/usr/bin/env bash
# One job on two and three kinds of device: a convolutional network on Fashion-MNIST and a GPT on the
# text of `fortunes`, with stages on cpu and opencl, and with replicas on cpu, opencl and ascend (on
# the emulated libraries), in one process and under mpirun. Each loss curve is that of one cpu VCU.
#   mixed_devices_test.sh OCL SOURCE_DIR ASCEND_EMULATOR_DIR
set -u
ocl=$1
source=$2
export ASCEND_HOME_PATH=$3
tolerance=1e-4  # relative; f32 sums in other orders
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
[[ -e /usr/share/datasets/fashion-mnist && -e /usr/share/games/fortunes/work ]] || {
  echo "skipped: dataset-fashion-mnist and fortunes are not installed"
  exit 77
}
if "$ocl" doctor --devices opencl > "$dir/doctor.log" 2>&1; then
  second=opencl
else
  second=ascend
  echo "without opencl: ascend takes its place"
fi

cpu='{device: cpu, cores: 1}'
other="{device: $second, memory: 1GiB}"
third='{device: ascend, memory: 1GiB}'
small_gpt=(model.layers=2 model.width=64 model.context=64 train.micro_batch=4 train.global_batch=24
  optimizer.schedule.warmup_steps=4)
small_lenet=(train.micro_batch=16 train.global_batch=96 optimizer.schedule.warmup_steps=4)

# NAME MODEL LAUNCHER... -- OVERRIDES...: trains and keeps the losses in $dir/NAME.losses
train() {
  local name=$1 model=$2 launcher=()
  shift 2
  while [[ $1 != -- ]]; do
    launcher+=("$1")
    shift
  done
  shift
  local config=gpt_text settings=("${small_gpt[@]}")
  [[ $model == lenet ]] && config=fashion_mnist settings=("${small_lenet[@]}")
  timeout 120 "${launcher[@]}" "$ocl" train "$source/examples/$config.yaml" --run-dir "$dir/$name" \
    train.steps=10 train.evaluate_every=10 log.every=1 log.tensorboard=false \
    comm_options.gradient_accumulation=auto "${settings[@]}" "$@" > "$dir/$name.log" 2>&1 || {
    echo "FAILED: $name ends with $?"
    tail -n 6 "$dir/$name.log"
    failures=$((failures + 1))
  }
  grep -o '"step":[0-9]*,"loss":[^,]*' "$dir/$name/metrics.jsonl" 2>/dev/null |
    sed 's/.*"loss"://' > "$dir/$name.losses"
}
# NAME REFERENCE: ten losses, each within the tolerance
compare() {
  if paste "$dir/$1.losses" "$dir/$2.losses" | awk -v tolerance=$tolerance '
      { d = $1 - $2; if (d < 0) d = -d; d /= $2; if (d > worst) worst = d; lines += NF == 2 }
      END { printf "largest relative difference %.2g over %d steps\n", worst, lines
            exit !(lines == 10 && worst <= tolerance) }' > "$dir/compare.log"; then
    echo "ok: $1: $(cat "$dir/compare.log")"
  else
    echo "FAILED: $1 against $2: $(cat "$dir/compare.log")"
    failures=$((failures + 1))
  fi
}

for model in lenet gpt; do
  train "$model-one" $model -- "cluster=[$cpu]" comm_options.pipeline_depth=1 \
    parallel.data_parallel=1
  two=(comm_options.pipeline_depth=2 parallel.data_parallel=1)
  train "$model-pipeline" $model -- "cluster=[$cpu, $other]" "${two[@]}"
  train "$model-pipeline-mpirun" $model "${mpi[@]}" -np 2 -- "cluster=[$cpu, $other]" "${two[@]}"
  two=(comm_options.pipeline_depth=1 parallel.data_parallel=2)
  train "$model-replicas" $model -- "cluster=[$cpu, $other]" "${two[@]}"
  three=(comm_options.pipeline_depth=1 parallel.data_parallel=3)
  train "$model-three" $model -- "cluster=[$cpu, $other, $third]" "${three[@]}"
  train "$model-three-mpirun" $model "${mpi[@]}" -np 3 -- "cluster=[$cpu, $other, $third]" \
    "${three[@]}"
  for run in pipeline pipeline-mpirun replicas three three-mpirun; do
    compare "$model-$run" "$model-one"
  done
done

# cluster: auto takes what is there, alone and under mpirun: more ranks than devices, and fewer.
check() {  # NAME COMMAND...
  local name=$1
  shift
  if "$@"; then echo "ok: $name"; else
    echo "FAILED: $name"
    failures=$((failures + 1))
  fi
}
found='^cluster: auto: cpu:0 (.*), ascend:0 (.*), ascend:1 (.*)'
"$ocl" plan "$source/examples/gpt_text.yaml" "${small_gpt[@]}" comm_options.pipeline_depth=1 \
  comm_options.gradient_accumulation=auto parallel.data_parallel=1 > "$dir/plan.log" 2>&1
check "auto: ocl plan tells what it found" grep -q "$found" "$dir/plan.log"
three=(comm_options.pipeline_depth=1 parallel.data_parallel=3)
train auto-alone gpt -- "${three[@]}"
check "auto: the log tells what was found" grep -q "cluster: auto: cpu:0 (.*), ascend:0 (" "$dir/auto-alone.log"
train auto-three-ranks gpt "${mpi[@]}" -np 3 -- "${three[@]}"
check "auto: ranks beyond the devices take the processors" \
  grep -q '"name":"cpu:2.0"' "$dir/auto-three-ranks/metrics.jsonl"
export ASCEND_EMULATOR_DEVICES=3
train auto-two-ranks gpt "${mpi[@]}" -np 2 -- "${three[@]}"
check "auto: a rank takes two of three devices" \
  grep -q '"name":"ascend:0.1"' "$dir/auto-two-ranks/metrics.jsonl"
check "auto: the processors are left out" grep -q "left out: .*cpu:0 (.*each process" "$dir/auto-two-ranks.log"
for run in auto-alone auto-three-ranks auto-two-ranks; do compare $run gpt-one; done
exit $((failures > 0))
