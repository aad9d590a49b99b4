// Layer norm and RMS norm of the last axis, with what stands beside them in a transformer: a
// residual sum before the forward, a gradient added to the backward's. Every launch goes to the
// stream, allocates nothing and sums in an order that depends on the sizes alone.
//
// Rows whose size is a multiple of 16 bytes, on aligned operands, are read once, held in registers
// and written once. Others, and rows beyond 16 KiB, take a plain kernel that reads twice and sums
// in double.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

struct NormForward {
  Type type = Type::kF32;
  bool centred = true;  // layer norm; RMS norm where not
  int64_t rows = 0, columns = 0;
  double eps = 1e-5;
  const void* x = nullptr;
  const void* residual = nullptr;  // may be null; else the norm is of x + residual,
  void* sum = nullptr;             // which is rounded to the type and stored here
  const void* gamma = nullptr;     // may be null, and beta
  const void* beta = nullptr;
  void* y = nullptr;
  float* mean = nullptr;  // of layer norm
  float* rstd = nullptr;
};
cudaError_t Launch(const NormForward& norm, cudaStream_t stream);

// With g = dy * gamma and xhat = (x - mean) * rstd: dx = rstd * (g - mean(g) - xhat * mean(g *
// xhat)) + residual; RMS norm is without the mean of g. dx may be the memory of dy or residual.
// dgamma = the sum over rows of dy * xhat, dbeta that of dy. Each output may be null.
struct NormBackward {
  Type type = Type::kF32;
  bool centred = true;
  int64_t rows = 0, columns = 0;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const void* residual = nullptr;
  void* dx = nullptr;
  void* dgamma = nullptr;
  void* dbeta = nullptr;
  Type weight_type = Type::kF32;
  bool add_dgamma = false, add_dbeta = false;  // to what the memory holds
  float* workspace = nullptr;                  // NormWorkspace floats, where a weight is wanted
};
int64_t NormWorkspace(int64_t rows, int64_t columns);
cudaError_t Launch(const NormBackward& norm, cudaStream_t stream);

// to[o][c] = the sum over parts, in their order, of partials[part][o][c], plus what the memory
// holds where add[o] is set. Outputs may be null.
struct PartialSums {
  const float* partials = nullptr;
  int64_t parts = 0, columns = 0;
  void* to[2] = {};
  Type type = Type::kF32;
  bool add[2] = {};
};
cudaError_t Launch(const PartialSums& sums, cudaStream_t stream);

}  // namespace oc::cuda::kernels
