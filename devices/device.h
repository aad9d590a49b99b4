// The device interface. A Device is physical; a Slice of it is what a VCU is made of: memory,
// queues, events and two-phase ops. The C plugin ABI mirrors these calls one to one, so no vendor
// type, raw device pointer, exception or "current device" appears here.
//
//   auto slice = device->CreateSlice({.threads = 1, .cores = {0}, .memory_bytes = 4 << 30});
//   auto arena = (*slice)->Allocate(bytes);
//   auto op = (*slice)->Prepare({.def = def, .attrs = attrs, .inputs = ..., .outputs = ...});
//   auto queue = (*slice)->CreateQueue("compute");
//   (*queue)->Enqueue(**op, inputs, outputs, workspace);   // in order on the queue
//   (*queue)->Record(*event);
//
// Thread-safety: Device, Slice: all methods. Queue: one thread at a time. Event: all methods.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/tensor.h"
#include "openclaw/graph/op.h"

namespace oc {

// Device memory. Freed with the object, which waits until nothing enqueued uses it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual int64_t bytes() const = 0;
};

// Part of a buffer.
struct BufferRange {
  Buffer* buffer = nullptr;  // not owned
  int64_t offset = 0;
  int64_t bytes = 0;
};

// One op on one set of types, prepared: Prepare does what may allocate, choose or fail.
struct OpRequest {
  const OpDef* def = nullptr;
  Attributes attrs;
  std::vector<TensorType> inputs;  // bound shapes
  std::vector<TensorType> outputs;
  // Bit i: output i is added to what its memory holds. Only bits of OpDef::accumulable.
  uint32_t accumulate = 0;
  // Only code that repeats its results bit by bit (PreparedOp::deterministic) is wanted; where
  // there is none, kUnimplemented.
  bool deterministic = false;
};
// "matmul f32[2, 3] f32[3, 4] {transpose_a: false}": for messages and cost keys.
std::string ToString(const OpRequest& request);
// Whether outputs are wanted in a wider type than the operands' (WithSumType): kernels that do not
// know of it answer kUnimplemented, and the op is made of one without it and casts.
bool WantsSumType(const OpRequest& request);

class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  virtual int64_t workspace_bytes() const { return 0; }
  // One for each opaque output, in order.
  virtual std::vector<int64_t> opaque_bytes() const { return {}; }
  // Which code runs it: "onednn", "cpu", "reference", ...
  virtual const char* implementation() const = 0;
  // Whether the same operands give the same bits each time, whatever else runs: false where that is
  // not known.
  virtual bool deterministic() const { return false; }
  // Memory of the host that it uses while it runs, where that is not the device's. One op of a
  // slice has it at a time, so that the largest counts.
  virtual int64_t host_bytes() const { return 0; }
  // Where the device has no kernel of its own: what stands in for it (devices/substitute.h), for
  // plans and reports; else empty.
  virtual std::string substitute() const { return {}; }
};

// A point in a queue's work. Carries the status of the work before it: what waits inherits it.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool Ready() const = 0;
  // Blocks the calling thread. kDeadlineExceeded after `timeout_seconds`.
  virtual Status Wait(double timeout_seconds) = 0;
};

// Work that a queue captured: ops and copies on the ranges, and the memory of the host, that it was
// captured with, which must outlive it. Destroying it waits until no launch of it runs.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

