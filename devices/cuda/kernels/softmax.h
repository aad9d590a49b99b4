// Softmax of rows, and cross-entropy over classes: a block a row, everything in float, a logit read
// once a pass. Logits are never held in a wider type than theirs.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

struct Softmax {
  Type type = Type::kF32;
  int64_t rows = 0, columns = 0;
  const void* x = nullptr;  // of the gradient: dy,
  const void* y = nullptr;  // and y; null in the forward
  void* to = nullptr;
};
cudaError_t Launch(const Softmax& softmax, cudaStream_t stream);

// Labels: ignored, or 0 to classes - 1; others are reported and count nothing.
struct Labels {
  const int32_t* values = nullptr;
  int64_t ignored = -1;
  Flags flags;
};

// lse[row], and losses[row] = lse - logits[row, label], 0 where it is ignored.
struct CrossEntropy {
  Type type = Type::kF32;
  int64_t rows = 0, classes = 0;
  const void* logits = nullptr;
  Labels labels;
  float* lse = nullptr;
  float* losses = nullptr;
};
cudaError_t Launch(const CrossEntropy& entropy, cudaStream_t stream);

// dlogits = dloss * (e^(logits - lse) - [label]), which may be the memory of logits.
struct CrossEntropyGrad {
  Type type = Type::kF32;
  int64_t rows = 0, classes = 0;
  const float* dloss = nullptr;
  const void* logits = nullptr;
  Labels labels;
  const float* lse = nullptr;
  void* dlogits = nullptr;
};
cudaError_t Launch(const CrossEntropyGrad& entropy, cudaStream_t stream);

// Both in one pass over the logits, a row held in shared memory: for a dloss that does not depend
// on the loss. Not where a row is too long or not aligned.
bool CanLaunchTogether(const CrossEntropy& entropy, const CrossEntropyGrad& grad);
cudaError_t LaunchTogether(const CrossEntropy& entropy, const CrossEntropyGrad& grad,
                           cudaStream_t stream);

// ones[row] = 1 where the row counts: its label is not ignored (`logits` null), or it is the first
// largest logit.
struct CountRows {
  Type type = Type::kF32;
  int64_t rows = 0, classes = 0;
  const void* logits = nullptr;
  Labels labels;
  float* ones = nullptr;
};
cudaError_t Launch(const CountRows& count, cudaStream_t stream);

// to[0] = the sum of n values in a fixed order, by one block.
cudaError_t LaunchSum(const float* values, int64_t n, float* to, cudaStream_t stream);

}  // namespace oc::cuda::kernels
