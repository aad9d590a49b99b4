// Windows of nine taps, which have loops of their own (x_loops.cc only).
#pragma once

#include "openclaw/devices/cpu/native/interleave.h"

namespace oc::cpu::OC_CPU_ISA {

constexpr int64_t kNine = 9;

// kLanes channels of nine taps each, as they lie: vectors of one tap.
template <typename T>
OC_INLINE void LoadNine(const T* from, vf (&v)[kNine]) {
  vf x[kNine];
#pragma GCC unroll 9
  for (int q = 0; q < kNine; ++q) x[q] = Load(from + q * kLanes);
  Deinterleave<kNine>(x, v);
}

}  // namespace oc::cpu::OC_CPU_ISA
