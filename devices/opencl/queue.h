// Queues, events and buffers of a slice. An event stands for a Point: a marker in the device's
// queue, whose callback turns what the work before it ended with into a status.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "openclaw/devices/device.h"
#include "openclaw/devices/opencl/cl.h"
#include "openclaw/devices/point_event.h"

namespace oc::opencl {

class OpenClSlice;

class OpenClBuffer : public Buffer {
 public:
  OpenClBuffer(const OpenClSlice* slice, ClMemory memory, int64_t bytes,
               std::shared_ptr<std::atomic<int64_t>> used)
      : slice_(slice), memory_(std::move(memory)), bytes_(bytes), used_(std::move(used)) {}
  ~OpenClBuffer() override { used_->fetch_sub(bytes_); }
  int64_t bytes() const override { return bytes_; }
  cl_mem get() const { return memory_.get(); }
  const OpenClSlice* slice() const { return slice_; }

  // Notes that work was enqueued that writes up to here.
  void Touch(int64_t end) {
    int64_t before = high_water_.load();
    while (before < end && !high_water_.compare_exchange_weak(before, end)) {
    }
  }
  int64_t high_water() const { return high_water_.load(); }

 private:
  const OpenClSlice* slice_;
  ClMemory memory_;
  int64_t bytes_;
  std::shared_ptr<std::atomic<int64_t>> used_;
  std::atomic<int64_t> high_water_{0};
};

// What the checks of an op's data say: "label" and "0..9". Code 0 is none.
struct DataCheck {
  cl_int code = 0;
  std::string op, what, range;
};
using DataChecks = std::map<cl_int, std::shared_ptr<const DataCheck>>;

// A recorded point of a queue. Thread-safe; outlives queue and event as long as work is pending.
class Point {
 public:
  Point(std::string where, Status earlier, std::vector<std::shared_ptr<Point>> before,
        DataChecks checks)
      : where_(std::move(where)),
        earlier_(std::move(earlier)),
        before_(std::move(before)),
        checks_(std::move(checks)) {}

  // Where the device writes the queue's flags before the marker; three numbers.
  cl_int* flags() { return flags_; }
  void SetMarker(ClEvent marker) { marker_ = std::move(marker); }
  cl_event marker() const { return marker_.get(); }

  // Once the marker's work has ended, with this execution status.
  void Resolve(cl_int execution);
  bool Ready();
  // Of a point that is ready.
  Status status() const;
  Status Wait(double timeout_seconds);
  // Ends the user event (of another context) with the point, or now.
  void EndLater(cl_event user_event);

 private:
  Status Outcome(cl_int execution, const std::vector<std::shared_ptr<Point>>& before) const;
  void Poll();

  const std::string where_;
  const Status earlier_;
  std::vector<std::shared_ptr<Point>> before_;
  const DataChecks checks_;
  cl_int flags_[4] = {0, 0, 0, 0};
  ClEvent marker_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  Status status_;
  std::vector<ClEvent> waiting_;  // user events to end
};

using OpenClEvent = PointEvent<Point>;

class OpenClQueue : public Queue {
 public:
  static StatusOr<std::unique_ptr<Queue>> Create(const OpenClSlice& slice, std::string name);
  ~OpenClQueue() override;

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override;
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override;
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override;
  Status Copy(BufferRange to, BufferRange from) override;
  Status Record(Event& event) override;
  Status WaitFor(Event& event) override;

  cl_command_queue get() const { return queue_.get(); }
  cl_mem flags() const { return flags_.get(); }

 private:
  OpenClQueue(const OpenClSlice& slice, std::string name);
  // The first error stays: events recorded later carry it.
  Status Keep(Status status);
  Status Mark(const std::shared_ptr<Point>& point);
  // kInvalidArgument for memory of another slice.
  Status CheckOwn(const BufferRange& range) const;

  const OpenClSlice& slice_;
  const std::string where_;  // "queue compute of opencl/..."
  ClQueue queue_;
  ClMemory flags_;
  Status first_error_;
  std::shared_ptr<Point> last_;
  std::vector<std::shared_ptr<Point>> waited_;
  DataChecks checks_;  // of the ops enqueued so far
};

}  // namespace oc::opencl
