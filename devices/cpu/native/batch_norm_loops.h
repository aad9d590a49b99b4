// Loops of batch normalisation over rows of `channels`. x, dy, y, dx have the dtype of the index;
// the rest is f32, sums f64. y and dx may be the memory of x or dy.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

// One value a channel.
struct BatchNormChannels {
  const float* mean;
  const float* scale;  // gamma / sqrt(var + eps)
  const float* beta;
};
// dx = scale (dy - offset) - slope (x - mean), one of each a channel.
struct BatchNormGradChannels {
  const float* offset;
  const float* slope;
};

struct BatchNormLoops {
  // Mean and sum of squared distances from it, of each channel; rows > 0.
  void (*moments[kFloatKinds])(const void* x, int64_t rows, int64_t channels, double* mean,
                               double* squares);
  // y = (x - mean) scale + beta, where relu is set not below zero.
  void (*normalise[kFloatKinds])(const void* x, void* y, int64_t rows, int64_t channels,
                                 const BatchNormChannels& c, bool relu);
  // The sums of g and of g (x - mean), where g is dy; with relu zero where the output was not
  // positive.
  void (*grad_sums[kFloatKinds])(const void* dy, const void* x, int64_t rows, int64_t channels,
                                 const BatchNormChannels& c, bool relu, double* sum,
                                 double* product);
  void (*grad_input[kFloatKinds])(const void* dy, const void* x, void* dx, int64_t rows,
                                  int64_t channels, const BatchNormChannels& c,
                                  const BatchNormGradChannels& g, bool relu);
};
OC_CPU_LOOPS(BatchNormLoops)

}  // namespace oc::cpu
