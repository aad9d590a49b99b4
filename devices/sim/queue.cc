#include "openclaw/devices/sim/queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "openclaw/core/clock.h"

namespace oc::sim {
namespace {

constexpr double kLongestWait = 1e8;  // seconds; more would overflow a clock
constexpr double kLookEvery = 0.02;   // seconds between two looks at whether the queue ends
constexpr double kDrainSeconds = 30;  // that a queue which ends waits for another one's event

std::chrono::duration<double> Seconds(double seconds) {
  return std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongestWait));
}

// Access to memory as long as it lives.
class Access {
 public:
  Status Take(const SimRange& range, std::byte** data) {
    *data = nullptr;
    if (range.memory == nullptr) return OkStatus();
    OC_ASSIGN_OR_RETURN(std::byte * base, range.memory->Acquire());
    taken_.push_back(range.memory.get());
    *data = base + range.offset;
    return OkStatus();
  }
  ~Access() {
    for (SimMemory* m : taken_) m->Release();
  }

 private:
  std::vector<SimMemory*> taken_;
};

void Wrote(const SimRange& range) {
  if (range.memory != nullptr) range.memory->Wrote(range.offset + range.bytes);
}

}  // namespace

void Unit::Lose(const Status& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (lost_.ok()) lost_ = reason;
}

Status Unit::lost() {
  std::lock_guard<std::mutex> lock(mutex_);
  return lost_;
}

// ---- Events ----

int64_t EventState::Begin(std::string what) {
  std::lock_guard<std::mutex> lock(mutex_);
  what_ = std::move(what);
  return ++begun_;
}

void EventState::End(int64_t point, const Status& status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (point <= ended_) return;  // of a queue that was slower than a later one
    ended_ = point;
    status_ = status;
  }
  changed_.notify_all();
}

void EventState::Swallow(int64_t point) {
  std::lock_guard<std::mutex> lock(mutex_);
  swallowed_ = point;
}

bool EventState::Ready() {
  std::lock_guard<std::mutex> lock(mutex_);
  return begun_ > 0 && ended_ == begun_;
}

int64_t EventState::newest() {
  std::lock_guard<std::mutex> lock(mutex_);
  return begun_;
}

bool EventState::Coming(int64_t point) {
  std::lock_guard<std::mutex> lock(mutex_);
  return begun_ >= point && swallowed_ < point;
}

Status EventState::Wait(double timeout_seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto done = [&] { return begun_ > 0 && ended_ == begun_; };
  if (changed_.wait_for(lock, Seconds(timeout_seconds), done)) return status_;
  return absl::DeadlineExceededError(absl::StrCat("wait for an event",
                                                  what_.empty() ? " that was not recorded" : what_,
                                                  ": not ready after ", timeout_seconds, " s"));
}

bool EventState::Reached(int64_t point, double timeout_seconds, Status& status) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, Seconds(timeout_seconds), [&] { return ended_ >= point; })) {
    return false;
  }
  status = status_;
  return true;
}

// ---- The queue ----

struct SimQueue::OpCall {
  std::shared_ptr<SimKernel> kernel;
  std::vector<SimRange> inputs, outputs;
  SimRange workspace;
  int64_t number = 0;  // among those that faults count
};

// A list of what is pushed again by a launch.
class SimQueue::Captured : public CapturedWork {
 public:
  struct Step {
    std::optional<OpCall> op;
    Function run;  // where it is no op
    bool conditional = false;
  };
  void Add(std::optional<OpCall> op, Function run) {
    steps_.push_back({std::move(op), std::move(run), conditional_});
  }
  const std::vector<Step>& steps() const { return steps_; }
  bool conditional() const { return conditional_; }
  void set_conditional(bool conditional) { conditional_ = conditional; }

 private:
  std::vector<Step> steps_;
  bool conditional_ = false;  // what is added now
};

SimQueue::SimQueue(std::shared_ptr<Unit> unit, std::string name)
    : unit_(std::move(unit)),
      name_(std::move(name)),
      counted_(unit_->options.faults_on.empty() || unit_->options.faults_on == name_) {
  thread_ = std::thread([this] { Loop(); });
}

SimQueue::~SimQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SimQueue::Push(Task task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

Status SimQueue::Add(Function copy) {
  if (capture_ != nullptr) {
    capture_->Add(std::nullopt, std::move(copy));
  } else {
    Push({.run = std::move(copy)});
  }
  return OkStatus();
}

void SimQueue::Loop() {
  for (;;) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    if (status_.ok()) status_ = unit_->lost();
    if (!status_.ok() && !task.always) continue;
    if (task.conditional && !holds_) continue;
    const Status status = task.run(*this);
    if (status_.ok()) status_ = status;
  }
}

bool SimQueue::closing() {
  std::lock_guard<std::mutex> lock(mutex_);
  return closing_;
}

