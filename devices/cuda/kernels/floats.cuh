// Elements as they lie in memory: a thread moves a Pack, 16 bytes where the operands allow it and
// one element where they do not, and may hold it as it is.
#pragma once

#include <cstdint>
#include <cstring>

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {

// N elements that are moved at once.
template <typename T, int N>
struct Pack {
  T at[N];

  __device__ __forceinline__ float operator[](int i) const { return ToFloat(at[i]); }
  __device__ __forceinline__ void Set(int i, float x) { at[i] = FromFloat<T>(x); }
};

// One access where the pack has 16 or 8 bytes.
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
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = from[i];
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
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = pack.at[i];
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
      Pack<T, kAtOnce> pack;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) pack.Set(j, x[k + j]);
      Store(typed + i + k, pack);
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

// e^x: of narrow results the device's fast one, whose error is far below their rounding.
template <typename T>
__device__ __forceinline__ float Exp(float x) {
  if constexpr (sizeof(T) == 4) return expf(x);
  return __expf(x);
}

// Of all operands, for packs of 16 bytes; null ones are.
template <typename... P>
bool AreAligned(P... p) {
  return (Aligned(p, 16) && ...);
}

}  // namespace oc::cuda::kernels
