// Streams, a thread each, and events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "machine.h"

namespace ascend_emulator {

// A point in a stream's work.
class Marker {
 public:
  void Reach(int32_t status);
  // kRtEventSyncTimeout after so many milliseconds (-1: none); else the status of the work before.
  int32_t Wait(int32_t milliseconds);

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  bool done_ = false;
  int32_t status_ = kAclSuccess;
};

class EmulatedStream {
 public:
  using Task = std::function<int32_t()>;

  explicit EmulatedStream(int device);
  ~EmulatedStream();
  int device() const { return device_; }
  // Runs after all that was pushed before, also where that failed (rt 06,
  // aclrtSetStreamFailureMode: ACL_CONTINUE_ON_FAILURE is the default).
  void Push(Task task);
  // The first error of the work so far, or kRtStreamSyncTimeout.
  int32_t Synchronize(int32_t milliseconds);
  bool idle();
  // Of the stream's own thread: the first error.
  int32_t status() const { return status_; }

 private:
  void Loop();

  const int device_;
  int32_t status_ = kAclSuccess;  // guarded by mutex_ but for the thread itself
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false, closing_ = false;
  std::thread thread_;
};

struct EmulatedEvent {
  int device = 0;
  uint32_t flags = 0;
  std::shared_ptr<Marker> newest;  // null until recorded
};

// Handles as the interface passes them. Null: unknown, or destroyed.
std::shared_ptr<EmulatedStream> StreamOf(void* handle);
// The stream, where the calling thread may use it; else null, and `status` says why.
std::shared_ptr<EmulatedStream> UsableStream(const char* function, void* handle, int32_t* status);

}  // namespace ascend_emulator
