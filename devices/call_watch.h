// Calls into a device's code, a plugin's or a driver's, may never return, or crash. Each is noted
// by the thread that makes it, so that the process can say which device and op it was.
//
//   InstallCrashReports();                                    // once, by a program
//   auto watch = CallWatch::Start({.timeout_seconds = 30}, [](const Status& why) { ...end... });
//
// The notes belong to the threads of the process, not to an object: a signal's handler has nothing
// else to read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "openclaw/core/status.h"

namespace oc {

// Stands around one call. Cheap: no memory is taken after a thread's first. Calls do not nest.
class DeviceCall {
 public:
  // How long the call may take: an ordinary one, one that compiles or sets up, one that keeps a
  // timeout of its own.
  enum class Kind { kQuick, kSlow, kTimed };
  // `device` "device plain:0 of plugin libplain.so", `call` "enqueue", `of` an op, a queue or
  // nothing; they must live as long as this object. `timeout_seconds`: of kTimed.
  DeviceCall(const char* device, const char* call, const char* of, Kind kind = Kind::kQuick,
             double timeout_seconds = 0);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

 private:
  int64_t began_nanos_;
};

// What this thread's calls are for, until the object goes: "VCU plain:0.1, compute forward of
// micro-batch 2". Texts must live as long as this object; a micro_batch below 0 is left out.
class CallPurpose {
 public:
  CallPurpose(const char* vcu, const char* command, const char* name, int micro_batch);
  ~CallPurpose();
  CallPurpose(const CallPurpose&) = delete;
  CallPurpose& operator=(const CallPurpose&) = delete;
};

struct CallWatchOptions {
  double timeout_seconds = 30;  // of quick calls
  double slow_seconds = 120;    // of slow ones
  // Beyond these, and beyond a call's own timeout: an eighth of it, and at least this.
  double grace_seconds = 1;
};

// Watches the calls of all threads of the process.
class CallWatch {
 public:
  // kDeadlineExceeded, with device, call, op and purpose. From the watch's own thread, once for a
  // call; the call's thread can be neither joined nor ended: whoever is told ends the process.
  using OnStuck = std::function<void(const Status& why)>;

  static std::unique_ptr<CallWatch> Start(const CallWatchOptions& options, OnStuck on_stuck);
  virtual ~CallWatch() = default;  // waits for an OnStuck that runs
};

// From now on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) first says on standard error in
// which device's call it happened, if in one; then the signal does what it would have done. Call it
// once, before there are other threads.
void InstallCrashReports();

}  // namespace oc
