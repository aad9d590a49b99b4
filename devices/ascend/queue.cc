#include "openclaw/devices/ascend/queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "openclaw/core/logging.h"
#include "openclaw/devices/ascend/op.h"
#include "openclaw/devices/ascend/slice.h"

namespace oc::ascend {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<int64_t, std::milli>;

// Of one wait of the following thread, and of all together once the queue is being destroyed.
constexpr int32_t kPatienceMs = 1000;
constexpr std::chrono::seconds kClosing(60);
// Of points that ended: a queue has few at once.
constexpr size_t kMostSpare = 8;

int64_t MillisecondsTo(Clock::time_point end) {
  return std::chrono::duration_cast<Milliseconds>(end - Clock::now()).count();
}

AscendBuffer* BufferOf(const BufferRange& range) {
  return static_cast<AscendBuffer*>(range.buffer);
}
char* AddressOf(const BufferRange& range) { return BufferOf(range)->data() + range.offset; }

}  // namespace

EventPool::~EventPool() {
  if (!api_->UseDevice(device_).ok()) return;
  for (AclEvent event : free_) (void)api_->aclrtDestroyEvent(event);
}

StatusOr<std::shared_ptr<void>> EventPool::Get() {
  AclEvent event = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) {
    OC_RETURN_IF_ERROR(api_->ToStatus(api_->aclrtCreateEventExWithFlag(&event, kEventSync),
                                      "aclrtCreateEventExWithFlag",
                                      absl::StrCat("ascend:", device_)));
  }
  return std::shared_ptr<void>(event, [pool = shared_from_this()](void* e) {
    std::lock_guard<std::mutex> lock(pool->mutex_);
    pool->free_.push_back(e);
  });
}

StatusOr<std::shared_ptr<OwnedStream>> OwnedStream::Create(std::shared_ptr<const Api> api,
                                                           int device, std::string where) {
  OC_RETURN_IF_ERROR(api->UseDevice(device));
  std::shared_ptr<OwnedStream> made(new OwnedStream(std::move(api), device, std::move(where)));
  OC_RETURN_IF_ERROR(made->api_->ToStatus(made->api_->aclrtCreateStream(&made->stream_),
                                          "aclrtCreateStream", made->where_));
  return made;
}

OwnedStream::~OwnedStream() {
  if (stream_ == nullptr || abandoned_ || !api_->UseDevice(device_).ok()) return;
  const Status status =
      api_->ToStatus(api_->aclrtDestroyStream(stream_), "aclrtDestroyStream", where_);
  if (!status.ok()) OC_LOG_WARNING(status.message());
}

Status OwnedStream::Synchronize(Clock::time_point deadline) const {
  OC_RETURN_IF_ERROR(api_->UseDevice(device_));
  const auto left = static_cast<int32_t>(std::max<int64_t>(1, MillisecondsTo(deadline)));
  return api_->ToStatus(api_->aclrtSynchronizeStreamWithTimeout(stream_, left),
                        "aclrtSynchronizeStreamWithTimeout", where_);
}

void Point::Work::Clear() {
  checks.clear();
  copies.clear();
  held.clear();
  waited.clear();
  enqueued = OkStatus();
}

void Point::Work::Abandon() {
  waited.clear();
  if (!checks.empty() || !copies.empty() || !held.empty()) new Work(std::move(*this));
  Clear();
}

void Point::Resolve(Status status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    status_ = std::move(status);
  }
  changed_.notify_all();
}

bool Point::Ready() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

Status Point::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

Status Point::Wait(double timeout_seconds) const {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                         [&] { return done_; })) {
    return LateEvent(timeout_seconds, where_);
  }
  return status_;
}

AscendQueue::AscendQueue(const AscendSlice& slice, std::string name)
    : slice_(slice), where_(absl::StrCat("queue ", name, " of ", slice.where())) {}

StatusOr<std::unique_ptr<Queue>> AscendQueue::Create(const AscendSlice& slice, std::string name) {
  std::unique_ptr<AscendQueue> queue(new AscendQueue(slice, std::move(name)));
  OC_ASSIGN_OR_RETURN(queue->stream_,
                      OwnedStream::Create(slice.shared_api(), slice.device(), queue->where_));
  queue->thread_ = std::thread([raw = queue.get()] { raw->Follow(); });
  return std::unique_ptr<Queue>(std::move(queue));
}

// Nothing enqueued may use host memory or buffers that go away afterwards.
AscendQueue::~AscendQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    end_ = Clock::now() + kClosing;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (stream_ == nullptr) return;
  const Status ended = stream_->Synchronize(end_);
  if (absl::IsDeadlineExceeded(ended)) {
    OC_LOG_WARNING("a stream and what it copies are left as they are: ", ended.message());
    stream_->Abandon();
    work_.Abandon();
  }
}

