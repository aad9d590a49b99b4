// Memory with something in it.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

// Numbers from -1 to 1 without a pattern, for measuring: what the matrix units draw, and so their
// clock, depends on the data. Floats.
cudaError_t FillNoise(Type type, void* x, int64_t n, cudaStream_t stream);
// Each row of y[rows, columns] is the row (zeros where it is null), where `relu` no less than 0.
cudaError_t FillRows(Type type, const void* row, bool relu, void* y, int64_t rows, int64_t columns,
                     cudaStream_t stream);

}  // namespace oc::cuda::kernels
