#include "openclaw/devices/opencl/queue.h"

#include <chrono>

#include "openclaw/devices/opencl/op.h"
#include "openclaw/devices/opencl/slice.h"

namespace oc::opencl {
namespace {

void CL_CALLBACK OnMarker(cl_event, cl_int execution, void* data) {
  std::unique_ptr<std::shared_ptr<Point>> point(static_cast<std::shared_ptr<Point>*>(data));
  (*point)->Resolve(execution);
}

OpenClBuffer* BufferOf(const BufferRange& range) {
  return static_cast<OpenClBuffer*>(range.buffer);
}

}  // namespace

Status Point::Outcome(cl_int execution, const std::vector<std::shared_ptr<Point>>& before) const {
  OC_RETURN_IF_ERROR(earlier_);
  // Points that this one waited for have ended on the device; their callbacks may come later.
  for (const auto& point : before) {
    point->Resolve(CL_COMPLETE);
    OC_RETURN_IF_ERROR(point->status());
  }
  if (flags_[0] != 0) {
    const auto check = checks_.find(flags_[0]);
    if (check == checks_.end()) return Internal(where_, ": an unknown report of bad data");
    const DataCheck& c = *check->second;
    return OutOfRange(c.what, " ", flags_[2], " at position ", flags_[1], " is outside ", c.range,
                      " (op ", c.op, ", ", where_, ")");
  }
  if (execution < 0) return ToStatus(execution, "run what was enqueued", where_);
  return OkStatus();
}

void Point::Resolve(cl_int execution) {
  std::vector<std::shared_ptr<Point>> before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return;
    before = before_;
  }
  Status outcome = Outcome(execution, before);
  std::vector<ClEvent> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return;
    done_ = true;
    status_ = std::move(outcome);
    waiting.swap(waiting_);
    before_.clear();  // or every point would keep all that came before it
  }
  changed_.notify_all();
  for (const ClEvent& event : waiting) clSetUserEventStatus(event.get(), CL_COMPLETE);
}

// What the device says of the marker now, without waiting for its callback.
void Point::Poll() {
  cl_int execution = CL_QUEUED;
  if (marker_.get() == nullptr ||
      clGetEventInfo(marker_.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(execution),
                     &execution, nullptr) != CL_SUCCESS) {
    return;
  }
  if (execution <= CL_COMPLETE) Resolve(execution);
}

bool Point::Ready() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return true;
  }
  Poll();
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

Status Point::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

// Some drivers call back up to 20 ms late (NVIDIA's, seen on an H200), so the marker is asked as
// well: at first without a pause, then ten thousand times a second at most.
Status Point::Wait(double timeout_seconds) {
  constexpr auto kEager = std::chrono::microseconds(50), kPause = std::chrono::microseconds(100);
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::duration<double>(timeout_seconds);
  while (!Ready()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return LateEvent(timeout_seconds, where_);
    if (now - begin < kEager) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kPause, [&] { return done_; });
  }
  return status();
}

void Point::EndLater(cl_event user_event) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!done_) {
      clRetainEvent(user_event);
      waiting_.emplace_back(user_event);
      return;
    }
  }
  clSetUserEventStatus(user_event, CL_COMPLETE);
}

OpenClQueue::OpenClQueue(const OpenClSlice& slice, std::string name)
    : slice_(slice), where_(absl::StrCat("queue ", name, " of ", slice.where())) {}

StatusOr<std::unique_ptr<Queue>> OpenClQueue::Create(const OpenClSlice& slice, std::string name) {
  std::unique_ptr<OpenClQueue> queue(new OpenClQueue(slice, std::move(name)));
  cl_int code = CL_SUCCESS;
  // Without properties: in order.
  queue->queue_ = ClQueue(clCreateCommandQueue(slice.context(), slice.device(), 0, &code));
  OC_RETURN_IF_ERROR(ToStatus(code, "clCreateCommandQueue", queue->where_));
  cl_int none[4] = {0, 0, 0, 0};
  queue->flags_ = ClMemory(clCreateBuffer(slice.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                          sizeof(none), none, &code));
  OC_RETURN_IF_ERROR(ToStatus(code, "clCreateBuffer", queue->where_));
  return std::unique_ptr<Queue>(std::move(queue));
}

// Nothing enqueued may use host memory or buffers that go away afterwards.
OpenClQueue::~OpenClQueue() {
  if (queue_.get() != nullptr) clFinish(queue_.get());
}

Status OpenClQueue::Keep(Status status) {
  if (first_error_.ok()) first_error_ = status;
  return status;
}

Status OpenClQueue::CheckOwn(const BufferRange& range) const {
  if (range.buffer == nullptr || BufferOf(range)->slice() == &slice_) return OkStatus();
  return InvalidArgument(where_, ": a range of a buffer of another slice");
}

