// Queues of a simulated unit: a thread each, on which work runs later and in order; and its events.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "openclaw/devices/host/kernel.h"
#include "openclaw/devices/sim/memory.h"
#include "openclaw/devices/sim/options.h"

namespace oc::sim {

// What the queues of a slice share.
struct Unit {
  Unit(std::string device_name, const SimOptions& knobs, const SliceOptions& slice)
      : device(std::move(device_name)), options(knobs), pool(slice.threads, slice.cores) {}

  const std::string device;  // "sim:0", for messages
  const SimOptions options;
  WorkerPool pool;
  std::mutex compute;           // one kernel at a time: the pool has one caller
  std::atomic<int64_t> ops{0};  // enqueued, of those that faults count

  // The first call's reason is what all later work ends with. Thread-safe.
  void Lose(const Status& reason);
  Status lost();

 private:
  std::mutex mutex_;
  Status lost_;  // guarded by mutex_
};

// An op with what it takes; work that is enqueued shares it.
struct SimKernel {
  std::unique_ptr<HostKernel> kernel;
  std::string name;    // for messages
  double seconds = 0;  // at least
  bool deterministic = false;
};
class SimOp : public PreparedOp {
 public:
  explicit SimOp(std::shared_ptr<SimKernel> kernel) : kernel_(std::move(kernel)) {}
  int64_t workspace_bytes() const override { return kernel_->kernel->workspace_bytes(); }
  std::vector<int64_t> opaque_bytes() const override { return kernel_->kernel->opaque_bytes(); }
  const char* implementation() const override { return kernel_->kernel->implementation(); }
  bool deterministic() const override { return kernel_->deterministic; }
  const std::shared_ptr<SimKernel>& kernel() const { return kernel_; }

 private:
  std::shared_ptr<SimKernel> kernel_;
};

// An event's points in time: recording it begins a new one. Thread-safe.
class EventState {
 public:
  // The new point's number; `what` says where it stands, for messages.
  int64_t Begin(std::string what);
  void End(int64_t point, const Status& status);
  // The point will not come.
  void Swallow(int64_t point);
  bool Ready();
  // The status of the newest point, once it ended; of the first, where none was begun yet.
  // kDeadlineExceeded after `timeout_seconds` says where the event stands.
  Status Wait(double timeout_seconds);
  int64_t newest();
  // Whether the point, or a later one, ended within the time; its status.
  bool Reached(int64_t point, double timeout_seconds, Status& status);
  // Whether the point was begun and will come.
  bool Coming(int64_t point);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  int64_t begun_ = 0, ended_ = 0, swallowed_ = 0;  // the highest of each kind
  Status status_;                                  // of ended_
  std::string what_;
};

class SimEvent : public Event {
 public:
  bool Ready() const override { return state_->Ready(); }
  Status Wait(double timeout_seconds) override { return state_->Wait(timeout_seconds); }
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

// After an error the work behind it is left out, and every event carries the error. Destroying a
// queue runs what is enqueued, without the time that only a real device would need; a wait for an
// event that nobody recorded, or that never comes, is given up then.
class SimQueue : public Queue {
 public:
  SimQueue(std::shared_ptr<Unit> unit, std::string name);
  ~SimQueue() override;

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override;
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override;
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override;
  Status Copy(BufferRange to, BufferRange from) override;
  Status Record(Event& event) override;
  Status WaitFor(Event& event) override;

  Status BeginCapture() override;
  StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;
  Status Launch(CapturedWork& work) override;
  Status BeginIfFinite(BufferRange value) override;
  Status EndIf() override;

 private:
  struct OpCall;
  class Captured;
  // On the queue that runs it, which need not be the one that captured it.
  using Function = std::function<Status(SimQueue&)>;
  struct Task {
    Function run;
    bool always = false;       // also after an error
    bool conditional = false;  // not where the last condition failed
  };
  void Push(Task task);
  void PushOp(const OpCall& call, bool conditional);
  // Of a copy: pushed, or kept during a capture.
  Status Add(Function copy);
  void Loop();
  Status RunOp(const OpCall& call);
  Status TestFinite(const SimRange& value);
  // Copies with `copy(to, from)`, either of which may be null where it is the host's.
  Status RunCopy(const SimRange& to, const SimRange& from, double seconds,
                 const std::function<void(std::byte* to, const std::byte* from)>& copy);
  Status AwaitEvent(EventState& event, int64_t point);
  double HostCopySeconds(int64_t bytes) const;
  // Sleeps until `begin` + `seconds`, or until the queue is being destroyed.
  void PassTime(double begin, double seconds);
  bool closing();

  const std::shared_ptr<Unit> unit_;
  const std::string name_;
  const bool counted_;  // its ops count for faults
  // Of the thread that enqueues.
  std::string last_op_ = "no op";
  bool swallow_ = false;               // the next event
  std::unique_ptr<Captured> capture_;  // what is being captured
  // Of the queue's thread.
  Status status_;
  bool holds_ = true;  // the last condition

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool closing_ = false;    // guarded by mutex_
  std::thread thread_;
};

}  // namespace oc::sim
