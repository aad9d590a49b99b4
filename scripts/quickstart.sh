#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds the command `ocl`, and trains a
# small convolutional network on Fashion-MNIST over two virtual compute units.
#   scripts/quickstart.sh [key.path=value ...]    as `ocl train` takes them, e.g. train.epochs=1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run_dir=runs/quickstart
config=examples/fashion_mnist.yaml

scripts/install_deps.sh
echo "Building build/bin/ocl (some minutes the first time) ..."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run_quietly() {  # shows the output only where the command fails
  "$@" >"$log" 2>&1 && return
  tail -n 60 "$log" >&2
  echo "quickstart.sh: failed: $*" >&2
  exit 1
}
build=(cmake --build --preset release --target ocl)
run_quietly cmake --preset release
# On a terminal ninja shows its progress in one line.
if [[ -t 1 ]]; then "${build[@]}"; else run_quietly "${build[@]}"; fi

# A fresh run each time: an old one would be resumed from its checkpoint.
rm -rf "$run_dir"
command=(build/bin/ocl train "$config" --run-dir "$run_dir" "$@")
echo "Running: ${command[*]}"
"${command[@]}"

cat <<END

The run's files are in $run_dir:
  config.yaml     the experiment, every key written out
  plan.json       stages, shares, schedule, and what was predicted before the first step
  metrics.jsonl   a line every log.every steps; the last one is the summary
  tensorboard/    the same for TensorBoard
  checkpoints/    weights and training state (safetensors and a manifest)
Next: build/bin/ocl plan $config --svg plan.svg    draws the timeline
      scripts/test.sh                                             runs the tests
END
