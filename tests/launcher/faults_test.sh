#!/usr/bin/env bash
# A rank killed (SIGKILL) or stopped (SIGSTOP) in the middle of training: the surviving rank names it and
# ends with an error within 10 seconds, with and without mpirun's --enable-recovery.
#   faults_test.sh OCL SOURCE_DIR
set -u
ocl=$1 source=$2
dir=$(mktemp -d)
failures=0
ranks=()
finish() {
  for pid in "${ranks[@]}"; do kill -CONT "$pid" 2>/dev/null; kill -KILL "$pid" 2>/dev/null; done
  rm -rf "$dir"
}
trap finish EXIT

# Each rank tells its process number and, when it ends, its exit code.
cat > "$dir/rank.sh" <<'END'
#!/usr/bin/env bash
rank=$OMPI_COMM_WORLD_RANK
"$@" > "$FAULT_DIR/log.$rank" 2>&1 &
echo $! > "$FAULT_DIR/pid.$rank"
trap '' TERM  # mpirun's goes to the rank as well; this shell waits for its exit code
wait $!; code=$?
while kill -0 "$(cat "$FAULT_DIR/pid.$rank")" 2>/dev/null; do wait "$(cat "$FAULT_DIR/pid.$rank")"; code=$?; done
echo $code > "$FAULT_DIR/code.$rank"
exit $code
END
chmod +x "$dir/rank.sh"

run_case() {  # SIGNAL NAME OVERRIDE -- mpirun's options
  local signal=$1 name=$2 override=$3
  shift 4
  export FAULT_DIR=$dir/$name
  mkdir -p "$FAULT_DIR"
  mpirun --allow-run-as-root --oversubscribe --bind-to none "$@" -np 2 "$dir/rank.sh" "$ocl" train \
    "$source/examples/fashion_mnist.yaml" --run-dir "$FAULT_DIR/run" train.epochs=200 \
    train.evaluate_every=0 log.every=1 $override > "$FAULT_DIR/mpirun.log" 2>&1 &
  local launcher=$!
  for _ in $(seq 600); do
    grep -q "^step 20/" "$FAULT_DIR/log.0" 2>/dev/null && break
    sleep 0.1
  done
  local victim survivor
  victim=$(cat "$FAULT_DIR/pid.1"); survivor=$(cat "$FAULT_DIR/pid.0")
  ranks+=("$victim" "$survivor")
  kill "-$signal" "$victim"
  local ended=no
  for _ in $(seq 100); do
    kill -0 "$survivor" 2>/dev/null || { ended=yes; break; }
    sleep 0.1
  done
  sleep 0.3
  local code
  code=$(cat "$FAULT_DIR/code.0" 2>/dev/null || echo none)
  kill -CONT "$victim" 2>/dev/null
  kill -KILL "$victim" 2>/dev/null
  for _ in $(seq 50); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
  kill -KILL $launcher 2>/dev/null
  wait $launcher 2>/dev/null
  if [[ $ended == yes && $code != 0 ]] && grep -q "rank 1" "$FAULT_DIR/log.0"; then
    echo "ok: $name: $(grep -ao "rank 1 .*" "$FAULT_DIR/log.0" | tail -1)"
  else
    echo "FAILED: $name: survivor ended: $ended, exit code $code"
    tail -n 5 "$FAULT_DIR/log.0"
    failures=$((failures + 1))
  fi
}

run_case KILL killed log.every=1 --
run_case STOP stopped log.every=1 --
run_case KILL killed-recovery log.every=1 -- --enable-recovery
run_case STOP stopped-recovery log.every=1 -- --enable-recovery
run_case KILL killed-saving checkpoint.every=1 --
exit $failures