Status AscendQueue::Keep(Status status) {
  if (first_error_.ok()) first_error_ = status;
  return status;
}

Status AscendQueue::CheckRange(const BufferRange& range) const {
  if (range.buffer == nullptr) return OkStatus();
  if (BufferOf(range)->slice() != &slice_) {
    return InvalidArgument(where_, ": a range of a buffer of another slice");
  }
  if (range.offset < 0 || range.bytes < 0 || range.bytes > range.buffer->bytes() - range.offset) {
    return InvalidArgument(where_, ": bytes ", range.offset, " to ", range.offset + range.bytes,
                           " of a buffer of ", range.buffer->bytes());
  }
  return OkStatus();
}

Status AscendQueue::CopyAsync(char* to, const char* from, int64_t bytes, int32_t kind) const {
  const auto size = static_cast<size_t>(bytes);
  return slice_.api().ToStatus(
      slice_.api().aclrtMemcpyAsync(to, size, from, size, kind, stream_->get()), "aclrtMemcpyAsync",
      where_);
}

Status AscendQueue::FetchChecks(const AscendOp& op, const BufferRange& workspace) {
  for (const auto& [place, check] : op.checks()) {
    OC_ASSIGN_OR_RETURN(std::shared_ptr<char> numbers, slice_.staging().Get(kCheckBytes));
    OC_RETURN_IF_ERROR(
        CopyAsync(numbers.get(), AddressOf(workspace) + place, kCheckBytes, kMemcpyDeviceToHost));
    work_.checks.push_back({std::move(numbers), check});
  }
  return OkStatus();
}

Status AscendQueue::Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                            std::span<const BufferRange> outputs, BufferRange workspace) {
  for (const auto ranges : {inputs, outputs, std::span<const BufferRange>(&workspace, 1)}) {
    for (const BufferRange& r : ranges) OC_RETURN_IF_ERROR(Keep(CheckRange(r)));
  }
  for (const BufferRange& r : outputs) {
    if (r.buffer != nullptr) BufferOf(r)->Touch(r.offset + r.bytes);
  }
  auto& prepared = static_cast<AscendOp&>(op);
  if (workspace.buffer != nullptr && prepared.workspace_bytes() > 0) {
    BufferOf(workspace)->Touch(workspace.offset + prepared.workspace_bytes());
  }
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  const auto address = [](const BufferRange& r) {
    return r.buffer == nullptr ? nullptr : AddressOf(r);
  };
  inputs_.clear();
  outputs_.clear();
  for (const BufferRange& r : inputs) inputs_.push_back(address(r));
  for (const BufferRange& r : outputs) outputs_.push_back(address(r));
  OC_RETURN_IF_ERROR(Keep(prepared.Run({inputs_, outputs_, address(workspace), stream_->get()})));
  return Keep(FetchChecks(prepared, workspace));
}

Status AscendQueue::CopyFromHost(BufferRange to, std::span<const std::byte> from) {
  if (from.empty()) return OkStatus();
  to.bytes = static_cast<int64_t>(from.size());
  OC_RETURN_IF_ERROR(Keep(CheckRange(to)));
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  BufferOf(to)->Touch(to.offset + to.bytes);
  auto chunk = slice_.staging().Get(to.bytes);
  OC_RETURN_IF_ERROR(Keep(chunk.status()));
  std::memcpy(chunk->get(), from.data(), from.size());
  OC_RETURN_IF_ERROR(Keep(CopyAsync(AddressOf(to), chunk->get(), to.bytes, kMemcpyHostToDevice)));
  work_.held.push_back(*std::move(chunk));
  return OkStatus();
}

Status AscendQueue::CopyToHost(std::span<std::byte> to, BufferRange from) {
  if (to.empty()) return OkStatus();
  from.bytes = static_cast<int64_t>(to.size());
  OC_RETURN_IF_ERROR(Keep(CheckRange(from)));
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  auto chunk = slice_.staging().Get(from.bytes);
  OC_RETURN_IF_ERROR(Keep(chunk.status()));
  OC_RETURN_IF_ERROR(
      Keep(CopyAsync(chunk->get(), AddressOf(from), from.bytes, kMemcpyDeviceToHost)));
  work_.copies.push_back({*std::move(chunk), to});
  return OkStatus();
}

Status AscendQueue::Copy(BufferRange to, BufferRange from) {
  if (from.bytes == 0) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(CheckRange(from)));
  OC_RETURN_IF_ERROR(Keep(CheckRange(to)));
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  BufferOf(to)->Touch(to.offset + from.bytes);
  return Keep(CopyAsync(AddressOf(to), AddressOf(from), from.bytes, kMemcpyDeviceToDevice));
}

