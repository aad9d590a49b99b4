// Transposes of 8 x 8 elements in registers (x_loops.cc only): y[c * ys + r] = x[r * xs + c].
#pragma once

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {

OC_INLINE void Block8(const uint32_t* x, uint32_t* y, int64_t xs, int64_t ys) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(x + i * xs));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(reinterpret_cast<float*>(y + i * ys),
                     _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(y + (i + 4) * ys),
                     _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

OC_INLINE void Block8(const uint16_t* x, uint16_t* y, int64_t xs, int64_t ys) {
  __m128i r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadu_si128((const __m128i*)(x + i * xs));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm_unpacklo_epi32(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm_unpackhi_epi32(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm_unpacklo_epi32(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm_unpackhi_epi32(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128((__m128i*)(y + 2 * i * ys), _mm_unpacklo_epi64(r[i], r[i + 4]));
    _mm_storeu_si128((__m128i*)(y + (2 * i + 1) * ys), _mm_unpackhi_epi64(r[i], r[i + 4]));
  }
}

template <typename T>
OC_INLINE void Block8(const T* x, T* y, int64_t xs, int64_t ys) {
  for (int c = 0; c < 8; ++c) {
    for (int r = 0; r < 8; ++r) y[c * ys + r] = x[r * xs + c];
  }
}

}  // namespace oc::cpu::OC_CPU_ISA
