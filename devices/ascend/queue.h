// Queues, events and buffers of a slice. A queue is a stream and a thread that follows it: the
// thread waits for what was recorded, hands copies to the host, reads what ops found wrong in their
// data, and turns what the work ended with into a status.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "openclaw/devices/ascend/memory.h"
#include "openclaw/devices/device.h"
#include "openclaw/devices/point_event.h"

namespace oc::ascend {

class AscendSlice;

class AscendBuffer : public Buffer {
 public:
  AscendBuffer(const AscendSlice* slice, std::unique_ptr<DeviceMemory> memory, int64_t bytes)
      : slice_(slice), memory_(std::move(memory)), bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }
  char* data() const { return memory_->data(); }
  const AscendSlice* slice() const { return slice_; }

  // Notes that work was enqueued that writes up to here.
  void Touch(int64_t end) {
    int64_t before = high_water_.load();
    while (before < end && !high_water_.compare_exchange_weak(before, end)) {
    }
  }
  int64_t high_water() const { return high_water_.load(); }

 private:
  const AscendSlice* slice_;
  std::unique_ptr<DeviceMemory> memory_;
  int64_t bytes_;
  std::atomic<int64_t> high_water_{0};
};

// Events of the runtime that are recorded again and again. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  EventPool(std::shared_ptr<const Api> api, int device) : api_(std::move(api)), device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  StatusOr<std::shared_ptr<void>> Get();

 private:
  const std::shared_ptr<const Api> api_;
  const int device_;
  std::mutex mutex_;
  std::vector<AclEvent> free_;  // guarded by mutex_
};

// A stream of the runtime, destroyed with the object.
class OwnedStream {
 public:
  // `where`: for messages.
  static StatusOr<std::shared_ptr<OwnedStream>> Create(std::shared_ptr<const Api> api, int device,
                                                       std::string where);
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  Stream get() const { return stream_; }
  // Waits for all that was enqueued. kDeadlineExceeded where it has not ended by then; with any
  // other error it has. At least a millisecond. Any thread.
  Status Synchronize(std::chrono::steady_clock::time_point deadline) const;
  // Its work does not end: it is not destroyed. Any thread.
  void Abandon() { abandoned_ = true; }

 private:
  OwnedStream(std::shared_ptr<const Api> api, int device, std::string where)
      : api_(std::move(api)), device_(device), where_(std::move(where)) {}

  const std::shared_ptr<const Api> api_;
  const int device_;
  const std::string where_;
  Stream stream_ = nullptr;
  std::atomic<bool> abandoned_{false};
};

// What an op's check of its data says: of which op, "label", "0..9".
struct DataCheck {
  std::string op, what, range;
};
// A check's three numbers, on their way to the host.
struct PendingCheck {
  std::shared_ptr<char> numbers;
  std::shared_ptr<const DataCheck> check;
};
// Bytes on their way to the host.
struct PendingCopy {
  std::shared_ptr<char> from;
  std::span<std::byte> to;
};

// A recorded point of a queue. Thread-safe but for `todo`, which is the following thread's.
class Point {
 public:
  // What came since the point before.
  struct Work {
    std::vector<PendingCheck> checks;
    std::vector<PendingCopy> copies;
    std::vector<std::shared_ptr<char>> held;     // chunks that copies read
    std::vector<std::shared_ptr<Point>> waited;  // of other queues
    Status enqueued;                             // the first error of a call

    // Chunks go back; the room for them stays.
    void Clear();
    // The device may still write to the chunks: they stay as they are, for good.
    void Abandon();
  };

  Point(std::string where, std::shared_ptr<void> event, Work work)
      : todo(std::move(work)), where_(std::move(where)), event_(std::move(event)) {}
  AclEvent event() const { return event_.get(); }
  const std::string& where() const { return where_; }

  void Resolve(Status status);
  bool Ready() const;
  // Of a point that is ready.
  Status status() const;
  Status Wait(double timeout_seconds) const;

  Work todo;

 private:
  const std::string where_;
  const std::shared_ptr<void> event_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;  // guarded by mutex_
  Status status_;      // guarded by mutex_
};

using AscendEvent = PointEvent<Point>;

class AscendQueue : public Queue {
 public:
  static StatusOr<std::unique_ptr<Queue>> Create(const AscendSlice& slice, std::string name);
  ~AscendQueue() override;

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override;
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override;
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override;
  Status Copy(BufferRange to, BufferRange from) override;
  Status Record(Event& event) override;
  Status WaitFor(Event& event) override;

  // For collectives, which enqueue by themselves: the thread's device is set, the ranges are the
  // slice's, and an error stays with the queue.
  Status EnqueueCollective(std::span<const BufferRange> from, std::span<const BufferRange> to,
                           const std::function<Status(Stream)>& enqueue);
  const AscendSlice& slice() const { return slice_; }
  const std::shared_ptr<OwnedStream>& stream() const { return stream_; }

 private:
  AscendQueue(const AscendSlice& slice, std::string name);
  // The first error stays: events recorded later carry it.
  Status Keep(Status status);
  // kInvalidArgument for memory of another slice or beyond the buffer.
  Status CheckRange(const BufferRange& range) const;
  Status CopyAsync(char* to, const char* from, int64_t bytes, int32_t kind) const;
  // Brings what the op's checks found to the host.
  Status FetchChecks(const class AscendOp& op, const BufferRange& workspace);
  // How long the following thread may wait at once: 0 where the queue should have ended.
  int32_t PatienceMs() const;
  void Follow();
  // Of the point's work, once that has ended. What did not end in time is abandoned.
  Status Outcome(Point& point) const;

  const AscendSlice& slice_;
  const std::string where_;  // "queue compute of ascend/..."
  std::shared_ptr<OwnedStream> stream_;
  Point::Work work_;
  Status first_error_;
  std::vector<char*> inputs_, outputs_;  // of the op that is enqueued

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Point>> following_;  // guarded by mutex_
  std::vector<Point::Work> spare_;                // empty; guarded by mutex_
  bool closing_ = false;                          // guarded by mutex_
  std::chrono::steady_clock::time_point end_;     // of closing; guarded by mutex_
  std::thread thread_;
};

}  // namespace oc::ascend
