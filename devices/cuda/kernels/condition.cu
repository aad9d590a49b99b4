#include "openclaw/devices/cuda/kernels/condition.h"

namespace oc::cuda::kernels {
namespace {

__global__ void Set(cudaGraphConditionalHandle handle, const float* value) {
  cudaGraphSetConditional(handle, isfinite(*value) ? 1u : 0u);
}

}  // namespace

cudaError_t SetIfFinite(cudaGraphConditionalHandle handle, const float* value,
                        cudaStream_t stream) {
  Set<<<1, 1, 0, stream>>>(handle, value);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
