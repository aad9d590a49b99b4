// Vectors of floats for the loops of this folder (x_loops.cc only): as wide as the instruction set,
// with the operators of GCC's vector extension. bf16 and f16 are storage: they are loaded as float
// and rounded to nearest even when stored. Compiled in the namespace of each instruction set
// (dispatch.h).
//
//   ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA { Store(y + i, Load(x + i, part) * 2, part);
//   });
#pragma once

#include <immintrin.h>
#include <stdint.h>

#define OC_INLINE inline __attribute__((always_inline))
#define OC_LAMBDA __attribute__((always_inline))

namespace oc::cpu::OC_CPU_ISA {

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float vf __attribute__((vector_size(kLanes * 4)));
typedef int32_t vi __attribute__((vector_size(kLanes * 4)));
typedef uint32_t vu __attribute__((vector_size(kLanes * 4)));
typedef uint16_t vh __attribute__((vector_size(kLanes * 2)));

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// How much of a vector is meant: all lanes, or the first n (0 < n < kLanes). Lanes that a partial
// load leaves out are zero.
struct Full {};
struct Part {
  explicit OC_INLINE Part(int count) : n(count) {}
  int n;
#ifdef __AVX512F__
  OC_INLINE __mmask16 mask() const { return static_cast<__mmask16>((1u << n) - 1); }
#else
  OC_INLINE __m256i mask() const {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
#endif
};

OC_INLINE vf Set(float x) { return x - vf{}; }
OC_INLINE vf Bits(vu x) { return (vf)x; }
OC_INLINE vu Bits(vf x) { return (vu)x; }
OC_INLINE vf Abs(vf x) { return Bits(Bits(x) & 0x7fffffffu); }
OC_INLINE vf CopySign(vf magnitude, vf sign) {
  return Bits((Bits(magnitude) & 0x7fffffffu) | (Bits(sign) & 0x80000000u));
}
// The second where either is NaN.
#ifdef __AVX512F__
OC_INLINE vf Max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
OC_INLINE vf Min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
#else
OC_INLINE vf Max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
OC_INLINE vf Min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
#endif
#ifdef __AVX512F__
OC_INLINE vf Sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
#else
OC_INLINE vf Sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
#endif

OC_INLINE vf Widen(vh h) { return Bits(__builtin_convertvector(h, vu) << 16); }
OC_INLINE vh Narrow(vf x) {
  const vu u = Bits(x);
  const vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const vu quiet = (u >> 16) | 0x40u;
  return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, vh);
}
OC_INLINE float Widen(bf16 h) {
  const uint32_t u = static_cast<uint32_t>(h.bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
OC_INLINE bf16 Narrow(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

#ifdef __AVX512F__
OC_INLINE vf WidenF16(vh h) { return (vf)_mm512_cvtph_ps((__m256i)h); }
OC_INLINE vh NarrowF16(vf x) {
  return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
OC_INLINE vf WidenF16(vh h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
OC_INLINE vh NarrowF16(vf x) {
  return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#endif

OC_INLINE vf Load(const float* p, Full = {}) {
  vf x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
OC_INLINE void Store(float* p, vf x, Full = {}) { __builtin_memcpy(p, &x, sizeof(x)); }
OC_INLINE vf Load(const bf16* p, Full = {}) {
  vh h;
  __builtin_memcpy(&h, p, sizeof(h));
  return Widen(h);
}
OC_INLINE void Store(bf16* p, vf x, Full = {}) {
  const vh h = Narrow(x);
  __builtin_memcpy(p, &h, sizeof(h));
}

OC_INLINE vf Load(const f16* p, Full = {}) {
  vh h;
  __builtin_memcpy(&h, p, sizeof(h));
  return WidenF16(h);
}
OC_INLINE void Store(f16* p, vf x, Full = {}) {
  const vh h = NarrowF16(x);
  __builtin_memcpy(p, &h, sizeof(h));
}

#ifdef __AVX512F__
OC_INLINE vf Load(const float* p, Part t) { return (vf)_mm512_maskz_loadu_ps(t.mask(), p); }
OC_INLINE void Store(float* p, vf x, Part t) { _mm512_mask_storeu_ps(p, t.mask(), (__m512)x); }
OC_INLINE vf Load(const bf16* p, Part t) {
  return Widen((vh)_mm256_maskz_loadu_epi16(t.mask(), p));
}
OC_INLINE void Store(bf16* p, vf x, Part t) {
  _mm256_mask_storeu_epi16(p, t.mask(), (__m256i)Narrow(x));
}
OC_INLINE vf Load(const f16* p, Part t) {
  return WidenF16((vh)_mm256_maskz_loadu_epi16(t.mask(), p));
}
OC_INLINE void Store(f16* p, vf x, Part t) {
  _mm256_mask_storeu_epi16(p, t.mask(), (__m256i)NarrowF16(x));
}
OC_INLINE vf ZeroTail(vf x, Part t) { return (vf)_mm512_maskz_mov_ps(t.mask(), (__m512)x); }
#else
OC_INLINE vf Load(const float* p, Part t) { return (vf)_mm256_maskload_ps(p, t.mask()); }
OC_INLINE void Store(float* p, vf x, Part t) { _mm256_maskstore_ps(p, t.mask(), (__m256)x); }
OC_INLINE vf Load(const bf16* p, Part t) {
  vh h = {};
  for (int i = 0; i < t.n; ++i) h[i] = p[i].bits;
  return Widen(h);
}
OC_INLINE void Store(bf16* p, vf x, Part t) {
  const vh h = Narrow(x);
  for (int i = 0; i < t.n; ++i) p[i].bits = h[i];
}
OC_INLINE vf Load(const f16* p, Part t) {
  vh h = {};
  for (int i = 0; i < t.n; ++i) h[i] = p[i].bits;
  return WidenF16(h);
}
OC_INLINE void Store(f16* p, vf x, Part t) {
  const vh h = NarrowF16(x);
  for (int i = 0; i < t.n; ++i) p[i].bits = h[i];
}
OC_INLINE vf ZeroTail(vf x, Part t) { return (vf)_mm256_and_ps((__m256)x, (__m256)t.mask()); }
#endif
OC_INLINE vf ZeroTail(vf x, Full) { return x; }

OC_INLINE float LoadScalar(const float* p) { return *p; }
OC_INLINE float LoadScalar(const bf16* p) { return Widen(*p); }
OC_INLINE float LoadScalar(const f16* p) { return _cvtsh_ss(p->bits); }
OC_INLINE void StoreScalar(float* p, float x) { *p = x; }
OC_INLINE void StoreScalar(bf16* p, float x) { *p = Narrow(x); }
OC_INLINE void StoreScalar(f16* p, float x) { p->bits = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

// Sums and maxima over the lanes, always in the same order.
OC_INLINE __m128 HalfSum(__m256 x) {
  return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}
OC_INLINE __m128 HalfMax(__m256 x) {
  return _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}
OC_INLINE float Sum(vf x) {
#ifdef __AVX512F__
  const __m512 z = (__m512)x;
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(z), _mm512_extractf32x8_ps(z, 1));
#else
  const __m256 h = (__m256)x;
#endif
  __m128 q = HalfSum(h);
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
OC_INLINE float MaxLane(vf x) {
#ifdef __AVX512F__
  const __m512 z = (__m512)x;
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(z), _mm512_extractf32x8_ps(z, 1));
#else
  const __m256 h = (__m256)x;
#endif
  __m128 q = HalfMax(h);
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

// f(i, Full) for whole vectors of 0..n-1, then f(i, Part) for what is left.
template <typename F>
OC_INLINE void ForVectors(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, Full{});
  if (i < n) f(i, Part(static_cast<int>(n - i)));
}

// The sum of f(i, part) over vectors; lanes that are left out of a partial one do not count. Four
// sums run at once: additions take four cycles.
template <typename F>
OC_INLINE vf SumVectors(int64_t n, const F& f) {
  vf s0 = {}, s1 = {}, s2 = {}, s3 = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    s0 += f(i, Full{});
    s1 += f(i + kLanes, Full{});
    s2 += f(i + 2 * kLanes, Full{});
    s3 += f(i + 3 * kLanes, Full{});
  }
  for (; i + kLanes <= n; i += kLanes) s0 += f(i, Full{});
  if (i < n) {
    const Part part(static_cast<int>(n - i));
    s1 += ZeroTail(f(i, part), part);
  }
  return (s0 + s1) + (s2 + s3);
}

}  // namespace oc::cpu::OC_CPU_ISA
