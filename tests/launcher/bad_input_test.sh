#!/usr/bin/env bash
# Bad input of every kind: a clear error, a non-zero exit within 10 seconds, nothing half-written.
#   bad_input_test.sh OCL SOURCE_DIR
set -u
ocl=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
config=$source/examples/fashion_mnist.yaml
data=/usr/share/datasets/fashion-mnist

expect() {  # NAME PATTERN COMMAND...
  local name=$1 pattern=$2
  shift 2
  rm -rf "$dir/run"
  timeout 10 "$@" > "$dir/out" 2>&1
  local code=$?
  if [[ $code -eq 0 || $code -eq 124 || $code -ge 128 ]] || ! grep -Eq "$pattern" "$dir/out"; then
    echo "FAILED: $name: exit code $code, wanted /$pattern/ in:"
    tail -n 5 "$dir/out"
    failures=$((failures + 1))
  elif [[ -n $(find "$dir/run" -name 'step-*' 2>/dev/null) ]]; then
    echo "FAILED: $name: left a checkpoint behind"
    failures=$((failures + 1))
  else
    echo "ok: $name: $(grep -Eo "[^ ]* [^ ]* [^ ]* $pattern.*" "$dir/out" | head -1 | cut -c1-110)"
  fi
}
train() { expect "$1" "$2" "$ocl" train "$config" --run-dir "$dir/run" train.epochs=1 "${@:3}"; }

# The file.
expect "no such file" "nowhere.yaml" "$ocl" train nowhere.yaml
sed 's/micro_batch: 64/micro_bach: 64/' "$config" > "$dir/typo.yaml"
expect "mistyped key" "typo.yaml:[0-9]+.*micro_bach.*micro_batch" "$ocl" train "$dir/typo.yaml"
train "value out of range" "lr" optimizer.lr=-1
train "wrong type" "micro_batch" train.micro_batch=many
train "not built: precision" "amp_level" precision.amp_level=O2-fp8
train "not built: schedule" "schedule" parallel.schedule=zb-h1
train "unknown optimizer" "lionn.*one of.*lion" optimizer.name=lionn
train "unknown model key" "depht" model.depht=3

# The data.
train "missing data" "no-such-file" data.train.images=/no-such-file
head -c 100000 $data/train-images-idx3-ubyte.gz > "$dir/cut.gz"
train "truncated data" "cut.gz" data.train.images="$dir/cut.gz"
train "mislabelled data" "train-labels" data.train.images=$data/train-labels-idx1-ubyte.gz
train "label beyond the classes" "label" model.classes=5
printf 'ab\xff%.0s' {1..400} > "$dir/bytes.txt"
expect "token beyond the vocabulary" "(token|vocabulary)" "$ocl" train "$source/examples/gpt_text.yaml" \
  --run-dir "$dir/run" data.train="[$dir/bytes.txt]" data.validation="[$dir/bytes.txt]" model.vocabulary=128

# The plan.
train "batch that does not divide" "global_batch|global batch" train.global_batch=100
train "model too big for the budget" "(exceeds|too many|budget)" 'cluster=[{device: cpu, cores: 1, memory: 1MiB}, {device: cpu, cores: 1, memory: 1MiB}]'
train "unknown module to cut after" "nearest" "parallel.stages=[conv9]"
train "unknown device" "leaf" 'cluster=[{device: tpu}, {device: tpu}]'
printf '{"format": "openclaw-plan"' > "$dir/plan.json"
train "damaged plan" "plan" --plan "$dir/plan.json"

# A graph file.
head -c 300 /dev/urandom > "$dir/noise.oc"
sed "s|^model:.*|model: {graph: $dir/noise.oc}|" "$config" > "$dir/graph.yaml"
expect "no graph file" "noise.oc" "$ocl" train "$dir/graph.yaml" --run-dir "$dir/run"

# Two ranks with different configurations.
cat > "$dir/rank.sh" <<END
#!/usr/bin/env bash
exec "$ocl" train "$config" --run-dir "$dir/run" optimizer.lr=0.00\$((OMPI_COMM_WORLD_RANK + 1))
END
chmod +x "$dir/rank.sh"
expect "ranks that differ" "optimizer.lr 0.001 vs 0.002" mpirun --allow-run-as-root --oversubscribe \
  --bind-to none -np 2 "$dir/rank.sh"
exit $failures
