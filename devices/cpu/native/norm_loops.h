// Loops of layer and RMS normalisation. x, dy, y, gamma, beta have the dtype of the index;
// statistics are f32. dx may be the memory of dy.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct NormLoops {
  // gamma and beta may be null.
  void (*layer_norm[kFloatKinds])(const void* x, const void* gamma, const void* beta, void* y,
                                  float* mean, float* rstd, int64_t rows, int64_t n, float eps);
  void (*rms_norm[kFloatKinds])(const void* x, const void* gamma, void* y, float* rstd,
                                int64_t rows, int64_t n, float eps);
  // mean is null for RMS, gamma may be null.
  void (*grad_input[kFloatKinds])(const void* dy, const void* x, const void* gamma,
                                  const float* mean, const float* rstd, void* dx, int64_t rows,
                                  int64_t n);
  // Columns begin..end-1 of rows of n: dgamma[c] = sum over rows of dy (x - mean) rstd, dbeta[c] =
  // sum of dy. mean and dbeta are null for RMS.
  void (*grad_weight[kFloatKinds])(const void* dy, const void* x, const float* mean,
                                   const float* rstd, float* dgamma, float* dbeta, int64_t rows,
                                   int64_t n, int64_t begin, int64_t end);
  // y[i] = x[i], or y[i] + x[i].
  void (*store[kFloatKinds])(const float* x, void* y, int64_t n, bool accumulate);
};
OC_CPU_LOOPS(NormLoops)

}  // namespace oc::cpu
