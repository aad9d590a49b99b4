// Transposes of 16 x 16 numbers of 32 bits in registers (x_loops.cc only).
#pragma once

#include "openclaw/devices/cpu/native/transpose8.h"

namespace oc::cpu::OC_CPU_ISA {

// y[c * ys + r] = x[r * xs + c].
OC_INLINE void Block16(const uint32_t* x, uint32_t* y, int64_t xs, int64_t ys) {
#ifdef __AVX512F__
  __m512 r[16], t[16];
  // Four rows of quarters each: x[i], x[i + 4], x[i + 8] and x[i + 12] in the four quarters.
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const auto* from = reinterpret_cast<const float*>(x + (i % 4) * xs + (i / 4) * 4);
    __m512 row = _mm512_castps128_ps512(_mm_loadu_ps(from));
    row = _mm512_mask_broadcast_f32x4(row, 0x00f0, _mm_loadu_ps(from + 4 * xs));
    row = _mm512_mask_broadcast_f32x4(row, 0x0f00, _mm_loadu_ps(from + 8 * xs));
    r[i] = _mm512_mask_broadcast_f32x4(row, 0xf000, _mm_loadu_ps(from + 12 * xs));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    auto* const to = reinterpret_cast<float*>(y + 4 * i * ys);
    _mm512_storeu_ps(to, _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44));
    _mm512_storeu_ps(to + ys, _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE));
    _mm512_storeu_ps(to + 2 * ys, _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44));
    _mm512_storeu_ps(to + 3 * ys, _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE));
  }
#else
  for (int i = 0; i < 4; ++i) {
    Block8(x + i / 2 * 8 * xs + i % 2 * 8, y + i % 2 * 8 * ys + i / 2 * 8, xs, ys);
  }
#endif
}

}  // namespace oc::cpu::OC_CPU_ISA
