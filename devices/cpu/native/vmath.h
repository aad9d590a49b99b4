// exp, log, tanh, sigmoid and erf of vectors of floats (x_loops.cc only). Errors measured against
// double over the whole range (tests/devices/cpu/vector_math_test.cc), in units of the last place:
//   Exp 1.5, Log 1.5, Tanh 3, Sigmoid 3, Erf 1.5
// NaN and infinity come through as in libm; results below the smallest normal number are gradual in
// Exp.
#pragma once

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {

// 2^n for n in -126..127.
OC_INLINE vf PowerOfTwo(vi n) { return Bits(((vu)n + 127u) << 23); }

OC_INLINE vf Exp(vf x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2. Beyond the bounds the result is 0 or infinity anyway; a NaN
  // passes both comparisons.
  x = x > 89.0f ? Set(89.0f) : x;
  x = x < -104.0f ? Set(-104.0f) : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const vf shifted = x * 1.44269504f + kRound;
  const vf n = shifted - kRound;
  vf r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  vf p = Set(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r;
  p = p + 1.0f;
#ifdef __AVX512F__
  return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  // Two factors: k goes from -150 to 128.
  const vi k = (vi)(Bits(shifted) - Bits(Set(kRound)));
  const vi half = k >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(k - half);
#endif
}

OC_INLINE vf Log(vf x) {
  const vf tiny = x < 1.17549435e-38f ? Set(8388608.0f) : Set(1.0f);
  const vf scaled = x * tiny;
  // scaled = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const vu bits = Bits(scaled) - 0x3f3504f3u;
  vf e = __builtin_convertvector((vi)bits >> 23, vf);
  e = x < 1.17549435e-38f ? e - 23.0f : e;
  const vf m = Bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  vf p = Set(7.0376836292e-2f);
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const vf m2 = m * m;
  vf y = p * (m * m2) + e * -2.12194440e-4f;
  y = y - m2 * 0.5f;
  y = (m + y) + e * 0.693359375f;
  const float infinity = __builtin_inff();
  y = x == 0.0f ? Set(-infinity) : y;
  y = x < 0.0f ? Set(__builtin_nanf("")) : y;
  return x < infinity ? y : x;  // NaN and infinity themselves
}

OC_INLINE vf Tanh(vf x) {
  const vf a = Abs(x);
  const vf s = x * x;
  vf p = Set(-5.70498872745e-3f);
  p = p * s + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const vf small = p * s * x + x;
  const vf large = CopySign(1.0f - 2.0f / (Exp(a + a) + 1.0f), x);
  return a < 0.625f ? small : (a == a ? large : x);
}

OC_INLINE vf Sigmoid(vf x) { return 1.0f / (1.0f + Exp(-x)); }

// Polynomials by N. Juffa: odd below 0.93, 1 - exp(polynomial) above.
OC_INLINE vf Erf(vf x) {
  const vf t = Abs(x);
  const vf s = x * x;
  vf r = Set(-1.72853470e-5f) * t + 3.83197126e-4f;
  const vf u = Set(-3.88396438e-3f) * t + 2.42546219e-2f;
  r = r * s + u;
  r = r * t + -1.06777877e-1f;
  r = r * t + -6.34846687e-1f;
  r = r * t + -1.28717512e-1f;
  r = r * t - t;
  const vf large = CopySign(1.0f - Exp(r), x);
  vf q = Set(-5.96761703e-4f);
  q = q * s + 4.99119423e-3f;
  q = q * s + -2.67681349e-2f;
  q = q * s + 1.12819925e-1f;
  q = q * s + -3.76125336e-1f;
  q = q * s + 1.28379166e-1f;
  const vf small = q * x + x;
  return t > 0.927734375f ? (t > 4.0f ? CopySign(Set(1.0f), x) : large) : (x == x ? small : x);
}

}  // namespace oc::cpu::OC_CPU_ISA
