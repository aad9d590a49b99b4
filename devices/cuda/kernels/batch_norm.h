// Batch normalisation of [rows, columns] over the rows (Ioffe and Szegedy, 2015). Statistics are
// f32; sums have a fixed order.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

struct BatchNormShape {
  Type type = Type::kF32;  // of x, gamma, beta
  int64_t rows = 0, columns = 0;
  float eps = 0;
  bool relu = false;
  int chunks = 1;  // of rows: ColumnChunks
};
// Doubles of the workspaces of both: partial sums, and two floats a column.
inline int64_t BatchNormWork(const BatchNormShape& s) {
  return (2 * static_cast<int64_t>(s.chunks) + 1) * s.columns;
}

// With the statistics of x, which become mean and var (biased).
cudaError_t BatchNorm(const BatchNormShape& shape, const void* x, const void* gamma,
                      const void* beta, void* y, float* mean, float* var, double* work,
                      cudaStream_t stream);
// With those given, which are copied to mean and var.
cudaError_t BatchNormFixed(const BatchNormShape& shape, const void* x, const void* gamma,
                           const void* beta, const float* given_mean, const float* given_var,
                           void* y, float* mean, float* var, double* work, cudaStream_t stream);
// dgamma and dbeta are of the type `sums`: the operands', or f32. With relu the gate is recomputed
// from x. dx may be dy's memory.
cudaError_t BatchNormGrad(const BatchNormShape& shape, const void* dy, const void* x,
                          const void* gamma, const void* beta, const float* mean, const float* var,
                          void* dx, Type sums, void* dgamma, void* dbeta, double* work,
                          cudaStream_t stream);

}  // namespace oc::cuda::kernels
