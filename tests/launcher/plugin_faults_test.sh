#!/usr/bin/env bash
# Plugins that do what a plugin must not, in `ocl train`: the job says which plugin, device and op, and ends
# within its timeout; it neither hangs nor dies without a word.
#   plugin_faults_test.sh OCL FOLDER_OF_PLUGINS
set -u
ocl=$1 plugins=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
cd "$dir" || exit 1

# 64 images of 4 by 4 pixels whose brightness tells their label.
awk 'BEGIN { printf "\\0\\0\\010\\003\\0\\0\\0\\100\\0\\0\\0\\004\\0\\0\\0\\004"
  for (i = 0; i < 64 * 16; ++i) printf "\\%03o", int(i / 16) % 2 ? 150 + i % 90 : i % 90 }' > images.esc
awk 'BEGIN { printf "\\0\\0\\010\\001\\0\\0\\0\\100"
  for (i = 0; i < 64; ++i) printf "\\%03o", i % 2 }' > labels.esc
printf "$(cat images.esc)" > images.idx
printf "$(cat labels.esc)" > labels.idx

config() {  # PLUGIN CLUSTER TIMEOUT DEPTH
  cat > "$1.yaml" <<END
model: {name: mlp, hidden: [8], classes: 2}
data: {format: idx, train: {images: images.idx, labels: labels.idx}}
train: {epochs: 100, micro_batch: 8}
optimizer: {name: sgd, lr: 0.05}
plugins: [$plugins/libfaulty_$1.so]
cluster: [$2]
comm_options: {gradient_accumulation: 2, pipeline_depth: $4, timeout_seconds: $3}
log: {every: 1}
END
  # The cut is given: wherever the plugin's device stands, it has a linear layer to compute.
  [[ $4 -eq 2 ]] && echo "parallel: {stages: [layers.0]}" >> "$1.yaml"
  return 0
}
verdict() {  # NAME PATTERN CODE WANTED SECONDS LIMIT LOG
  if [[ $3 -ne $4 || $5 -gt $6 ]] || ! grep -Eq "$2" "$7"; then
    echo "FAILED: $1: exit code $3 after $5 s, wanted $4 within $6 s and /$2/ in:"
    tail -n 5 "$7"
    failures=$((failures + 1))
  else
    echo "ok: $1: $(grep -Eo "$2.*" "$7" | head -n 1 | cut -c1-150)"
  fi
}
train() {  # PLUGIN CODE PATTERN [CLUSTER DEPTH]
  config "$1" "${4:-{device: plain\}}" 1 "${5:-1}"
  local begin=$SECONDS
  timeout 60 "$ocl" train "$1.yaml" --run-dir "run_$1" > "$1.log" 2>&1
  verdict "$1" "$3" $? "$2" $((SECONDS - begin)) 25 "$1.log"
}
mixed='{device: cpu, cores: 1}, {device: plain}'
device="device plain:0 of plugin [^ ]*libfaulty"
step="VCU plain:0.[01], compute [A-Z]+[0-9]+ of micro-batch [01]"

# At load.
for fault in crash:"crashed \(signal 6" no_symbol:"exports no openclaw_device_query" \
  version:"shares no version" other_major:"has version 7.2" exit:"ended the process" table:"has no count"; do
  train "${fault%%:*}" 1 "plugin [^ ]*libfaulty_${fault%%:*}.so.*${fault#*:}"
done

# Errors that it reports.
train oom 1 "${device}_oom.so, allocate: no room for [0-9]+ bytes"
train lost 1 "$step: ${device}_lost.so, enqueue [a-z_]+ f32.*: the device fell off the bus"
train silent 1 "$step: ${device}_silent.so, event_wait after [a-z_]+ f32.*: no signal in 0.8 s"
train silent 1 "$step: ${device}_silent.so, event_wait after [a-z_]+ f32.*: no signal in 0.8 s" "$mixed" 2

# Calls that never return.
stuck="has not returned for [0-9.]+ s"
train hang_enqueue 1 "${device}_hang_enqueue.so, enqueue [a-z_]+ f32.* \($step\) $stuck"
train hang_enqueue 1 "${device}_hang_enqueue.so, enqueue [a-z_]+ f32.* \($step\) $stuck" "$mixed" 2
train hang_wait 1 "${device}_hang_wait.so, event_wait after [a-z_]+ f32.* \($step\) $stuck"
train hang_prepare 1 "${device}_hang_prepare.so, prepare linear f32.* \(VCU plain:0.0, profile\) $stuck"

# Crashes: the signal ends the process, after it was told where.
train crash_enqueue 139 "crashed with SIGSEGV in ${device}_crash_enqueue.so, enqueue [a-z_]+ f32.* \($step\)"
train crash_wait 139 "crashed with SIGSEGV in ${device}_crash_wait.so, event_wait after [a-z_]+ f32.* \($step\)"
train crash_prepare 139 "crashed with SIGSEGV in ${device}_crash_prepare.so, prepare linear f32"
train abort_enqueue 134 "crashed with SIGABRT in ${device}_abort_enqueue.so, enqueue [a-z_]+ f32.* \($step\)"

# The doctor goes on to the next device.
timeout 60 "$ocl" doctor --plugins "$plugins/libfaulty_crash_enqueue.so" > doctor.log 2>&1
verdict doctor "fault +plain .*while a model was trained on plain:0: it crashed \(signal 11" $? 1 0 0 doctor.log

# Over processes: the other rank is told by whom and why.
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none -x ASAN_OPTIONS=detect_leaks=0)
"${mpi[@]}" -np 1 true > /dev/null 2>&1 || { echo "no mpirun: the rest is left out"; exit $failures; }
cat > rank.sh <<'END'
#!/usr/bin/env bash
"${@:2}" > "$1.log.$OMPI_COMM_WORLD_RANK" 2>&1
code=$?
sleep 2  # mpirun would end the other rank at once
exit $code
END
chmod +x rank.sh
ranks() {  # PLUGIN PATTERN: in the log of the rank that is well
  config "$1" "$mixed" 8 2
  local begin=$SECONDS
  timeout 60 "${mpi[@]}" -np 2 ./rank.sh "ranks_$1" "$ocl" train "$1.yaml" --run-dir "ranks_run_$1" \
    > mpi.log 2>&1
  # mpirun ends with the code of the rank whose end it sees first; 124 is the time limit's.
  local code=$?
  [[ $code -ne 0 && $code -ne 124 ]] && code=1
  verdict "2 ranks: $1" "$2" $code 1 $((SECONDS - begin)) 40 "ranks_$1.log.0"
}
ranks hang_enqueue "rank 1 .*gave up: .*${device}_hang_enqueue.so, enqueue [a-z_]+ f32.*$stuck"
ranks lost "rank 1 .*gave up: .*${device}_lost.so, enqueue [a-z_]+ f32.*: the device fell off the bus"
ranks crash_enqueue "rank 1 \(host [^ ]*, process [0-9]*\) died"
exit $failures
