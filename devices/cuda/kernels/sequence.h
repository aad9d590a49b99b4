// Rotary positions and dropout.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

// The pair (i, i + half) of each head that turns, at position t, by t * base^(-i / half); x and y
// may be the same memory.
struct Rope {
  Type type = Type::kF32;
  int64_t batch = 0, time = 0;
  int64_t packed = 0;         // elements of a row
  int64_t turning_heads = 0;  // queries and keys, first in a row
  int64_t half = 0;           // of a head
  double base = 10000;
  bool inverse = false;
  const void* x = nullptr;
  void* y = nullptr;
};
cudaError_t Launch(const Rope& rope, cudaStream_t stream);

// As core/rng.h has it: element i of the micro-batch is element numbers[2] * sample_size + i of the
// stream. x and y may be the same memory.
struct Dropout {
  Type type = Type::kF32;
  int64_t n = 0;
  const void* x = nullptr;
  const int64_t* numbers = nullptr;  // seed, step, first sample
  void* y = nullptr;
  uint64_t stream = 0, sample_size = 1;
  float p = 0, scale = 1;
};
cudaError_t Launch(const Dropout& dropout, cudaStream_t stream);

}  // namespace oc::cuda::kernels
