#!/usr/bin/env bash
# Every command of `ocl` on tiny real runs: the files that it writes, what it prints, how it ends.
#   commands_test.sh OCL SOURCE_DIR
set -u
ocl=$1
dir=$(mktemp -d)
failures=0
started=()
finish() {
  for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  rm -rf "$dir"
}
trap finish EXIT
cd "$dir" || exit 1
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none -x ASAN_OPTIONS=detect_leaks=0)  # it leaks at exit

check() {  # NAME COMMAND...: the command succeeds
  local name=$1
  shift
  if "$@" > check.log 2>&1; then
    echo "ok: $name"
  else
    echo "FAILED: $name: $*"
    tail -n 5 check.log
    failures=$((failures + 1))
  fi
}
run() {  # CODE LOG COMMAND...: the command ends with the code within a minute; its output is in LOG
  local wanted=$1 log=$2
  shift 2
  timeout 60 "$@" > "$log" 2> "$log.err"
  local code=$?
  [[ $code -eq $wanted ]] && return
  echo "FAILED: exit code $code, wanted $wanted: $*"
  tail -n 5 "$log" "$log.err"
  failures=$((failures + 1))
}
refused() { run 1 "$1" "${@:3}" && check "refused: $2" grep -Eq "$2" "$1.err"; }
same() { [[ -n $1 && $1 == "$2" ]] || { echo "'$1' is not '$2'"; false; }; }
differ() { [[ $1 != "$2" ]] || { echo "both are '$1'"; false; }; }
# Of a run's metrics: what depends on nothing but the computation, a line a step.
losses() { grep -o '"step":[0-9]*,"loss":[^,]*,"lr":[^,]*,"grad_norm":[^,]*' "$1/metrics.jsonl"; }
summary() { tail -n 1 "$1/metrics.jsonl" | grep -o "\"$2\":[^,}]*" | cut -d: -f2; }
newest() { ls -d "$1"/checkpoints/step-* | tail -n 1; }

# A text, and 64 images of 4 by 4 pixels whose brightness tells their label.
awk 'BEGIN { for (i = 0; i < 600; ++i) printf "%d times %d is %d\n", i % 7, i % 11, i % 7 * (i % 11) }' > text.txt
head -c 1500 text.txt > validation.txt
awk 'BEGIN { printf "\\0\\0\\010\\003\\0\\0\\0\\100\\0\\0\\0\\004\\0\\0\\0\\004"
  for (i = 0; i < 64 * 16; ++i) printf "\\%03o", int(i / 16) % 2 ? 150 + i % 90 : i % 90 }' > images.esc
awk 'BEGIN { printf "\\0\\0\\010\\001\\0\\0\\0\\100"
  for (i = 0; i < 64; ++i) printf "\\%03o", i % 2 }' > labels.esc
printf "$(cat images.esc)" > images.idx
printf "$(cat labels.esc)" > labels.idx
# The cut is given: two plans of it compute the same bits.
cat > gpt.yaml <<'END'
model: {name: gpt2, layers: 2, width: 16, heads: 2, context: 16}
data: {format: text, train: [text.txt], validation: [validation.txt]}
train: {steps: 8, micro_batch: 4, seed: 3, evaluate_every: 4}
optimizer: {name: adamw, lr: 3.0e-3, clip_norm: 1.0}
comm_options: {gradient_accumulation: 2, pipeline_depth: 2}
parallel: {data_parallel: 1, schedule: 1f1b, recompute: none, stages: [transformer.h.0]}
END
cat > mlp.yaml <<'END'
model: {name: mlp, hidden: [8], classes: 2}
data:
  format: idx
  train: {images: images.idx, labels: labels.idx}
  validation: {images: images.idx, labels: labels.idx}
train: {epochs: 3, micro_batch: 8}
optimizer: {name: sgd, lr: 0.05}
comm_options: {gradient_accumulation: 1, pipeline_depth: 1}
END

