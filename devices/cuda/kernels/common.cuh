// What kernels share: vectors of 16 bytes, conversions, sums of a warp and a block, bad data.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

constexpr int kThreads = 256;

// Elements side by side, moved at once where V * sizeof(T) is a power of two up to 16.
template <typename T, int V>
struct alignas(sizeof(T) * V) Vec {
  T v[V];
};

// A number as a type.
template <int n>
struct Width {
  static constexpr int value = n;
};

// As many as 16 bytes hold.
template <typename T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}

template <typename T, int V>
__device__ __forceinline__ Vec<T, V> LoadVec(const T* at) {
  return *reinterpret_cast<const Vec<T, V>*>(at);
}

// V elements from `at` on, as floats.
template <int V, typename T>
__device__ __forceinline__ void Load(const T* at, float (&x)[V]) {
  const auto vec = *reinterpret_cast<const Vec<T, V>*>(at);
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = ToFloat(vec.v[i]);
}
template <int V, typename T>
__device__ __forceinline__ void Store(T* at, const float (&x)[V]) {
  Vec<T, V> vec;
#pragma unroll
  for (int i = 0; i < V; ++i) vec.v[i] = FromFloat<T>(x[i]);
  *reinterpret_cast<Vec<T, V>*>(at) = vec;
}

// Sums in a fixed order: a butterfly, then one warp over the warps' sums. All threads get the sum.
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}
__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}
// Precondition: kBlock threads, a multiple of 32; `shared` holds 32 floats and may be used again at
// once.
template <int kBlock>
__device__ __forceinline__ float BlockSum(float x, float* shared) {
  x = WarpSum(x);
  if constexpr (kBlock == 32) return x;
  constexpr int kWarps = kBlock / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  return WarpSum(threadIdx.x % 32 < kWarps ? shared[threadIdx.x % 32] : 0.0f);
}
template <int kBlock>
__device__ __forceinline__ float BlockMax(float x, float* shared) {
  x = WarpMax(x);
  if constexpr (kBlock == 32) return x;
  constexpr int kWarps = kBlock / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  return WarpMax(threadIdx.x % 32 < kWarps ? shared[threadIdx.x % 32] : -INFINITY);
}

// Reports bad data; the first of a queue stays.
__device__ __forceinline__ void ReportBad(const Flags& flags, int64_t position, int64_t value) {
  if (atomicCAS(flags.claim, 0, 1) != 0) return;
  volatile Report* report = flags.report;
  report->position = position;
  report->value = value;
  __threadfence_system();
  report->code = flags.code;
  __threadfence_system();
}

inline bool Aligned(const void* p, int bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}
inline int64_t DivUp(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Calls f with a value of the element's C++ type; cudaErrorInvalidValue for other types.
template <typename F>
cudaError_t ForFloat(Type type, F f) {
  switch (type) {
    case Type::kF32:
      return f(float{});
    case Type::kBF16:
      return f(__nv_bfloat16{});
    case Type::kF16:
      return f(__half{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace oc::cuda::kernels
