#include "streams.h"

#include <chrono>
#include <cstdlib>
#include <map>

#include "memory.h"

namespace ascend_emulator {
namespace {

constexpr int32_t kStreamNotComplete = 507004;

struct Handles {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<EmulatedStream>> streams;
  std::map<void*, std::unique_ptr<EmulatedEvent>> events;
};
Handles& TheHandles() {
  static auto* handles = new Handles;  // streams' threads may outlive main
  return *handles;
}

template <typename Predicate>
bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
               int32_t milliseconds, Predicate done) {
  if (milliseconds >= 0) {
    return changed.wait_for(lock, std::chrono::milliseconds(milliseconds), done);
  }
  changed.wait(lock, done);
  return true;
}

// rt 06/07, ...WithTimeout: -1 or above 0.
bool ValidTimeout(int32_t milliseconds) { return milliseconds == -1 || milliseconds > 0; }

}  // namespace

void Marker::Reach(int32_t status) {
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  status_ = status;
  reached_.notify_all();
}

int32_t Marker::Wait(int32_t milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!WaitUntil(reached_, lock, milliseconds, [&] { return done_; })) return kRtEventSyncTimeout;
  return status_;
}

EmulatedStream::EmulatedStream(int device) : device_(device), thread_([this] { Loop(); }) {}

EmulatedStream::~EmulatedStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EmulatedStream::Push(Task task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

int32_t EmulatedStream::Synchronize(int32_t milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!WaitUntil(changed_, lock, milliseconds, [&] { return tasks_.empty() && !running_; })) {
    return kRtStreamSyncTimeout;
  }
  return status_;
}

bool EmulatedStream::idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return tasks_.empty() && !running_;
}

void EmulatedStream::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    const int32_t status = task();
    task = nullptr;
    lock.lock();
    running_ = false;
    if (status_ == kAclSuccess) status_ = status;
    changed_.notify_all();
  }
}

std::shared_ptr<EmulatedStream> StreamOf(void* handle) {
  Handles& h = TheHandles();
  std::lock_guard<std::mutex> lock(h.mutex);
  const auto found = h.streams.find(handle);
  return found == h.streams.end() ? nullptr : found->second;
}

std::shared_ptr<EmulatedStream> UsableStream(const char* function, void* handle, int32_t* status) {
  *status = CheckThread(function);
  if (*status != kAclSuccess) return nullptr;
  auto stream = StreamOf(handle);
  if (stream == nullptr) {
    *status = Fail(kRtInvalidHandle, std::string(function) + ": no such stream");
    return nullptr;
  }
  // rt 25-01, ACL_ERROR_RT_STREAM_CONTEXT: the stream is of another context than the thread's.
  if (stream->device() != CurrentDevice()) {
    *status = Fail(kRtStreamContext, std::string(function) + ": a stream of another device");
    return nullptr;
  }
  return stream;
}

namespace {

EmulatedEvent* EventOf(void* handle) {
  Handles& h = TheHandles();
  const auto found = h.events.find(handle);
  return found == h.events.end() ? nullptr : found->second.get();
}

}  // namespace