// Work enqueued runs in order. A call may return before the work is done; errors found later come
// with the next event. One thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;
  // Ranges in the order of the op's inputs and outputs; `workspace` holds workspace_bytes().
  virtual Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                         std::span<const BufferRange> outputs, BufferRange workspace) = 0;
  // The host memory must stay valid until an event recorded afterwards is ready.
  virtual Status CopyFromHost(BufferRange to, std::span<const std::byte> from) = 0;
  virtual Status CopyToHost(std::span<std::byte> to, BufferRange from) = 0;
  virtual Status Copy(BufferRange to, BufferRange from) = 0;
  virtual Status Record(Event& event) = 0;
  // Later work of this queue waits for the event.
  virtual Status WaitFor(Event& event) = 0;

  // Capture, for devices that have it: kUnimplemented from BeginCapture where there is none.
  //
  // From BeginCapture to EndCapture ops and copies are kept instead of run; nothing is recorded or
  // waited for meanwhile. A call that answers kUnimplemented cannot be captured: EndCapture then
  // ends the capture, and what it returns is of no use.
  virtual Status BeginCapture();
  virtual StatusOr<std::unique_ptr<CapturedWork>> EndCapture();
  // Enqueues the work; copies read and write memory of the host when their turn comes. Of a queue
  // of the same slice.
  virtual Status Launch(CapturedWork& work);
  // During a capture: what is enqueued up to EndIf is left out of a launch in which the f32 at
  // `value` is not finite when its turn comes. Not nested. kUnimplemented where the device cannot
  // decide by itself.
  virtual Status BeginIfFinite(BufferRange value);
  virtual Status EndIf();
};

// Memory of the host: see Slice::AllocateHost.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

struct SliceOptions {
  int threads = 1;           // of a device that computes with threads
  std::vector<int> cores;    // logical processors to pin them to; empty: not pinned
  int64_t memory_bytes = 0;  // budget; Allocate beyond it is kResourceExhausted
  // The device's own; CreateSlice is kInvalidArgument for a key or a value that it does not know.
  std::map<std::string, std::string> options;
};

struct OpSupport {
  bool supported = false;
  double seconds = -1;  // expected; below 0: not known
  std::string reason;   // where it is not supported
};

class Slice {
 public:
  virtual ~Slice() = default;

  // What costs are keyed by: leaf, model, threads.
  virtual std::string kind() const = 0;
  // How strongly memory and compute are kept to the slice.
  virtual Enforcement enforcement() const = 0;
  virtual std::vector<DType> dtypes() const = 0;

  // 64-byte aligned, zeroed. kResourceExhausted says how much is left.
  virtual StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) = 0;
  virtual StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) = 0;
  virtual StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Memory of the host from and to which the device copies fastest; ordinary memory where it makes
  // no difference. 64-byte aligned, zeroed, not counted in the budget. Nothing enqueued may use it
  // any more when it goes.
  virtual StatusOr<std::unique_ptr<HostMemory>> AllocateHost(int64_t bytes);

  // kUnimplemented names op, dtypes and device, and what exists.
  virtual StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) = 0;
  // Whether Prepare would take the request, `accumulate` bits included. An error where the slice
  // cannot tell.
  virtual StatusOr<OpSupport> Support(const OpRequest& request) = 0;

  // The bytes of a range as host memory, where the host may touch them in place; else empty, and
  // transfers are staged.
  virtual std::span<std::byte> HostView(BufferRange range) = 0;

  // One past the highest byte of the buffer that was ever written (to a device's granularity); -1
  // where the device cannot tell.
  virtual int64_t HighWater(const Buffer& buffer) const { return -1; }
};

struct DeviceInfo {
  std::string name;   // "cpu:0"
  std::string leaf;   // "cpu"
  std::string model;  // "avx512_bf16"
  int threads = 1;    // hardware threads this process may use
  // The logical processors of the host that it computes with, if it does.
  std::vector<int> cores;
  int64_t memory_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) = 0;
};

// A leaf: finds its devices. The registry is an object that is passed in; runtime/builtin_leaves.cc
// fills the default one.
struct DeviceLeaf {
  std::string name;
  std::function<StatusOr<std::vector<std::unique_ptr<Device>>>()> discover;
  // What only stands in for a device or models one: `cluster: auto` does not take it.
  bool by_name_only = false;
};

class DeviceRegistry {
 public:
  void Add(DeviceLeaf leaf) { leaves_.push_back(std::move(leaf)); }
  const std::vector<DeviceLeaf>& leaves() const { return leaves_; }
  // kInvalidArgument lists the leaves that exist.
  StatusOr<const DeviceLeaf*> Find(const std::string& name) const;

 private:
  std::vector<DeviceLeaf> leaves_;
};

}  // namespace oc
