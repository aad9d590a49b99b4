// Loops of a step's update, each one pass over memory. The first index is the dtype of parameter
// and state, the second that of the gradient.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct SgdStep {
  float lr, clip, momentum, weight_decay;
  bool nesterov;
};
struct AdamWStep {
  float clip, beta1, beta2, eps;
  float rest1, rest2;  // 1 - beta1 and 1 - beta2, not subtracted in f32
  float keep;          // 1 - lr * weight_decay
  float step_size;     // lr / (1 - beta1^step)
  float root_scale;    // 1 / sqrt(1 - beta2^step)
};

struct OptimizerLoops {
  // state + rate (x - state); accumulate is state + x.
  void (*lerp[kFloatKinds][kFloatKinds])(void* state, const void* x, int64_t n, float rate);
  void (*accumulate[kFloatKinds][kFloatKinds])(void* state, const void* x, int64_t n);
  float (*sum_squares[kFloatKinds])(const void* x, int64_t n);
  // momentum may be null. Inputs and outputs are one memory.
  void (*sgd[kFloatKinds][kFloatKinds])(void* p, const void* g, void* momentum, int64_t n,
                                        const SgdStep& step);
  void (*adamw[kFloatKinds][kFloatKinds])(void* p, const void* g, void* m, void* v, int64_t n,
                                          const AdamWStep& step);
};
OC_CPU_LOOPS(OptimizerLoops)

}  // namespace oc::cpu
