#include "openclaw/devices/cuda/kernels/fill.h"

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {
namespace {

template <typename T>
__global__ void NoiseKernel(T* x, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  uint32_t h = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(i >> 32);
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
  x[i] = FromFloat<T>(static_cast<float>(h) * (2.0f / 4294967296.0f) - 1.0f);
}

template <typename T>
__global__ void RowsKernel(const T* row, bool relu, T* y, int64_t n, int64_t columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float v = row == nullptr ? 0.0f : ToFloat(row[i % columns]);
  if (relu && v < 0) v = 0;
  y[i] = FromFloat<T>(v);
}

}  // namespace

cudaError_t FillNoise(Type type, void* x, int64_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  return ForFloat(type, [&]<typename T>(T) {
    NoiseKernel<T><<<static_cast<unsigned>(DivUp(n, kThreads)), kThreads, 0, stream>>>(
        static_cast<T*>(x), n);
    return cudaGetLastError();
  });
}

cudaError_t FillRows(Type type, const void* row, bool relu, void* y, int64_t rows, int64_t columns,
                     cudaStream_t stream) {
  const int64_t n = rows * columns;
  if (n == 0) return cudaSuccess;
  return ForFloat(type, [&]<typename T>(T) {
    RowsKernel<T><<<static_cast<unsigned>(DivUp(n, kThreads)), kThreads, 0, stream>>>(
        static_cast<const T*>(row), relu, static_cast<T*>(y), n, columns);
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
