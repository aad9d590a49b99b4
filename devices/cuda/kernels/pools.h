// Pools over NHWC images: a thread an output pixel and a pack of channels; gradients gather, so
// that no two threads add to one element.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

// n / by for 0 <= n < 2^31, by a product and a shift (Granlund and Montgomery, 1994).
struct Quotient {
  uint32_t magic = 1, shift = 0;

  Quotient() = default;
  explicit Quotient(int64_t by) {
    while ((int64_t{1} << shift) < by) ++shift;
    magic = static_cast<uint32_t>((((int64_t{1} << shift) - by) << 32) / by + 1);
  }
};

// As ops::WindowAxis; windows of pools have no dilation.
struct PoolAxis {
  int size = 0, outputs = 0;  // of the image and of the pooled one
  int kernel = 1, stride = 1, before = 0;
  Quotient by_stride;
};

struct Pool {
  enum class What { kMax, kMaxGrad, kMean, kMeanGrad };
  What what = What::kMax;
  Type type = Type::kF32;
  int64_t batch = 0, channels = 0;
  int64_t first = 0;  // image of a launch
  Quotient by_packs;  // packs of a pixel
  PoolAxis h, w;
  bool count_padding = true;   // in the divisor of a mean
  const void* from = nullptr;  // x, or dy
  void* to = nullptr;          // y, or dx
  uint8_t* index = nullptr;    // of maxima: written forward, read backward
};
cudaError_t Launch(const Pool& pool, cudaStream_t stream);

}  // namespace oc::cuda::kernels