EMULATOR_EXPORT int32_t aclrtCreateStream(void** stream) {
  if (const int32_t status = CheckThread("aclrtCreateStream"); status != 0) return status;
  if (stream == nullptr) return Fail(kRtParamInvalid, "aclrtCreateStream: null");
  auto made = std::make_shared<EmulatedStream>(CurrentDevice());
  Handles& h = TheHandles();
  std::lock_guard<std::mutex> lock(h.mutex);
  *stream = made.get();
  h.streams[made.get()] = std::move(made);
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtDestroyStream(void* handle) {
  int32_t status = kAclSuccess;
  // rt 06, aclrtDestroyStream: of the current context, and after aclrtSynchronizeStream.
  const auto stream = UsableStream("aclrtDestroyStream", handle, &status);
  if (stream == nullptr) return status;
  if (!stream->idle()) return Fail(kStreamNotComplete, "aclrtDestroyStream: work is pending");
  Handles& h = TheHandles();
  std::lock_guard<std::mutex> lock(h.mutex);
  h.streams.erase(handle);
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtSynchronizeStreamWithTimeout(void* handle, int32_t milliseconds) {
  int32_t status = kAclSuccess;
  const auto stream = UsableStream("aclrtSynchronizeStreamWithTimeout", handle, &status);
  if (stream == nullptr) return status;
  if (!ValidTimeout(milliseconds)) return Fail(kRtParamInvalid, "a timeout of 0");
  status = stream->Synchronize(milliseconds);
  return status == kAclSuccess ? status : Fail(status, "aclrtSynchronizeStream: work failed");
}

EMULATOR_EXPORT int32_t aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) {
  if (const int32_t status = CheckThread("aclrtSynchronizeDevice"); status != 0) return status;
  if (!ValidTimeout(milliseconds)) return Fail(kRtParamInvalid, "a timeout of 0");
  if (std::getenv("ASCEND_EMULATOR_BUSY") != nullptr) {
    return Fail(kRtStreamSyncTimeout, "aclrtSynchronizeDevice: work is pending");
  }
  std::vector<std::shared_ptr<EmulatedStream>> streams;
  {
    Handles& h = TheHandles();
    std::lock_guard<std::mutex> lock(h.mutex);
    for (const auto& [handle, stream] : h.streams) {
      if (stream->device() == CurrentDevice()) streams.push_back(stream);
    }
  }
  int32_t first = kAclSuccess;
  for (const auto& stream : streams) {
    const int32_t status = stream->Synchronize(milliseconds);
    if (first == kAclSuccess) first = status;
  }
  return first;
}

EMULATOR_EXPORT int32_t aclrtCreateEventExWithFlag(void** event, uint32_t flags) {
  if (const int32_t status = CheckThread("aclrtCreateEventExWithFlag"); status != 0) return status;
  if (event == nullptr || flags == 0) return Fail(kRtParamInvalid, "an event without a flag");
  auto made = std::make_unique<EmulatedEvent>();
  made->device = CurrentDevice();
  made->flags = flags;
  Handles& h = TheHandles();
  std::lock_guard<std::mutex> lock(h.mutex);
  *event = made.get();
  h.events[made.get()] = std::move(made);
  return kAclSuccess;
}

// Also before it is reached: rt 07, aclrtDestroyEvent.
EMULATOR_EXPORT int32_t aclrtDestroyEvent(void* event) {
  Handles& h = TheHandles();
  std::lock_guard<std::mutex> lock(h.mutex);
  if (h.events.erase(event) == 0) return Fail(kRtInvalidHandle, "aclrtDestroyEvent: no such event");
  return kAclSuccess;
}

// rt 07, aclrtRecordEvent: an event made by ...ExWithFlag may be recorded again and stands for the
// newer point; waits enqueued earlier keep the older one.
EMULATOR_EXPORT int32_t aclrtRecordEvent(void* handle, void* stream_handle) {
  int32_t status = kAclSuccess;
  const auto stream = UsableStream("aclrtRecordEvent", stream_handle, &status);
  if (stream == nullptr) return status;
  auto marker = std::make_shared<Marker>();
  {
    Handles& h = TheHandles();
    std::lock_guard<std::mutex> lock(h.mutex);
    EmulatedEvent* event = EventOf(handle);
    if (event == nullptr) return Fail(kRtInvalidHandle, "aclrtRecordEvent: no such event");
    if (event->device != stream->device()) {
      return Fail(kRtStreamContext, "aclrtRecordEvent: event and stream are of two devices");
    }
    event->newest = marker;
  }
  EmulatedStream* raw = stream.get();
  stream->Push([marker, raw] {
    marker->Reach(raw->status());
    return kAclSuccess;
  });
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtStreamWaitEvent(void* stream_handle, void* handle) {
  int32_t status = kAclSuccess;
  const auto stream = UsableStream("aclrtStreamWaitEvent", stream_handle, &status);
  if (stream == nullptr) return status;
  std::shared_ptr<Marker> marker;
  {
    Handles& h = TheHandles();
    std::lock_guard<std::mutex> lock(h.mutex);
    const EmulatedEvent* event = EventOf(handle);
    if (event == nullptr) return Fail(kRtInvalidHandle, "aclrtStreamWaitEvent: no such event");
    // rt 07, aclrtCreateEventExWithFlag: without ACL_EVENT_SYNC no stream waits for it.
    if ((event->flags & kEventSync) == 0) {
      return Fail(kRtParamInvalid, "aclrtStreamWaitEvent: an event without ACL_EVENT_SYNC");
    }
    // Documented to pass at once; whoever does that has forgotten to record it.
    if (event->newest == nullptr) {
      return Fail(kRtParamInvalid, "aclrtStreamWaitEvent: the event was not recorded");
    }
    marker = event->newest;
  }
  // What the other stream failed with stays with it.
  stream->Push([marker] {
    marker->Wait(-1);
    return kAclSuccess;
  });
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtSynchronizeEventWithTimeout(void* handle, int32_t milliseconds) {
  if (const int32_t status = CheckThread("aclrtSynchronizeEvent"); status != 0) return status;
  if (!ValidTimeout(milliseconds)) return Fail(kRtParamInvalid, "a timeout of 0");
  std::shared_ptr<Marker> marker;
  {
    Handles& h = TheHandles();
    std::lock_guard<std::mutex> lock(h.mutex);
    const EmulatedEvent* event = EventOf(handle);
    if (event == nullptr) return Fail(kRtInvalidHandle, "aclrtSynchronizeEvent: no such event");
    marker = event->newest;
  }
  // rt 07, aclrtRecordEvent: before the first record there is nothing to wait for.
  if (marker == nullptr) return kAclSuccess;
  const int32_t status = marker->Wait(milliseconds);
  return status == kAclSuccess ? status : Fail(status, "aclrtSynchronizeEvent: the work failed");
}

}  // namespace ascend_emulator