# train: the files of the run.
run 0 train.log "$ocl" train gpt.yaml --run-dir gpt optimizer.lr=2e-3
check "train: config.yaml holds the override" grep -q "lr: 0.002" gpt/config.yaml
check "train: config.yaml is an experiment" "$ocl" plan gpt/config.yaml
check "train: plan.json holds predictions" grep -q '"predicted_step_seconds": 0\.[0-9]*[1-9]' gpt/plan.json
check "train: the prediction is older than the measurements" [ gpt/plan.json -ot gpt/metrics.jsonl ]
check "train: and is the summary's" same \
  "$(grep -o '"predicted_step_seconds": [0-9.e-]*' gpt/plan.json | tail -n 2 | cut -d' ' -f2)" \
  "$(summary gpt predicted_step_seconds)"
check "train: a line a step, then the summary" same "$(grep -c . gpt/metrics.jsonl)" 9
check "train: steps 1 to 8" same "$(losses gpt | grep -o '"step":[0-9]*' | tr -dc '0-9\n' | paste -sd' ')" \
  "1 2 3 4 5 6 7 8"
check "train: validation every 4 steps" same \
  "$(grep validation_loss gpt/metrics.jsonl | grep -o '^{"[a-z]*"[^,{]*' | paste -sd' ')" '{"step":4 {"step":8 {"summary":'
check "train: the loss falls" awk "BEGIN { exit !($(summary gpt final_loss) < 5.4) }"
for tag in train/loss train/lr validation/validation_loss; do
  check "train: TensorBoard has $tag" grep -aq "$tag" gpt/tensorboard/events.out.tfevents.*
done
check "train: the checkpoint's manifest" grep -Eq '"step": 8\b' gpt/checkpoints/step-00000008/manifest.json
check "train: names what the shard holds" grep -q '"transformer.wte' gpt/checkpoints/step-00000008/manifest.json
check "train: in a shard" [ -s gpt/checkpoints/step-00000008/rank-0.safetensors ]
check "train: the summary is printed" grep -Eq '^done after 8 steps' train.log

# A finished run stays as it is.
cp gpt/metrics.jsonl metrics.before
run 0 again.log "$ocl" train gpt.yaml --run-dir gpt optimizer.lr=2e-3
check "train: nothing left to do" grep -q "nothing left to do.*8 of 8 steps" again.log.err
check "train: its metrics stay" cmp gpt/metrics.jsonl metrics.before

# eval: what training measured last.
run 0 mlp.log "$ocl" train mlp.yaml --run-dir mlp
run 0 eval.log "$ocl" eval mlp.yaml --run-dir mlp
check "eval: the run's last accuracy" grep -q "accuracy $(printf %.4f "$(summary mlp validation_accuracy)")$" eval.log
check "eval: the run's last loss" grep -q "loss $(printf %.6f "$(summary mlp validation_loss)") over 64 samples" eval.log
run 0 eval.log "$ocl" eval gpt.yaml --checkpoint gpt/checkpoints/step-00000008
check "eval: of a checkpoint" grep -q "loss $(printf %.6f "$(summary gpt validation_loss)") over" eval.log
refused eval.log "name a checkpoint" "$ocl" eval gpt.yaml
refused eval.log "no checkpoint in nowhere/checkpoints" "$ocl" eval gpt.yaml --run-dir nowhere

# generate: so many bytes, and the same for a seed.
generate() { run 0 "$1" "$ocl" generate gpt.yaml --run-dir gpt --tokens 40 --prompt "3 times " "${@:2}"; }
generate text.1
generate text.2
generate text.3 --seed 2
generate text.4 --temperature 0
generate text.5 --temperature 0 --seed 2
check "generate: the prompt and 40 bytes" same "$(wc -c < text.1)" 49
check "generate: begins with the prompt" same "$(head -c 8 text.1)" "3 times "
check "generate: repeatable" cmp text.1 text.2
check "generate: another seed" eval "! cmp -s text.1 text.3"
check "generate: temperature 0 has one answer" cmp text.4 text.5
refused text.6 "no language model.*idx" "$ocl" generate mlp.yaml --run-dir mlp
refused text.6 "tokens 0 is not positive" "$ocl" generate gpt.yaml --run-dir gpt --tokens 0
refused text.6 "top-k -1 is negative" "$ocl" generate gpt.yaml --run-dir gpt --top-k -1