void SimQueue::PassTime(double begin, double seconds) {
  const double left = begin + seconds - NowSeconds();
  if (left <= 0) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, Seconds(left), [&] { return closing_; });
}

Status SimQueue::Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                         std::span<const BufferRange> outputs, BufferRange workspace) {
  OpCall call{.kernel = static_cast<SimOp&>(op).kernel()};
  const auto add = [&](const BufferRange& r, std::vector<SimRange>& to) {
    auto range = ToSimRange(r);
    if (!range.ok()) return Annotate(range.status(), absl::StrCat("op ", call.kernel->name));
    to.push_back(*std::move(range));
    return OkStatus();
  };
  for (const BufferRange& r : inputs) OC_RETURN_IF_ERROR(add(r, call.inputs));
  for (const BufferRange& r : outputs) OC_RETURN_IF_ERROR(add(r, call.outputs));
  OC_ASSIGN_OR_RETURN(call.workspace, ToSimRange(workspace));
  if (capture_ != nullptr) {
    capture_->Add(std::move(call), nullptr);
  } else {
    PushOp(call, /*conditional=*/false);
  }
  return OkStatus();
}

void SimQueue::PushOp(const OpCall& call, bool conditional) {
  last_op_ = call.kernel->name;
  OpCall own = call;
  if (counted_) {
    own.number = unit_->ops.fetch_add(1) + 1;
    if (own.number == unit_->options.never_signal_at) swallow_ = true;
  }
  Push({.run = [own = std::move(own)](SimQueue& q) { return q.RunOp(own); },
        .conditional = conditional});
}

Status SimQueue::RunOp(const OpCall& call) {
  const SimKernel& k = *call.kernel;
  if (call.number > 0 && call.number == unit_->options.fail_at) {
    unit_->Lose(absl::UnavailableError(
        absl::StrCat("device lost: ", unit_->device, ", at op ", call.number, ", ", k.name)));
    return unit_->lost();
  }
  std::lock_guard<std::mutex> one_at_a_time(unit_->compute);
  const double begin = NowSeconds();
  {
    Access access;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::byte* data = nullptr;
    const auto take = [&](const SimRange& range) {
      return Annotate(access.Take(range, &data),
                      absl::StrCat("run ", k.name, " on ", unit_->device));
    };
    for (const SimRange& r : call.inputs) {
      OC_RETURN_IF_ERROR(take(r));
      in.push_back(data);
    }
    for (const SimRange& r : call.outputs) {
      OC_RETURN_IF_ERROR(take(r));
      out.push_back(data);
      Wrote(r);
    }
    OC_RETURN_IF_ERROR(take(call.workspace));
    Wrote(call.workspace);
    unit_->pool.BindCaller();
    OC_RETURN_IF_ERROR(k.kernel->Run({in.data(), out.data(), data, unit_->pool}));
  }
  PassTime(begin, k.seconds);
  return OkStatus();
}

double SimQueue::HostCopySeconds(int64_t bytes) const {
  const SimOptions& o = unit_->options;
  double seconds = o.latency_us * 1e-6;
  if (o.bandwidth_gbps > 0) seconds += static_cast<double>(bytes) / (o.bandwidth_gbps * 1e9);
  return seconds;
}

Status SimQueue::RunCopy(const SimRange& to, const SimRange& from, double seconds,
                         const std::function<void(std::byte*, const std::byte*)>& copy) {
  const double begin = NowSeconds();
  {
    Access access;
    std::byte *target = nullptr, *source = nullptr;
    const std::string what = absl::StrCat("copy on ", unit_->device);
    OC_RETURN_IF_ERROR(Annotate(access.Take(to, &target), what));
    OC_RETURN_IF_ERROR(Annotate(access.Take(from, &source), what));
    copy(target, source);
    Wrote(to);
  }
  PassTime(begin, seconds);
  return OkStatus();
}

Status SimQueue::CopyFromHost(BufferRange to, std::span<const std::byte> from) {
  to.bytes = static_cast<int64_t>(from.size());
  OC_ASSIGN_OR_RETURN(SimRange range, ToSimRange(to));
  return Add([range = std::move(range), from](SimQueue& q) {
    return q.RunCopy(range, {}, q.HostCopySeconds(range.bytes),
                     [&](std::byte* t, const std::byte*) {
                       if (!from.empty()) std::memcpy(t, from.data(), from.size());
                     });
  });
}

Status SimQueue::CopyToHost(std::span<std::byte> to, BufferRange from) {
  from.bytes = static_cast<int64_t>(to.size());
  OC_ASSIGN_OR_RETURN(SimRange range, ToSimRange(from));
  return Add([range = std::move(range), to](SimQueue& q) {
    return q.RunCopy({}, range, q.HostCopySeconds(range.bytes),
                     [&](std::byte*, const std::byte* f) {
                       if (!to.empty()) std::memcpy(to.data(), f, to.size());
                     });
  });
}

