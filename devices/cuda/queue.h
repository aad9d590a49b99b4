// Queues, events, buffers and captured work of a slice. A queue is a stream; an event stands for a
// Point, a CUDA event with what the status of the work before it depends on.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "openclaw/devices/cuda/api.h"
#include "openclaw/devices/cuda/kernels/types.h"
#include "openclaw/devices/cuda/spares.h"
#include "openclaw/devices/cuda/staging.h"
#include "openclaw/devices/device.h"
#include "openclaw/devices/point_event.h"

namespace oc::cuda {

class CudaSlice;

class CudaBuffer : public Buffer {
 public:
  // Takes the memory, which is of the device `ordinal`.
  CudaBuffer(int ordinal, char* data, int64_t bytes, std::shared_ptr<std::atomic<int64_t>> used)
      : ordinal_(ordinal), data_(data), bytes_(bytes), used_(std::move(used)) {}
  ~CudaBuffer() override;
  int64_t bytes() const override { return bytes_; }
  char* data() const { return data_; }
  int ordinal() const { return ordinal_; }

  // Notes that work was enqueued that writes up to here.
  void Touch(int64_t end) {
    int64_t before = high_water_.load(std::memory_order_relaxed);
    while (before < end &&
           !high_water_.compare_exchange_weak(before, end, std::memory_order_relaxed)) {
    }
  }
  int64_t high_water() const { return high_water_.load(); }

 private:
  const int ordinal_;
  char* const data_;
  const int64_t bytes_;
  std::shared_ptr<std::atomic<int64_t>> used_;
  std::atomic<int64_t> high_water_{0};
};
char* AddressOf(const BufferRange& range);

// What the checks of an op's data say: "label" and "0..9".
struct DataCheck {
  int32_t code = 0;
  std::string op, what, range;
};

// Where the kernels of a queue report bad data, and what their codes mean. Shared with the queue's
// points and with what was captured on it.
class DataFlags {
 public:
  // One of the spares, to which it goes back, or a new one.
  static StatusOr<std::shared_ptr<DataFlags>> Create(
      int ordinal, const std::shared_ptr<Spares<DataFlags>>& spares, const std::string& where);
  ~DataFlags();
  kernels::Flags For(const DataCheck& check) const { return {claim_, device_report_, check.code}; }
  void Know(const std::shared_ptr<const DataCheck>& check);
  // What was reported, once the work that could is done.
  Status status(const std::string& where) const;

 private:
  explicit DataFlags(int ordinal) : ordinal_(ordinal) {}
  static StatusOr<std::unique_ptr<DataFlags>> Make(int ordinal, const std::string& where);
  const int ordinal_;
  int32_t* claim_ = nullptr;                  // of the device
  kernels::Report* report_ = nullptr;         // of the host
  kernels::Report* device_report_ = nullptr;  // the same, as the device sees it
  mutable std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<const DataCheck>> checks_;
};

// CUDA events for points, used again and again. Thread-safe.
class EventPool {
 public:
  explicit EventPool(int ordinal) : ordinal_(ordinal) {}
  ~EventPool();
  StatusOr<cudaEvent_t> Take(const std::string& where);
  void Give(cudaEvent_t event);
  int ordinal() const { return ordinal_; }

 private:
  const int ordinal_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

using FlagsList = std::vector<std::shared_ptr<DataFlags>>;

// A recorded point of a queue. Thread-safe; outlives queue and event as long as it is wanted.
class Point {
 public:
  struct Parts {
    std::string where;  // "queue compute of cuda/..."
    std::string last;   // what was enqueued last, for errors that show late
    Status earlier;
    std::vector<std::shared_ptr<Point>> before;  // what the work waited for, not all done
    FlagsList flags;
    std::shared_ptr<EventPool> pool;
    cudaEvent_t event = nullptr;
    uint64_t capture = 0;  // of which capture it is a part; 0: none
  };
  explicit Point(Parts parts) : parts_(std::move(parts)) {}
  ~Point();

  cudaEvent_t event() const { return parts_.event; }
  int ordinal() const { return parts_.pool->ordinal(); }
  uint64_t capture() const { return parts_.capture; }
  // The point's own error, where it could not be recorded: it is ready then.
  void Fail(Status status);
  bool Ready() const;
  // Of a point that is ready.
  Status status() const;
  Status Wait(double timeout_seconds) const;

 private:
  Status Outcome(cudaError_t code, const std::vector<std::shared_ptr<Point>>& before) const;
  void Resolve(cudaError_t code) const;

  const Parts parts_;
  mutable std::mutex mutex_;
  mutable bool done_ = false;
  mutable Status status_;
  mutable std::vector<std::shared_ptr<Point>> before_ = parts_.before;
};

using CudaEvent = PointEvent<Point>;

// Captured work of a queue: what it reads and writes must outlive it.
class CudaGraph : public CapturedWork {
 public:
  CudaGraph(cudaGraphExec_t exec, std::shared_ptr<DataFlags> flags, std::string where, int ordinal)
      : exec_(exec), flags_(std::move(flags)), where_(std::move(where)), ordinal_(ordinal) {}
  ~CudaGraph() override;
  cudaGraphExec_t exec() const { return exec_; }
  const std::shared_ptr<DataFlags>& flags() const { return flags_; }
  const std::string& where() const { return where_; }

 private:
  const cudaGraphExec_t exec_;
  const std::shared_ptr<DataFlags> flags_;
  const std::string where_;
  const int ordinal_;
};

class CudaQueue : public Queue {
 public:
  static StatusOr<std::unique_ptr<Queue>> Create(const CudaSlice& slice, std::string name);
  ~CudaQueue() override;

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override;
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override;
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override;
  Status Copy(BufferRange to, BufferRange from) override;
  Status Record(Event& event) override;
  Status WaitFor(Event& event) override;

  // What is enqueued from here on is captured, not run, also what is enqueued on other queues after
  // they waited for an event that was recorded in the capture; they must be waited for in turn
  // before it ends. Memory of the host must be pinned. Events of the capture are never ready.
  Status BeginCapture() override;
  StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;
  Status Launch(CapturedWork& work) override;
  // A conditional node of the graph (CUDA 12.4 and later).
  Status BeginIfFinite(BufferRange value) override;
  Status EndIf() override;

  // For what else runs on CUDA streams (comm/nccl).
  cudaStream_t stream() const { return stream_; }
  const CudaSlice& slice() const { return slice_; }
  // The first error stays: events recorded later carry it.
  Status Keep(Status status);

 private:
  CudaQueue(const CudaSlice& slice, std::string name);
  StatusOr<bool> IsPinned(const void* memory) const;
  Status WantStaging();
  Status WantPinned(const char* what) const;  // kUnimplemented in a capture
  Status AddCondition(const float* value);
  Status ReachPeer(int other);
  // The capture that the stream is in; 0: none.
  uint64_t CaptureId() const;

  const CudaSlice& slice_;
  const std::string where_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<DataFlags> flags_;
  FlagsList listened_;                // flags_ and those of graphs launched, once there is a check
  std::unique_ptr<Staging> staging_;  // made when it is first wanted
  Status first_error_;
  std::string last_;
  std::shared_ptr<Point> last_point_;
  std::vector<std::shared_ptr<Point>> waited_;
  std::vector<char*> addresses_;  // of the call at hand; keeps its memory
  bool capturing_ = false;        // began here
  // While the body of a condition is captured, which is captured on a stream of its own, in place
  // of stream_: the stream of the queue.
  cudaStream_t outside_ = nullptr;
  cudaStream_t body_ = nullptr;  // made when it is first wanted
};

}  // namespace oc::cuda
