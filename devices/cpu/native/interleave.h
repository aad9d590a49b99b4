// Vectors of every K-th number, and back, in registers (x_loops.cc only). K is odd, as the number
// of a window's taps mostly is: the lanes that the numbers of one vector lie in are then all
// different, so that a blend a register and one permutation gather them. Loading number by number
// takes five to ten times as long.
#pragma once

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {

// Number j * K + t is in lane `lane` of register q.
template <int K>
struct Lanes {
  alignas(64) int32_t from[K][kLanes] = {};  // [t][j]: lane
  alignas(64) int32_t to[K][kLanes] = {};    // [t][lane]: j
#ifdef __AVX512F__
  uint16_t select[K][K] = {};  // [t][q]: a bit a lane
#else
  alignas(32) int32_t select[K][K][kLanes] = {};  // -1 or 0
#endif
  constexpr Lanes() {
    for (int t = 0; t < K; ++t) {
      for (int j = 0; j < kLanes; ++j) {
        const int number = j * K + t, lane = number % kLanes, q = number / kLanes;
        from[t][j] = lane;
        to[t][lane] = j;
#ifdef __AVX512F__
        select[t][q] = static_cast<uint16_t>(select[t][q] | 1u << lane);
#else
        select[t][q][lane] = -1;
#endif
      }
    }
  }
};
template <int K>
constexpr Lanes<K> kLanesOf;

OC_INLINE vf Permute(vf x, const int32_t* lanes) {
#ifdef __AVX512F__
  return (vf)_mm512_permutexvar_ps(_mm512_load_si512(lanes), (__m512)x);
#else
  return (vf)_mm256_permutevar8x32_ps((__m256)x, _mm256_load_si256((const __m256i*)lanes));
#endif
}
#ifdef __AVX512F__
OC_INLINE vf Blend(vf x, vf y, uint16_t select) {
  return (vf)_mm512_mask_mov_ps((__m512)x, select, (__m512)y);
}
#else
OC_INLINE vf Blend(vf x, vf y, const int32_t* select) {
  return (vf)_mm256_blendv_ps((__m256)x, (__m256)y, _mm256_load_ps((const float*)select));
}
#endif

// x holds numbers 0 to K * kLanes - 1 in order; v[t][j] = number j * K + t. Bits are only moved.
template <int K>
OC_INLINE void Deinterleave(const vf (&x)[K], vf (&v)[K]) {
  static_assert(K % 2 == 1);
#pragma GCC unroll 16
  for (int t = 0; t < K; ++t) {
    vf z = x[0];
#pragma GCC unroll 16
    for (int q = 1; q < K; ++q) z = Blend(z, x[q], kLanesOf<K>.select[t][q]);
    v[t] = Permute(z, kLanesOf<K>.from[t]);
  }
}

template <int K>
OC_INLINE void Interleave(const vf (&v)[K], vf (&x)[K]) {
  static_assert(K % 2 == 1);
  vf p[K];
#pragma GCC unroll 16
  for (int t = 0; t < K; ++t) p[t] = Permute(v[t], kLanesOf<K>.to[t]);
#pragma GCC unroll 16
  for (int q = 0; q < K; ++q) {
    vf z = p[0];
#pragma GCC unroll 16
    for (int t = 1; t < K; ++t) z = Blend(z, p[t], kLanesOf<K>.select[t][q]);
    x[q] = z;
  }
}

}  // namespace oc::cpu::OC_CPU_ISA
