// Loops of reductions. Results are f32.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

enum ReduceKind { kReduceSum, kReduceMax, kReduceKinds };

struct ReduceLoops {
  // y[r] = sum or max of row r.
  void (*rows[kReduceKinds][kFloatKinds])(const void* x, float* y, int64_t rows, int64_t n);
  // y[c] = y[c] + or max over rows of x[r, c], for columns begin..end-1 of rows that are n apart.
  void (*columns[kReduceKinds][kFloatKinds])(const void* x, float* y, int64_t rows, int64_t n,
                                             int64_t begin, int64_t end);
  // y[i] = scale x[i], or that added to y[i].
  void (*store[kFloatKinds])(const float* x, void* y, int64_t n, float scale, bool accumulate);
};
OC_CPU_LOOPS(ReduceLoops)

}  // namespace oc::cpu