Status OpenClQueue::Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                            std::span<const BufferRange> outputs, BufferRange workspace) {
  for (const auto ranges : {inputs, outputs}) {
    for (const BufferRange& r : ranges) OC_RETURN_IF_ERROR(Keep(CheckOwn(r)));
  }
  for (const BufferRange& r : outputs) {
    if (r.buffer != nullptr) BufferOf(r)->Touch(r.offset + r.bytes);
  }
  auto& prepared = static_cast<OpenClOp&>(op);
  if (workspace.buffer != nullptr && prepared.workspace_bytes() > 0) {
    BufferOf(workspace)->Touch(workspace.offset + prepared.workspace_bytes());
  }
  if (const auto& check = prepared.check(); check != nullptr) checks_.emplace(check->code, check);
  return Keep(prepared.Run({*this, inputs, outputs, workspace}));
}

Status OpenClQueue::CopyFromHost(BufferRange to, std::span<const std::byte> from) {
  if (from.empty()) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(CheckOwn(to)));
  BufferOf(to)->Touch(to.offset + static_cast<int64_t>(from.size()));
  return Keep(ToStatus(clEnqueueWriteBuffer(queue_.get(), BufferOf(to)->get(), CL_FALSE,
                                            static_cast<size_t>(to.offset), from.size(),
                                            from.data(), 0, nullptr, nullptr),
                       "clEnqueueWriteBuffer", where_));
}

Status OpenClQueue::CopyToHost(std::span<std::byte> to, BufferRange from) {
  if (to.empty()) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(CheckOwn(from)));
  return Keep(ToStatus(clEnqueueReadBuffer(queue_.get(), BufferOf(from)->get(), CL_FALSE,
                                           static_cast<size_t>(from.offset), to.size(), to.data(),
                                           0, nullptr, nullptr),
                       "clEnqueueReadBuffer", where_));
}

Status OpenClQueue::Copy(BufferRange to, BufferRange from) {
  if (from.bytes == 0) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(CheckOwn(from)));
  OC_RETURN_IF_ERROR(Keep(CheckOwn(to)));
  BufferOf(to)->Touch(to.offset + from.bytes);
  return Keep(
      ToStatus(clEnqueueCopyBuffer(queue_.get(), BufferOf(from)->get(), BufferOf(to)->get(),
                                   static_cast<size_t>(from.offset), static_cast<size_t>(to.offset),
                                   static_cast<size_t>(from.bytes), 0, nullptr, nullptr),
               "clEnqueueCopyBuffer", where_));
}

// The flags are only read where an op that reports was enqueued.
Status OpenClQueue::Mark(const std::shared_ptr<Point>& point) {
  cl_event marker = nullptr;
  if (checks_.empty()) {
    OC_RETURN_IF_ERROR(ToStatus(clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &marker),
                                "clEnqueueMarkerWithWaitList", where_));
  } else {
    OC_RETURN_IF_ERROR(
        ToStatus(clEnqueueReadBuffer(queue_.get(), flags_.get(), CL_FALSE, 0, 3 * sizeof(cl_int),
                                     point->flags(), 0, nullptr, &marker),
                 "clEnqueueReadBuffer", where_));
  }
  point->SetMarker(ClEvent(marker));
  // The callback's; it stays where there will be none, for the flags are still written.
  auto* kept = new std::shared_ptr<Point>(point);
  OC_RETURN_IF_ERROR(ToStatus(clSetEventCallback(marker, CL_COMPLETE, OnMarker, kept),
                              "clSetEventCallback", where_));
  return ToStatus(clFlush(queue_.get()), "clFlush", where_);
}

Status OpenClQueue::Record(Event& event) {
  std::vector<std::shared_ptr<Point>> before;
  if (last_ != nullptr) waited_.push_back(last_);
  for (auto& point : waited_) {
    if (!point->Ready()) {
      before.push_back(point);
    } else {
      (void)Keep(point->status());
    }
  }
  waited_.clear();
  auto point = std::make_shared<Point>(where_, first_error_, std::move(before), checks_);
  const Status status = Keep(Mark(point));
  last_ = point;
  // An event of a queue that cannot mark is ready, with the error.
  if (!status.ok()) point->Resolve(CL_OUT_OF_RESOURCES);
  static_cast<OpenClEvent&>(event).Set(std::move(point));
  return status;
}

Status OpenClQueue::WaitFor(Event& event) {
  const auto point = static_cast<OpenClEvent&>(event).point();
  if (point == nullptr) {
    return Keep(FailedPrecondition(where_, " is to wait for an event that was not recorded"));
  }
  if (point->Ready()) return Keep(point->status());
  // The event may be of another slice, whose context is another one.
  cl_int code = CL_SUCCESS;
  const ClEvent bridge(clCreateUserEvent(slice_.context(), &code));
  OC_RETURN_IF_ERROR(Keep(ToStatus(code, "clCreateUserEvent", where_)));
  const cl_event wanted = bridge.get();
  OC_RETURN_IF_ERROR(Keep(ToStatus(clEnqueueBarrierWithWaitList(queue_.get(), 1, &wanted, nullptr),
                                   "clEnqueueBarrierWithWaitList", where_)));
  point->EndLater(wanted);
  waited_.push_back(point);
  return OkStatus();
}

}  // namespace oc::opencl