# plan: text, picture, and a plan that train takes.
run 0 plan.log "$ocl" plan gpt.yaml --json plan.json --svg plan.svg
check "plan: stages and predictions" grep -Eq "^2 stages, schedule 1f1b, 2 micro-batches of 4 samples, predicted [0-9.]+ ms" plan.log
if command -v python3 > /dev/null; then
  check "plan: the picture is well-formed" python3 -c "import xml.dom.minidom as x; x.parse('plan.svg')"
else
  check "plan: the picture is closed" eval "head -c 4 plan.svg | grep -q '<svg' && tail -n 1 plan.svg | grep -q '</svg>'"
fi
check "plan: a row a VCU" eval "grep -q 'cpu:0.0' plan.svg && grep -q 'cpu:0.1' plan.svg"
run 0 train.log "$ocl" train gpt.yaml --run-dir planned --plan plan.json parallel.schedule=gpipe
check "train --plan: runs that plan" same "$(sed -n '/"schedule"/,/^ ],/p' planned/plan.json)" \
  "$(sed -n '/"schedule"/,/^ ],/p' plan.json)"
refused train.log "made for another model or micro-batch" "$ocl" train gpt.yaml --run-dir other \
  --plan plan.json model.width=32

# plan for machines that are not there: as this one, or with costs of a profile.
cat > cluster.yaml <<'END'
vcus: [{device: cpu, threads: 1, memory: 1GiB, count: 2}]
links: {default: {latency: 20e-6, bandwidth: 1GB}}
END
run 0 plan.log "$ocl" plan gpt.yaml --cluster cluster.yaml --json plan.json
check "plan --cluster: on its VCUs" eval "grep -q 'on cpu:0 ' plan.log && grep -q 'on cpu:1 ' plan.log"
run 0 train.log "$ocl" train gpt.yaml --run-dir clustered --plan plan.json
sed 's|1GiB|260KiB|' cluster.yaml > tight.yaml
run 0 plan.log "$ocl" plan gpt.yaml --cluster tight.yaml comm_options.gradient_accumulation=4 parallel.recompute=auto
check "plan --cluster: recomputes where memory is short" grep -q "recompute auto: in stage .* computed again in backward" plan.log
kind=$(grep -o ' on cpu/[^"]*/1t' gpt/profile.json | head -n 1 | cut -d' ' -f3)
sed "s|threads: 1,|threads: 64, kind: $kind,|" cluster.yaml > big.yaml
run 0 plan.log "$ocl" plan gpt.yaml --cluster big.yaml --profile gpt/profile.json
sed 's|threads: 1,|threads: 4096,|' cluster.yaml > big.yaml
refused plan.log "no costs for VCU cpu:0.*4096 threads" "$ocl" plan gpt.yaml --cluster big.yaml
sed 's|"seconds": [0-9.e-]*|"seconds": 0.5|' gpt/profile.json > slow.json
run 0 plan.log "$ocl" plan gpt.yaml --profile slow.json
check "plan --profile: its costs count" grep -Eq "predicted [0-9]{4,}[0-9.]* ms" plan.log
refused plan.log "no profile nowhere.json" "$ocl" plan gpt.yaml --profile nowhere.json

# doctor: the machine that all this runs on is well; what is asked for must be there.
run 0 doctor.log "$ocl" doctor --json doctor.json
check "doctor: the cpu trains" grep -Eq "^ok +cpu:0 .*trains mlp.*trains gpt" doctor.log
check "doctor: the JSON file" grep -q '"ok": true' doctor.json
refused doctor.log "faults were found" "$ocl" doctor --devices gpux
check "doctor: names what is absent, and a remedy" grep -A1 -Eq "^fault +gpux" doctor.log
run 0 parity.log "$ocl" doctor --parity --devices cpu reference --json parity.json
check "doctor --parity: a table" grep -Eq "training of gpt +losses" parity.log
check "doctor --parity: the JSON file" grep -q '"way": "backward"' parity.json
refused parity.log "one kind of device" "$ocl" doctor --parity --devices cpu

