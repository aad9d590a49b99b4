// libascendcl.so but for streams and events: initialisation, devices, memory, copies.
#include <cstring>

#include "memory.h"
#include "streams.h"

namespace ascend_emulator {
namespace {

// Waits for a copy that a stream makes of memory that is not pinned.
int32_t PushCopy(const std::shared_ptr<EmulatedStream>& stream, bool wait,
                 EmulatedStream::Task copy) {
  const auto done = std::make_shared<Marker>();
  stream->Push([copy = std::move(copy), done] {
    const int32_t status = copy();
    done->Reach(status);
    return status;
  });
  return wait ? done->Wait(-1) : kAclSuccess;
}

// Null where the side does not lie where the kind says.
struct Side {
  bool device = false;
  const void* address = nullptr;
  // The bytes now; null where they are not there (any more).
  std::byte* Bytes(size_t count, Piece& piece) const {
    if (!device) return static_cast<std::byte*>(const_cast<void*>(address));
    piece = Find(address, count);
    return piece.data;
  }
};

int32_t CopyNow(const Side& to, const Side& from, size_t count) {
  Piece to_piece, from_piece;
  std::byte* target = to.Bytes(count, to_piece);
  const std::byte* source = from.Bytes(count, from_piece);
  if (target == nullptr || source == nullptr) return kRtAicoreException;
  std::memmove(target, source, count);
  return kAclSuccess;
}

// rt 11-03, aclrtMemcpy and aclrtMemcpyAsync.
int32_t CheckCopy(const char* function, const Side& to, size_t most, const Side& from, size_t count,
                  int32_t kind) {
  if (to.address == nullptr || from.address == nullptr || count == 0) {
    return Fail(kRtParamInvalid, std::string(function) + ": null or nothing");
  }
  if (count > most) return Fail(kRtParamInvalid, std::string(function) + ": beyond destMax");
  const bool to_device = kind == kMemcpyHostToDevice || kind == kMemcpyDeviceToDevice;
  const bool from_device = kind == kMemcpyDeviceToHost || kind == kMemcpyDeviceToDevice;
  if (to.device != to_device || from.device != from_device) {
    return Fail(kRtParamInvalid, std::string(function) + ": the kind does not fit the addresses");
  }
  for (const Side& side : {to, from}) {
    if (side.device && Find(side.address, count).block == nullptr) {
      return Fail(kRtParamInvalid, std::string(function) + ": beyond what was allocated");
    }
  }
  return kAclSuccess;
}

}  // namespace

EMULATOR_EXPORT int32_t aclInit(const char*) { return Initialize(); }

EMULATOR_EXPORT const char* aclGetRecentErrMsg() { return TakeError(); }

EMULATOR_EXPORT int32_t aclGetDeviceCapability(uint32_t device, int32_t what, int64_t* value) {
  if (static_cast<int>(device) >= NumDevices()) return Fail(kRtInvalidDeviceId, "no such device");
  if (what != kInfoAiCores || value == nullptr) return Fail(kAclInvalidParam, "unknown capability");
  *value = 24;
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtGetDeviceCount(uint32_t* count) {
  if (NumDevices() == 0) return Fail(kRtNoDevice, "no device");
  *count = static_cast<uint32_t>(NumDevices());
  return kAclSuccess;
}

EMULATOR_EXPORT const char* aclrtGetSocName() { return "Ascend910B-emulated"; }

EMULATOR_EXPORT int32_t aclrtSetDevice(int32_t device) { return SetDevice(device); }

EMULATOR_EXPORT int32_t aclrtGetDevice(int32_t* device) {
  if (const int32_t status = CheckThread("aclrtGetDevice"); status != 0) return status;
  *device = CurrentDevice();
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtSetSysParamOpt(int32_t option, int64_t value) {
  if (option != kOptDeterministic || value < 0 || value > 3) {
    return Fail(kAclInvalidParam, "aclrtSetSysParamOpt: unknown option");
  }
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtGetMemInfo(int32_t, size_t* free, size_t* total) {
  // rt 11-01, aclrtGetMemInfo: of the thread's device, which must be set.
  if (const int32_t status = CheckThread("aclrtGetMemInfo"); status != 0) return status;
  *free = FreeBytes(CurrentDevice());
  *total = kDeviceBytes;
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclrtMalloc(void** address, size_t size, int32_t) {
  if (const int32_t status = CheckThread("aclrtMalloc"); status != 0) return status;
  return Allocate(CurrentDevice(), size, address);
}

EMULATOR_EXPORT int32_t aclrtFree(void* address) {
  if (const int32_t status = CheckThread("aclrtFree"); status != 0) return status;
  return Free(address);
}

EMULATOR_EXPORT int32_t aclrtMallocHost(void** address, size_t size) {
  if (const int32_t status = CheckThread("aclrtMallocHost"); status != 0) return status;
  return AllocatePinned(size, address);
}

EMULATOR_EXPORT int32_t aclrtFreeHost(void* address) {
  if (const int32_t status = CheckThread("aclrtFreeHost"); status != 0) return status;
  return FreePinned(address);
}

// At once, without waiting for streams: rt 11-03, aclrtMemset.
EMULATOR_EXPORT int32_t aclrtMemset(void* to, size_t most, int32_t value, size_t count) {
  if (const int32_t status = CheckThread("aclrtMemset"); status != 0) return status;
  const Piece piece = Find(to, count);
  if (count > most || piece.block == nullptr) {
    return Fail(kRtParamInvalid, "aclrtMemset: beyond what was allocated");
  }
  std::memset(piece.data, value, count);
  return kAclSuccess;
}

// At once, without waiting for streams: rt 11-03, aclrtMemcpy.
EMULATOR_EXPORT int32_t aclrtMemcpy(void* to, size_t most, const void* from, size_t count,
                                    int32_t kind) {
  if (const int32_t status = CheckThread("aclrtMemcpy"); status != 0) return status;
  const Side target{IsDeviceAddress(to), to}, source{IsDeviceAddress(from), from};
  const int32_t status = CheckCopy("aclrtMemcpy", target, most, source, count, kind);
  return status != kAclSuccess ? status : CopyNow(target, source, count);
}

EMULATOR_EXPORT int32_t aclrtMemcpyAsync(void* to, size_t most, const void* from, size_t count,
                                         int32_t kind, void* stream_handle) {
  int32_t status = kAclSuccess;
  const auto stream = UsableStream("aclrtMemcpyAsync", stream_handle, &status);
  if (stream == nullptr) return status;
  // rt 11-03, aclrtMemcpyAsync: not within the host.
  if (kind == kMemcpyHostToHost) return Fail(kRtFeatureNotSupport, "aclrtMemcpyAsync on the host");
  const Side target{IsDeviceAddress(to), to}, source{IsDeviceAddress(from), from};
  status = CheckCopy("aclrtMemcpyAsync", target, most, source, count, kind);
  if (status != kAclSuccess) return status;
  // rt 11-03, aclrtMemcpyAsync: with host memory that is not pinned it returns once it is copied.
  const bool wait =
      (!target.device && !IsPinned(to, count)) || (!source.device && !IsPinned(from, count));
  return PushCopy(stream, wait, [target, source, count] { return CopyNow(target, source, count); });
}

}  // namespace ascend_emulator
