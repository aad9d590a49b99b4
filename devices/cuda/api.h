// CUDA's codes as statuses, and the driver's functions that the runtime does not have. The one
// place that knows what a code means.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "openclaw/core/status.h"

namespace oc::cuda {

// "CALL: NAME: what it means (WHERE)"; ok for cudaSuccess. The code is the action: no memory is
// kResourceExhausted, a device that is lost to this process (a kernel's fault, an ECC error) is
// kUnavailable, what a person must change is kFailedPrecondition. Clears the thread's last error.
Status ToStatus(cudaError_t code, const char* call, const std::string& where);
Status ToStatus(CUresult code, const char* call, const std::string& where);
// Whether nothing on the device ends well any more in this process.
bool IsSticky(cudaError_t code);

// Makes the device the calling thread's. Each entry into the leaf does: none depends on what was
// current before.
Status UseDevice(int ordinal, const std::string& where);

// Of green contexts (CUDA 12.5 and later).
struct Driver {
  CUresult (*get_resource)(CUdevice, CUdevResource*, CUdevResourceType) = nullptr;
  CUresult (*split_by_count)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*,
                             unsigned, unsigned) = nullptr;
  CUresult (*generate_desc)(CUdevResourceDesc*, CUdevResource*, unsigned) = nullptr;
  CUresult (*create)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned) = nullptr;
  CUresult (*destroy)(CUgreenCtx) = nullptr;
  CUresult (*create_stream)(CUstream*, CUgreenCtx, unsigned, int) = nullptr;
};
// kFailedPrecondition where the driver lacks one of them.
StatusOr<const Driver*> GreenContexts();

}  // namespace oc::cuda
