// Sums and maxima over the threads that share a row, in a fixed order: a butterfly within warps,
// then the warps' results. All threads get the result.
#pragma once

#include "openclaw/devices/cuda/kernels/floats.cuh"

namespace oc::cuda::kernels {

constexpr int kWarp = 32;

struct AddOf {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct LargerOf {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <typename T, typename Combine>
__device__ __forceinline__ T WarpReduce(T value, Combine combine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

// kThreads: those of a row. A warp has its row for itself; else the whole block has one row.
// `scratch`: kThreads / 32 values of shared memory, free again once all threads came by a barrier.
template <int kThreads, typename T, typename Combine>
__device__ __forceinline__ T RowReduce(T value, T* scratch, Combine combine) {
  value = WarpReduce(value, combine);
  if constexpr (kThreads == kWarp) return value;
  constexpr int kWarps = kThreads / kWarp;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) value = combine(value, scratch[w]);
  return value;
}

inline unsigned BlocksFor(int64_t items, int64_t a_block) {
  return static_cast<unsigned>(DivUp(items, a_block));
}

}  // namespace oc::cuda::kernels
