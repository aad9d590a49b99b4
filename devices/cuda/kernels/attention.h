// Own kernels of attention, for heads of up to 256 elements: softmax over keys while tiles of them
// pass (Dao et al., 2022; Dao, 2023), on the matrix units for bf16 and f16, with plain products in
// f32. The backward goes over the scores twice, for keys and values and for queries: no two blocks
// add to one element, so that the same operands give the same bits.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

constexpr int64_t kWidestHead = 256;

// qkv[batch, time, (heads + 2 * kv_heads) * width], y[batch, time, heads * width], lse[batch,
// heads, time].
struct AttentionShape {
  Type type = Type::kF32;
  int64_t batch = 0, time = 0, heads = 1, kv_heads = 1, width = 1;
  float scale = 1;
  bool causal = true;
};

struct Attention {
  AttentionShape shape;
  const void* qkv = nullptr;
  void* y = nullptr;
  float* lse = nullptr;
};
cudaError_t Launch(const Attention& attention, cudaStream_t stream);

struct AttentionGrad {
  AttentionShape shape;
  const void* dy = nullptr;
  const void* qkv = nullptr;
  const void* y = nullptr;
  const float* lse = nullptr;
  void* dqkv = nullptr;
  float* delta = nullptr;  // scratch: as many floats as lse
};
cudaError_t Launch(const AttentionGrad& attention, cudaStream_t stream);

}  // namespace oc::cuda::kernels
