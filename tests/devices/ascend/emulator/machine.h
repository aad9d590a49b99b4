// What the emulated libraries of a process share: whether they are initialised, each thread's
// device, and the text of a thread's last error.
#pragma once

#include <cstdint>
#include <string>

#include "openclaw/devices/ascend/acl.h"

#define EMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

namespace ascend_emulator {

using namespace oc::ascend;  // NOLINT: the numbers of the vendor's interface

int NumDevices();
// kAclRepeatInitialize the second time (rt 02, aclInit).
int32_t Initialize();
int32_t SetDevice(int device);
// -1 where the thread has set none.
int CurrentDevice();

// kAclUninitialized before Initialize, kRtContextNull without a device of the calling thread.
int32_t CheckThread(const char* function);

// Notes the text for aclGetRecentErrMsg and returns the code.
int32_t Fail(int32_t code, const std::string& text);
// A switch for tests: the code that the environment's variable holds, as if the device failed;
// kAclSuccess where it is not set.
int32_t FaultOf(const char* variable);
// The thread's last text, which is gone then; null where there is none.
const char* TakeError();

}  // namespace ascend_emulator
