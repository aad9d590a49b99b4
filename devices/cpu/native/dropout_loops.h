// Dropout by Philox4x32-10, as core/rng.h.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct DropoutLoops {
  // y[i] = word(first + i) >> 8 >= threshold ? x[i] * scale : 0, word(e) = Philox(key).Word(stream,
  // e).
  void (*dropout[kFloatKinds])(const void* x, void* y, int64_t n, uint64_t key, uint64_t stream,
                               uint64_t first, uint32_t threshold, float scale);
};
OC_CPU_LOOPS(DropoutLoops)

}  // namespace oc::cpu