# Signals: the step is saved, the exit code tells. Resumed, the run is the one that was never
# stopped, to the bit.
wait_for_step() {  # STEP LOG PID
  for _ in $(seq 300); do
    grep -aq "^step $1/" "$2" 2> /dev/null && return
    kill -0 "$3" 2> /dev/null || return
    sleep 0.1
  done
}
endless=(train.steps=1000000 train.evaluate_every=0)
interrupted() {  # SIGNAL CODE RUN
  "$ocl" train gpt.yaml --run-dir "$3" "${endless[@]}" > "$3.log" 2>&1 &
  local pid=$!
  started+=($pid)
  wait_for_step 20 "$3.log" $pid
  kill "-$1" $pid
  wait $pid
  check "$1: exit code" same $? "$2"
  check "$1: the summary says stopped" grep -q "^stopped after" "$3.log"
  check "$1: the last step is saved" same "$(newest "$3")" \
    "$(printf '%s/checkpoints/step-%08d' "$3" "$(summary "$3" steps)")"
}
interrupted TERM 143 stopped
interrupted INT 130 stopped_by_int
steps=$(($(summary stopped steps) + 5))
run 0 resumed.log "$ocl" train gpt.yaml --run-dir stopped train.steps=$steps train.evaluate_every=0
check "resume: from the saved step" grep -q "after step $((steps - 5))" resumed.log.err
run 0 whole.log "$ocl" train gpt.yaml --run-dir whole train.steps=$steps train.evaluate_every=0
check "resume: the same losses" same "$(losses stopped)" "$(losses whole)"
check "resume: the same weights" cmp "$(newest stopped)/rank-0.safetensors" "$(newest whole)/rank-0.safetensors"

# Two processes: one plan over another transport gives the same bits.
"${mpi[@]}" -np 1 true > /dev/null 2>&1 || { echo "no mpirun: the rest is left out"; exit $failures; }
cat > rank.sh <<'END'
#!/usr/bin/env bash
echo $$ > "$1.pid.$OMPI_COMM_WORLD_RANK"
exec "${@:2}" > "$1.log.$OMPI_COMM_WORLD_RANK" 2>&1
END
chmod +x rank.sh
run 0 ranks.log "${mpi[@]}" -np 2 ./rank.sh ranks "$ocl" train gpt.yaml --run-dir ranks \
  --plan whole/plan.json train.steps=10 train.evaluate_every=0
check "2 ranks: the same losses" same "$(losses ranks)" "$(losses whole | head -n 10)"
check "2 ranks: a shard each" [ -s ranks/checkpoints/step-00000010/rank-1.safetensors ]
run 0 eval.log "$ocl" eval gpt.yaml --run-dir ranks
check "2 ranks: evaluated by one" grep -q "loss $(printf %.6f "$(summary ranks validation_loss)") over" eval.log

# A signal to one rank stops both in one step.
"${mpi[@]}" -np 2 ./rank.sh signalled "$ocl" train gpt.yaml --run-dir signalled "${endless[@]}" > mpi.log 2>&1 &
started+=($!)
wait_for_step 20 signalled.log.0 $!
kill -TERM "$(cat signalled.pid.1)"
wait "${started[-1]}"
check "TERM to a rank: exit code" same $? 143
check "TERM to a rank: all stop" grep -q "^stopped after" signalled.log.0
check "TERM to a rank: the last step is saved" same "$(newest signalled)" \
  "$(printf 'signalled/checkpoints/step-%08d' "$(summary signalled steps)")"
# One to mpirun reaches all ranks, which have the given seconds to save.
"${mpi[@]}" --mca odls_base_sigkill_timeout 3 -np 2 ./rank.sh launched "$ocl" train gpt.yaml \
  --run-dir launched "${endless[@]}" > mpi.log 2>&1 &
started+=($!)
wait_for_step 20 launched.log.0 $!
kill -TERM "${started[-1]}"
wait "${started[-1]}"
check "TERM to mpirun: no success" differ $? 0
check "TERM to mpirun: the last step is saved" same "$(newest launched)" \
  "$(printf 'launched/checkpoints/step-%08d' "$(summary launched steps)")"
exit $failures
