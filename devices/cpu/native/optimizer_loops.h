// Loops of a step's update, each one pass over memory. The first index is the dtype of parameter
// and state, the second that of the gradient. Inputs and outputs are one memory. Formulas stand in
// optim/NAME.h; no element's result depends on where a part begins.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

// The gradient is taken times clip, then within +-limit.
struct SgdStep {
  float lr, clip, limit, momentum, weight_decay;
  bool nesterov;
};
struct AdamStep {
  float clip, limit, beta1, beta2, eps;
  float rest1, rest2;  // 1 - beta1 and 1 - beta2, not subtracted in f32
  float decay;         // of p into the gradient
  float keep;          // of p: 1 - lr * weight_decay where decay is decoupled
  float step_size;     // lr / (1 - beta1^step)
  float root_scale;    // 1 / sqrt(1 - beta2^step)
};
struct LionStep {
  float clip, limit, lr, keep;
  float beta1, beta2, rest1, rest2;
};
struct MomentumStep {
  float clip, limit, momentum, rest;
  bool nesterov;
};
// LAMB's step before it is scaled: mean_scale m / (root_scale sqrt(v) + eps) + decay p.
struct LambStep {
  float clip, limit, beta1, beta2, rest1, rest2;
  float eps, decay, mean_scale, root_scale;
  float rate;  // lr times the ratio of the norms
};

struct OptimizerLoops {
  // state + rate (x - state), x where rate is 1; accumulate is state + x.
  void (*lerp[kFloatKinds][kFloatKinds])(void* state, const void* x, int64_t n, float rate);
  void (*accumulate[kFloatKinds][kFloatKinds])(void* state, const void* x, int64_t n);
  float (*sum_squares[kFloatKinds])(const void* x, int64_t n);
  // momentum may be null.
  void (*sgd[kFloatKinds][kFloatKinds])(void* p, const void* g, void* momentum, int64_t n,
                                        const SgdStep& step);
  void (*adam[kFloatKinds][kFloatKinds])(void* p, const void* g, void* m, void* v, int64_t n,
                                         const AdamStep& step);
  void (*lion[kFloatKinds][kFloatKinds])(void* p, const void* g, void* m, int64_t n,
                                         const LionStep& step);
  // The sums of squares of p and of the step that is wanted.
  void (*lamb_moments[kFloatKinds][kFloatKinds])(const void* p, const void* g, void* m, void* v,
                                                 int64_t n, const LambStep& step, float* p_squares,
                                                 float* step_squares);
  void (*lamb_step[kFloatKinds])(void* p, const void* m, const void* v, int64_t n,
                                 const LambStep& step);
  // u: what is orthogonalised, of the state's dtype.
  void (*muon_momentum[kFloatKinds][kFloatKinds])(void* u, const void* g, void* m, int64_t n,
                                                  const MomentumStep& step);
  // keep p - rate u
  void (*decayed_step[kFloatKinds][kFloatKinds])(void* p, const void* u, int64_t n, float keep,
                                                 float rate);
};
OC_CPU_LOOPS(OptimizerLoops)

}  // namespace oc::cpu
