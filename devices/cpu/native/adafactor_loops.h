// Loops of Adafactor over pieces of rows. The index is the dtype of the gradient; parameters and
// states are f32.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct AdafactorStep {
  float clip, limit;  // the gradient is taken times clip, then within +-limit
  float least;        // of an estimate of the second moment
  float keep, rate;   // p' = keep p - rate g / sqrt(estimate)
};

// The estimate for element i of a piece is row * column[i].
struct AdafactorLoops {
  // Adds g^2 to sums, element by element, and returns the sum of g^2.
  float (*squares[kFloatKinds])(const void* g, float* sums, int64_t n, const AdafactorStep& step);
  // v = kept v + fresh g^2
  void (*take_up[kFloatKinds])(float* v, const void* g, int64_t n, float kept, float fresh,
                               const AdafactorStep& step);
  // The sum of (g / sqrt(estimate))^2.
  float (*update_squares[kFloatKinds])(const void* g, const float* column, float row, int64_t n,
                                       const AdafactorStep& step);
  void (*apply[kFloatKinds])(float* p, const void* g, const float* column, float row, int64_t n,
                             const AdafactorStep& step);
};
OC_CPU_LOOPS(AdafactorLoops)

}  // namespace oc::cpu
