// Elements as they lie in memory: a thread moves a Pack, 16 bytes where the operands allow it and
// one element where they do not, and may hold it as it is.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {

// Two narrow elements side by side in a register.
__device__ __forceinline__ uint32_t PackPair(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
__device__ __forceinline__ uint32_t PackPair(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
__device__ __forceinline__ float OfPair(uint32_t pair, bool high, __nv_bfloat16) {
  return __uint_as_float(high ? pair & 0xffff0000u : pair << 16);
}
__device__ __forceinline__ float OfPair(uint32_t pair, bool high, __half) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(high ? pair >> 16 : pair)));
}

// N elements that are moved at once, in as few registers as they have words: compilers give each
// narrow element of an array a register of its own.
template <typename T, int N>
struct Pack {
  static constexpr bool kPairs = sizeof(T) == 2 && N % 2 == 0;
  using Word = std::conditional_t<kPairs, uint32_t, T>;
  Word words[kPairs ? N / 2 : N];

  static __device__ __forceinline__ Pack Of(const float (&x)[N]) {
    Pack pack;
    if constexpr (kPairs) {
#pragma unroll
      for (int i = 0; i < N; i += 2) pack.words[i / 2] = PackPair(x[i], x[i + 1], T{});
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) pack.words[i] = FromFloat<T>(x[i]);
    }
    return pack;
  }
  static __device__ __forceinline__ Pack Zero() {
    const float zeros[N] = {};
    return Of(zeros);
  }
  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kPairs) {
      return OfPair(words[i / 2], i % 2 != 0, T{});
    } else {
      return ToFloat(words[i]);
    }
  }
};

// One access: packs have 16 or 8 bytes, or one element.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> Load(const T* from) {
  Pack<T, N> pack;
  if constexpr (sizeof(pack) == 16) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    memcpy(&pack, &raw, sizeof(pack));
  } else if constexpr (sizeof(pack) == 8) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    memcpy(&pack, &raw, sizeof(pack));
  } else {
    static_assert(N == 1);
    pack.words[0] = from[0];
  }
  return pack;
}
template <int N, typename T>
__device__ __forceinline__ void Store(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16) {
    uint4 raw;
    memcpy(&raw, &pack, sizeof(pack));
    *reinterpret_cast<uint4*>(to) = raw;
  } else if constexpr (sizeof(pack) == 8) {
    uint2 raw;
    memcpy(&raw, &pack, sizeof(pack));
    *reinterpret_cast<uint2*>(to) = raw;
  } else {
    static_assert(N == 1);
    to[0] = pack.words[0];
  }
}

// The pack as it is, for the compiler something new: what was converted of it before is converted
// again instead of being kept in registers of twice the size.
template <typename T, int N>
__device__ __forceinline__ void Forget(Pack<T, N>& pack) {
  if constexpr (Pack<T, N>::kPairs) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) asm volatile("" : "+r"(pack.words[i]));
  }
}

// Of an element type that is known at run time alone: for what is read or written once beside much
// else.
__device__ __forceinline__ float LoadAny(const void* from, Type type, int64_t i) {
  switch (type) {
    case Type::kBF16:
      return ToFloat(static_cast<const __nv_bfloat16*>(from)[i]);
    case Type::kF16:
      return ToFloat(static_cast<const __half*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}
__device__ __forceinline__ void StoreAny(void* to, Type type, int64_t i, float x) {
  switch (type) {
    case Type::kBF16:
      static_cast<__nv_bfloat16*>(to)[i] = FromFloat<__nv_bfloat16>(x);
      break;
    case Type::kF16:
      static_cast<__half*>(to)[i] = FromFloat<__half>(x);
      break;
    default:
      static_cast<float*>(to)[i] = x;
  }
}

// N elements at once, from i on. Precondition: 16 bytes of them are aligned, or N is 1.
template <int N>
__device__ __forceinline__ void LoadAny(const void* from, Type type, int64_t i, float (&x)[N]) {
  const auto load = [&]<typename T>(const T* typed) {
    constexpr int kAtOnce = N < kWide<T> ? N : kWide<T>;
#pragma unroll
    for (int k = 0; k < N; k += kAtOnce) {
      const Pack<T, kAtOnce> pack = Load<kAtOnce>(typed + i + k);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) x[k + j] = pack[j];
    }
  };
  if (type == Type::kBF16) {
    load(static_cast<const __nv_bfloat16*>(from));
  } else if (type == Type::kF16) {
    load(static_cast<const __half*>(from));
  } else {
    load(static_cast<const float*>(from));
  }
}
template <int N>
__device__ __forceinline__ void StoreAny(void* to, Type type, int64_t i, const float (&x)[N]) {
  const auto store = [&]<typename T>(T* typed) {
    constexpr int kAtOnce = N < kWide<T> ? N : kWide<T>;
#pragma unroll
    for (int k = 0; k < N; k += kAtOnce) {
      float part[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) part[j] = x[k + j];
      Store(typed + i + k, Pack<T, kAtOnce>::Of(part));
    }
  };
  if (type == Type::kBF16) {
    store(static_cast<__nv_bfloat16*>(to));
  } else if (type == Type::kF16) {
    store(static_cast<__half*>(to));
  } else {
    store(static_cast<float*>(to));
  }
}

constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// e^x: of narrow results the device's fast one, whose error is far below their rounding.
template <typename T>
__device__ __forceinline__ float Exp(float x) {
  if constexpr (sizeof(T) == 4) return expf(x);
  return Exp2(x * kLog2e);
}

// The largest of a few packs' elements.
__device__ __forceinline__ uint32_t MaxOfPairs(uint32_t a, uint32_t b, __nv_bfloat16) {
  __nv_bfloat162 x, y;
  memcpy(&x, &a, sizeof(a));
  memcpy(&y, &b, sizeof(b));
  x = __hmax2(x, y);
  memcpy(&a, &x, sizeof(a));
  return a;
}
__device__ __forceinline__ uint32_t MaxOfPairs(uint32_t a, uint32_t b, __half) {
  __half2 x, y;
  memcpy(&x, &a, sizeof(a));
  memcpy(&y, &b, sizeof(b));
  x = __hmax2(x, y);
  memcpy(&a, &x, sizeof(a));
  return a;
}
template <typename T, int V, int N>
__device__ __forceinline__ float MaxOf(const Pack<T, V> (&packs)[N]) {
  if constexpr (Pack<T, V>::kPairs) {
    uint32_t largest = packs[0].words[0];
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int w = 0; w < V / 2; ++w) largest = MaxOfPairs(largest, packs[n].words[w], T{});
    }
    return fmaxf(OfPair(largest, false, T{}), OfPair(largest, true, T{}));
  } else {
    float largest = packs[0][0];
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < V; ++i) largest = fmaxf(largest, packs[n][i]);
    }
    return largest;
  }
}

// Of all operands, for packs of 16 bytes; null ones are.
template <typename... P>
bool AreAligned(P... p) {
  return (Aligned(p, 16) && ...);
}

}  // namespace oc::cuda::kernels
