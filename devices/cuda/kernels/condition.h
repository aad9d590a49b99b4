// Conditions of captured work.
#pragma once

#include <cuda_runtime_api.h>

namespace oc::cuda::kernels {

// The body of the condition runs in this launch of the graph if the number is finite.
cudaError_t SetIfFinite(cudaGraphConditionalHandle handle, const float* value, cudaStream_t stream);

}  // namespace oc::cuda::kernels
