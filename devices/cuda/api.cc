#include "openclaw/devices/cuda/api.h"

namespace oc::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t code) {
  if (IsSticky(code)) return absl::StatusCode::kUnavailable;
  switch (code) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorDevicesUnavailable:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorStubLibrary:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureUnjoined:
      return absl::StatusCode::kFailedPrecondition;
    case cudaErrorNotSupported:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

// What a person does about it; empty where the code says all.
const char* Remedy(cudaError_t code) {
  if (IsSticky(code)) {
    return "; the device is lost to this process: restart it (compute-sanitizer names the kernel)";
  }
  switch (code) {
    case cudaErrorInsufficientDriver:
      return "; this build wants a driver of CUDA 13.0 or later (580): update the driver, "
             "nvidia-smi "
             "shows which is installed";
    case cudaErrorNoDevice:
      return "; look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case cudaErrorInitializationError:
      return "; CUDA cannot be used in a child of a process that has used it, nor where the "
             "driver's files do not match (nvidia-smi)";
    case cudaErrorSystemNotReady:
      return "; GPUs that are linked by switches want nvidia-fabricmanager to run";
    case cudaErrorDevicesUnavailable:
      return "; another process holds the device in exclusive mode (nvidia-smi)";
    case cudaErrorNoKernelImageForDevice:
      return "; the device is older than compute capability 8.0";
    default:
      return "";
  }
}

template <typename F>
bool Load(const char* name, F& function) {
  constexpr unsigned kVersion = 12050;  // of cuGreenCtxStreamCreate, the last that came
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return false;
  }
  function = reinterpret_cast<F>(found);
  return true;
}

}  // namespace

bool IsSticky(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status ToStatus(cudaError_t code, const char* call, const std::string& where) {
  if (code == cudaSuccess) return OkStatus();
  cudaGetLastError();
  return Status(CodeOf(code),
                absl::StrCat(call, ": ", cudaGetErrorName(code), ": ", cudaGetErrorString(code),
                             Remedy(code), " (", where, ")"));
}

// The two enumerations have the same numbers.
Status ToStatus(CUresult code, const char* call, const std::string& where) {
  return ToStatus(static_cast<cudaError_t>(code), call, where);
}

Status UseDevice(int ordinal, const std::string& where) {
  return ToStatus(cudaSetDevice(ordinal), "cudaSetDevice", where);
}

StatusOr<const Driver*> GreenContexts() {
  static const Driver driver = [] {
    Driver d;
    const bool all = Load("cuDeviceGetDevResource", d.get_resource) &&
                     Load("cuDevSmResourceSplitByCount", d.split_by_count) &&
                     Load("cuDevResourceGenerateDesc", d.generate_desc) &&
                     Load("cuGreenCtxCreate", d.create) && Load("cuGreenCtxDestroy", d.destroy) &&
                     Load("cuGreenCtxStreamCreate", d.create_stream);
    return all ? d : Driver{};
  }();
  if (driver.create_stream == nullptr) {
    return FailedPrecondition(
        "the driver has no green contexts, which divide a GPU: they came with CUDA 12.5 (555)");
  }
  return &driver;
}

}  // namespace oc::cuda
