#include "openclaw/devices/cpu/native/dropout_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

// Low and high halves of the products of unsigned 32-bit lanes with a constant.
struct Product {
  vu low, high;
};
OC_INLINE Product Multiply(vu x, uint32_t by) {
#ifdef __AVX512F__
  const __m512i b = _mm512_set1_epi32(static_cast<int>(by));
  const __m512i even = _mm512_mul_epu32((__m512i)x, b);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), b);
  return {(vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32)),
          (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd)};
#else
  const __m256i b = _mm256_set1_epi32(static_cast<int>(by));
  const __m256i even = _mm256_mul_epu32((__m256i)x, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), b);
  return {(vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA),
          (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA)};
#endif
}

// Words 0..4*kLanes-1 of the blocks from `block` on, in the order of elements.
OC_INLINE void Words(uint64_t key, uint64_t stream, uint64_t block, uint32_t* words) {
  vu lane = {};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) lane[i] = static_cast<uint32_t>(i);
  const uint32_t base = static_cast<uint32_t>(block);
  const vu low = base + lane;
  // -1 in the lanes where the lower half has wrapped.
  const vu high = static_cast<uint32_t>(block >> 32) - (vu)(low < base);
  vu c0 = low, c1 = high;
  vu c2 = vu{} + static_cast<uint32_t>(stream), c3 = vu{} + static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Product p0 = Multiply(c0, 0xD2511F53u), p1 = Multiply(c2, 0xCD9E8D57u);
    c0 = p1.high ^ c1 ^ k0;
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ k1;
    c3 = p0.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // Lane i of the four is one block: a transpose of 4 x kLanes.
  alignas(64) uint32_t lanes[4][kLanes];
  __builtin_memcpy(lanes[0], &c0, sizeof(c0));
  __builtin_memcpy(lanes[1], &c1, sizeof(c1));
  __builtin_memcpy(lanes[2], &c2, sizeof(c2));
  __builtin_memcpy(lanes[3], &c3, sizeof(c3));
  for (int i = 0; i < kLanes; i += 4) {
    const __m128i a = _mm_load_si128((const __m128i*)(lanes[0] + i));
    const __m128i b = _mm_load_si128((const __m128i*)(lanes[1] + i));
    const __m128i c = _mm_load_si128((const __m128i*)(lanes[2] + i));
    const __m128i d = _mm_load_si128((const __m128i*)(lanes[3] + i));
    const __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
    const __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
    __m128i* to = (__m128i*)(words + 4 * i);
    _mm_storeu_si128(to, _mm_unpacklo_epi64(ab0, cd0));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi64(ab0, cd0));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi64(ab1, cd1));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi64(ab1, cd1));
  }
}

template <typename T>
void Dropout(const void* x_bytes, void* y_bytes, int64_t n, uint64_t key, uint64_t stream,
             uint64_t first, uint32_t threshold, float scale) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  // Words of whole blocks, of which the first `skip` belong to elements before.
  constexpr int kBatch = 4 * kLanes;
  alignas(64) uint32_t words[kBatch];
  int64_t skip = static_cast<int64_t>(first % 4);
  uint64_t block = first / 4;
  for (int64_t i = 0; i < n; block += kLanes) {
    Words(key, stream, block, words);
    const int64_t count = n - i < kBatch - skip ? n - i : kBatch - skip;
    const uint32_t* w = words + skip;
    ForVectors(count, [&](int64_t j, auto part) OC_LAMBDA {
      const vu u = Bits(Load(reinterpret_cast<const float*>(w + j), part)) >> 8;
      const vf kept = Load(x + i + j, part) * scale;
      Store(y + i + j, u >= threshold ? kept : vf{}, part);
    });
    i += count;
    skip = 0;
  }
}

}  // namespace

const DropoutLoops kDropoutLoops = {.dropout = {Dropout<float>, Dropout<bf16>, Dropout<f16>}};

}  // namespace oc::cpu::OC_CPU_ISA
