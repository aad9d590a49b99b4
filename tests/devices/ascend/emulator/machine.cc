#include "machine.h"

#include <atomic>
#include <cstdlib>
#include <optional>

namespace ascend_emulator {
namespace {

std::atomic<bool> initialized{false};
thread_local int device_of_thread = -1;
thread_local std::optional<std::string> last_error;
thread_local std::string taken_error;

}  // namespace

int NumDevices() {
  const char* wanted = std::getenv("ASCEND_EMULATOR_DEVICES");
  const int n = wanted == nullptr ? 2 : std::atoi(wanted);
  return n < 0 ? 0 : n;
}

int32_t Initialize() {
  if (initialized.exchange(true)) return Fail(kAclRepeatInitialize, "aclInit was called before");
  return kAclSuccess;
}

int32_t SetDevice(int device) {
  // rt 02, aclInit: called before any other function.
  if (!initialized) return Fail(kAclUninitialized, "aclrtSetDevice before aclInit");
  // rt 04, aclrtSetDevice: 0 to the number of devices - 1.
  if (device < 0 || device >= NumDevices()) {
    return Fail(kRtInvalidDeviceId, "aclrtSetDevice: device " + std::to_string(device));
  }
  device_of_thread = device;
  return kAclSuccess;
}

int CurrentDevice() { return device_of_thread; }

int32_t CheckThread(const char* function) {
  if (!initialized) return Fail(kAclUninitialized, std::string(function) + " before aclInit");
  // rt 25-01, ACL_ERROR_RT_CONTEXT_NULL: aclrtSetDevice was not called by this thread.
  if (device_of_thread < 0) {
    return Fail(kRtContextNull, std::string(function) + " without a device of the calling thread");
  }
  return kAclSuccess;
}

int32_t Fail(int32_t code, const std::string& text) {
  last_error = text;
  return code;
}

int32_t FaultOf(const char* variable) {
  const char* code = std::getenv(variable);
  return code == nullptr ? kAclSuccess : static_cast<int32_t>(std::strtol(code, nullptr, 10));
}

const char* TakeError() {
  if (!last_error) return nullptr;
  taken_error = *std::move(last_error);
  last_error.reset();
  return taken_error.c_str();
}

}  // namespace ascend_emulator
