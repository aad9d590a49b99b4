// Sums over the rows of [rows, columns] of up to two values an element, in two stages of fixed
// order: blocks sum chunks of rows for a strip of columns, then a thread a column adds the chunks.
//
// F::Load<V>(at, column, first, second) gives V values of the two sums at once, of the elements
// from `at` on, whose first column is `column`; F::kSums is 1 or 2.
#pragma once

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {

constexpr int kStripThreads = 32, kStripRows = 8;  // of a block

template <typename F, int V>
__global__ void __launch_bounds__(kStripThreads* kStripRows)
    ColumnPartialKernel(const F f, int64_t rows, int64_t columns, int64_t chunk, float* partial,
                        int64_t partial_plane) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kStripThreads + threadIdx.x) * V;
  const bool inside = column < columns;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * chunk;
  const int64_t end = begin + chunk < rows ? begin + chunk : rows;
  float sum[2][V] = {};
  if (inside) {
#pragma unroll 4
    for (int64_t r = begin + threadIdx.y; r < end; r += kStripRows) {
      float first[V], second[V];
      f.template Load<V>(r * columns + column, column, first, second);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        sum[0][i] += first[i];
        if constexpr (F::kSums == 2) sum[1][i] += second[i];
      }
    }
  }
  __shared__ float shared[kStripRows][kStripThreads * V + 1];
#pragma unroll
  for (int s = 0; s < F::kSums; ++s) {
    if (s > 0) __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) shared[threadIdx.y][threadIdx.x * V + i] = sum[s][i];
    __syncthreads();
    for (int c = threadIdx.y * kStripThreads + threadIdx.x; c < kStripThreads * V;
         c += kStripThreads * kStripRows) {
      const int64_t at = static_cast<int64_t>(blockIdx.x) * kStripThreads * V + c;
      if (at >= columns) break;
      float total = 0;
#pragma unroll
      for (int r = 0; r < kStripRows; ++r) total += shared[r][c];
      partial[s * partial_plane + static_cast<int64_t>(blockIdx.y) * columns + at] = total;
    }
  }
}

// Launches the first stage: `vector` is a width that addresses and columns allow, 1 or V.
template <int V, typename F>
cudaError_t ColumnPartials(const F& f, bool wide, int64_t rows, int64_t columns, int chunks,
                           float* partial, cudaStream_t stream) {
  const int64_t chunk = DivUp(rows, chunks);
  const int64_t plane = static_cast<int64_t>(chunks) * columns;
  const dim3 block(kStripThreads, kStripRows);
  const auto strips = [&](int v) { return static_cast<unsigned>(DivUp(columns, kStripThreads * v)); };
  if (wide) {
    ColumnPartialKernel<F, V><<<dim3(strips(V), static_cast<unsigned>(chunks)), block, 0, stream>>>(
        f, rows, columns, chunk, partial, plane);
  } else {
    ColumnPartialKernel<F, 1><<<dim3(strips(1), static_cast<unsigned>(chunks)), block, 0, stream>>>(
        f, rows, columns, chunk, partial, plane);
  }
  return cudaGetLastError();
}

// The sum of a column's chunks, in their order but for four strands.
__device__ __forceinline__ float ColumnTotal(const float* partial, int64_t columns, int chunks,
                                             int64_t column) {
  float sum[4] = {};
  int k = 0;
  for (; k + 4 <= chunks; k += 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += partial[(k + i) * columns + column];
  }
  for (; k < chunks; ++k) sum[0] += partial[k * columns + column];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace oc::cuda::kernels
