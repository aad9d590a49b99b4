/* The example device with one fault, by build: -DFAULT_...; for launcher/plugin_faults_test.sh. Those of
 * enqueue and event_wait come at the 60th op of a training step's queue: profiling has another. */
#define openclaw_device_query plain_device_query
#include "plain_device.c"
#undef openclaw_device_query

#include <signal.h>
#include <unistd.h>

#define FAULT_AT 60
#define MOST_QUEUES 16

static oc_device_api plain;
static oc_queue* step_queues[MOST_QUEUES];
static oc_event* step_event; /* recorded last on one of them, at FAULT_AT or later */
static int num_step_queues, ops, allocations;

static void hang(void) {
  for (;;) sleep(1);
}
static void crash(void) { raise(SIGSEGV); }

static int32_t faulty_create_queue(oc_slice* slice, const char* name, oc_queue** queue,
                                   oc_error* error) {
  const int32_t code = plain.create_queue(slice, name, queue, error);
  if (code == OC_OK && strcmp(name, "compute") == 0 && num_step_queues < MOST_QUEUES) {
    step_queues[num_step_queues++] = *queue;
  }
  return code;
}
static int in_step(oc_queue* queue) {
  for (int i = 0; i < num_step_queues; ++i) {
    if (step_queues[i] == queue) return 1;
  }
  return 0;
}

static int32_t faulty_enqueue(oc_queue* queue, oc_op* op, const oc_range* inputs,
                              int32_t num_inputs, const oc_range* outputs, int32_t num_outputs,
                              const oc_range* workspace, oc_error* error) {
  if (in_step(queue) && ++ops >= FAULT_AT) {
#if defined(FAULT_LOST)
    return fail(error, OC_UNAVAILABLE, "the device fell off the bus");
#elif defined(FAULT_HANG_ENQUEUE)
    hang();
#elif defined(FAULT_CRASH_ENQUEUE)
    crash();
#elif defined(FAULT_ABORT_ENQUEUE)
    abort();
#endif
  }
  return plain.enqueue(queue, op, inputs, num_inputs, outputs, num_outputs, workspace, error);
}

static int32_t faulty_record(oc_queue* queue, oc_event* event, oc_error* error) {
  if (in_step(queue) && ops >= FAULT_AT) step_event = event;
  return plain.record(queue, event, error);
}
static int32_t faulty_event_wait(oc_event* event, double timeout_seconds, oc_error* error) {
  if (event == step_event) {
#if defined(FAULT_SILENT)
    usleep((useconds_t)(timeout_seconds * 1e6));
    return fail(error, OC_DEADLINE_EXCEEDED, "no signal in %g s", timeout_seconds);
#elif defined(FAULT_HANG_WAIT)
    hang();
#elif defined(FAULT_CRASH_WAIT)
    crash();
#endif
  }
  return plain.event_wait(event, timeout_seconds, error);
}

static int32_t faulty_prepare(oc_slice* slice, const oc_op_request* r, oc_op** op,
                              oc_op_info* info, oc_error* error) {
  if (strcmp(r->name, "linear") == 0) {
#if defined(FAULT_HANG_PREPARE)
    hang();
#elif defined(FAULT_CRASH_PREPARE)
    crash();
#endif
  }
  return plain.prepare(slice, r, op, info, error);
}

static int32_t faulty_allocate(oc_slice* slice, int64_t bytes, oc_buffer** buffer,
                               oc_error* error) {
  ++allocations;
#if defined(FAULT_OOM)
  if (allocations > 1) {
    return fail(error, OC_RESOURCE_EXHAUSTED, "no room for %lld bytes", (long long)bytes);
  }
#endif
  return plain.allocate(slice, bytes, buffer, error);
}

const oc_device_api* openclaw_device_query(uint32_t version, const oc_host_api* host) {
  static oc_device_api api;
  const oc_device_api* found = plain_device_query(version, host);
  if (found == NULL) return NULL;
  (void)hang, (void)crash;
  plain = api = *found;
  api.create_queue = faulty_create_queue;
  api.enqueue = faulty_enqueue;
  api.record = faulty_record;
  api.event_wait = faulty_event_wait;
  api.prepare = faulty_prepare;
  api.allocate = faulty_allocate;
  return &api;
}