Status SimQueue::Copy(BufferRange to, BufferRange from) {
  to.bytes = from.bytes;
  OC_ASSIGN_OR_RETURN(SimRange target, ToSimRange(to));
  OC_ASSIGN_OR_RETURN(SimRange source, ToSimRange(from));
  const SimOptions& o = unit_->options;
  const auto moved = static_cast<double>(2 * from.bytes);  // read and written
  const double seconds = o.speed > 0 ? moved / (o.memory_gbps * 1e9 * o.speed) : 0;
  return Add([target = std::move(target), source = std::move(source), seconds](SimQueue& q) {
    return q.RunCopy(target, source, seconds, [&](std::byte* t, const std::byte* f) {
      if (source.bytes > 0) std::memmove(t, f, static_cast<size_t>(source.bytes));
    });
  });
}

// ---- Capture ----

Status SimQueue::BeginCapture() {
  if (capture_ != nullptr) {
    return FailedPrecondition("queue ", name_, " of ", unit_->device, " captures already");
  }
  capture_ = std::make_unique<Captured>();
  return OkStatus();
}

StatusOr<std::unique_ptr<CapturedWork>> SimQueue::EndCapture() {
  if (capture_ == nullptr) {
    return FailedPrecondition("queue ", name_, " of ", unit_->device, " captures nothing");
  }
  std::unique_ptr<Captured> work = std::move(capture_);
  if (work->conditional()) {
    return FailedPrecondition("queue ", name_, " of ", unit_->device,
                              ": a capture ends within a condition");
  }
  return std::unique_ptr<CapturedWork>(std::move(work));
}

Status SimQueue::Launch(CapturedWork& work) {
  for (const Captured::Step& step : static_cast<Captured&>(work).steps()) {
    if (step.op.has_value()) {
      PushOp(*step.op, step.conditional);
    } else {
      Push({.run = step.run, .conditional = step.conditional});
    }
  }
  return OkStatus();
}

Status SimQueue::BeginIfFinite(BufferRange value) {
  if (capture_ == nullptr || capture_->conditional()) {
    return FailedPrecondition("queue ", name_, " of ", unit_->device,
                              ": a condition wants a capture, and none around it");
  }
  if (value.bytes != sizeof(float))
    return InvalidArgument("a condition on ", value.bytes, " bytes");
  OC_ASSIGN_OR_RETURN(SimRange range, ToSimRange(value));
  capture_->Add(std::nullopt,
                [range = std::move(range)](SimQueue& q) { return q.TestFinite(range); });
  capture_->set_conditional(true);
  return OkStatus();
}

Status SimQueue::EndIf() {
  if (capture_ == nullptr || !capture_->conditional()) return Queue::EndIf();
  capture_->set_conditional(false);
  return OkStatus();
}

Status SimQueue::TestFinite(const SimRange& value) {
  Access access;
  std::byte* data = nullptr;
  OC_RETURN_IF_ERROR(
      Annotate(access.Take(value, &data), absl::StrCat("condition on ", unit_->device)));
  float number = 0;
  std::memcpy(&number, data, sizeof(number));
  holds_ = std::isfinite(number);
  return OkStatus();
}

// ---- Events of the queue ----

Status SimQueue::Record(Event& event) {
  const std::shared_ptr<EventState>& state = static_cast<SimEvent&>(event).state();
  const int64_t point =
      state->Begin(absl::StrCat(" of ", unit_->device, ", queue ", name_, ", after ", last_op_));
  const bool swallow = std::exchange(swallow_, false);
  const auto tell = [state, point, swallow](SimQueue& q) {
    if (swallow) {
      state->Swallow(point);
    } else {
      state->End(point, q.status_);
    }
    return OkStatus();
  };
  Push({.run = tell, .always = true});
  return OkStatus();
}

Status SimQueue::WaitFor(Event& event) {
  const std::shared_ptr<EventState>& state = static_cast<SimEvent&>(event).state();
  // An event that was not recorded yet: until it is.
  const int64_t point = std::max<int64_t>(1, state->newest());
  Push({.run = [state, point](SimQueue& q) { return q.AwaitEvent(*state, point); }});
  return OkStatus();
}

Status SimQueue::AwaitEvent(EventState& event, int64_t point) {
  double closing_since = 0;
  for (;;) {
    Status status;
    if (event.Reached(point, kLookEvery, status)) return status;
    OC_RETURN_IF_ERROR(unit_->lost());
    if (!closing()) continue;
    if (closing_since == 0) closing_since = NowSeconds();
    if (!event.Coming(point) || NowSeconds() - closing_since > kDrainSeconds) {
      return absl::CancelledError(absl::StrCat("queue ", name_, " of ", unit_->device,
                                               " was destroyed while it waited for an event"));
    }
  }
}

}  // namespace oc::sim