Status AscendQueue::EnqueueCollective(std::span<const BufferRange> from,
                                      std::span<const BufferRange> to,
                                      const std::function<Status(Stream)>& enqueue) {
  for (const auto ranges : {from, to}) {
    for (const BufferRange& r : ranges) OC_RETURN_IF_ERROR(Keep(CheckRange(r)));
  }
  for (const BufferRange& r : to) {
    if (r.buffer != nullptr) BufferOf(r)->Touch(r.offset + r.bytes);
  }
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  return Keep(enqueue(stream_->get()));
}

Status AscendQueue::Record(Event& event) {
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  auto runtime_event = slice_.events().Get();
  OC_RETURN_IF_ERROR(Keep(runtime_event.status()));
  const Status status = Keep(
      slice_.api().ToStatus(slice_.api().aclrtRecordEvent(runtime_event->get(), stream_->get()),
                            "aclrtRecordEvent", where_));
  Point::Work work;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!spare_.empty()) {
      work = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  std::swap(work, work_);
  work.enqueued = first_error_;
  auto point = std::make_shared<Point>(where_, *std::move(runtime_event), std::move(work));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    following_.push_back(point);
  }
  changed_.notify_all();
  static_cast<AscendEvent&>(event).Set(std::move(point));
  return status;
}

Status AscendQueue::WaitFor(Event& event) {
  const auto point = static_cast<AscendEvent&>(event).point();
  if (point == nullptr) {
    return Keep(FailedPrecondition(where_, " is to wait for an event that was not recorded"));
  }
  if (point->Ready()) return Keep(point->status());
  OC_RETURN_IF_ERROR(Keep(slice_.UseDevice()));
  OC_RETURN_IF_ERROR(
      Keep(slice_.api().ToStatus(slice_.api().aclrtStreamWaitEvent(stream_->get(), point->event()),
                                 "aclrtStreamWaitEvent", where_)));
  work_.waited.push_back(point);
  return OkStatus();
}

int32_t AscendQueue::PatienceMs() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closing_) return kPatienceMs;
  return static_cast<int32_t>(std::clamp<int64_t>(MillisecondsTo(end_), 0, kPatienceMs));
}

// On the following thread.
Status AscendQueue::Outcome(Point& point) const {
  OC_RETURN_IF_ERROR(slice_.UseDevice());
  int32_t code = kRtEventSyncTimeout;
  bool last = false;
  while (code == kRtEventSyncTimeout && !last) {
    const int32_t patience = PatienceMs();
    last = patience == 0;
    code = slice_.api().aclrtSynchronizeEventWithTimeout(point.event(), std::max(1, patience));
  }
  const Status ended = slice_.api().ToStatus(code, "run what was enqueued", where_);
  if (code == kRtEventSyncTimeout) {
    const Status enqueued = point.todo.enqueued;
    point.todo.Abandon();
    return enqueued.ok() ? ended : enqueued;
  }
  const Point::Work& work = point.todo;
  OC_RETURN_IF_ERROR(work.enqueued);
  // Their work has ended too; only their threads may be later.
  for (const auto& before : work.waited) {
    for (int32_t patience = kPatienceMs; !before->Ready() && patience > 0;) {
      patience = PatienceMs();
      (void)before->Wait(patience / 1000.0);
    }
    if (!before->Ready()) return LateEvent(static_cast<double>(kClosing.count()), before->where());
    OC_RETURN_IF_ERROR(before->status());
  }
  OC_RETURN_IF_ERROR(ended);
  for (const PendingCheck& pending : work.checks) {
    int64_t numbers[3] = {0, 0, 0};
    for (int i = 0; i < 3; ++i) {
      std::memcpy(&numbers[i], pending.numbers.get() + i * kCheckStride, sizeof(int64_t));
    }
    if (numbers[0] == 0) continue;
    const DataCheck& c = *pending.check;
    return OutOfRange(c.what, " ", numbers[2], " at position ", numbers[1], " is outside ", c.range,
                      " (op ", c.op, ", ", where_, ")");
  }
  for (const PendingCopy& copy : work.copies) {
    std::memcpy(copy.to.data(), copy.from.get(), copy.to.size());
  }
  return OkStatus();
}

void AscendQueue::Follow() {
  Status earlier;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !following_.empty(); });
    if (following_.empty()) return;
    const std::shared_ptr<Point> point = std::move(following_.front());
    following_.pop_front();
    lock.unlock();
    Status status = Outcome(*point);
    if (earlier.ok()) earlier = std::move(status);
    // Chunks go back, and every point would keep all that it waited for.
    Point::Work done = std::move(point->todo);
    done.Clear();
    point->Resolve(earlier);
    lock.lock();
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(done));
  }
}

}  // namespace oc::ascend
