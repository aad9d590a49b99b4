// Work on [rows, columns] whose threads keep to their columns: sums over the rows of up to two
// values an element, in two stages of fixed order (blocks sum chunks of rows for a strip of columns,
// then a thread a column adds the chunks), and element-wise work with values of the column.
//
// A functor F has
//   template <int V> struct State;            what a thread keeps of its V columns
//   template <int V> struct Item;             V elements of a row as they are loaded
//   Begin<V>(column, state)                   fills the state
//   Fetch<V>(at, item)                        loads the elements from `at` on
// and, of the first kind,
//   Sum<V>(state, item, first, second)        the values that are summed
//   static constexpr int kSums                1 or 2 of them
//   static constexpr bool kCompensated        whether the first sum keeps what rounding loses
// or, of the second kind,
//   Apply<V>(at, state, item)                 computes and stores
#pragma once

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {

constexpr int kAhead = 4;   // rows that a thread has under way at once
constexpr int kStrip = 32;  // vectors of columns that a block spans, at most

template <typename F, int V>
__global__ void __launch_bounds__(kThreads)
    ColumnPartialKernel(const F f, int64_t rows, int64_t columns, int64_t chunk, double* partial,
                        int64_t partial_plane) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * chunk;
  const int64_t end = begin + chunk < rows ? begin + chunk : rows;
  float sum[2][V] = {}, lost[V] = {};
  if (column < columns) {
    typename F::template State<V> state;
    f.template Begin<V>(column, state);
    for (int64_t r = begin + threadIdx.y; r < end; r += kAhead * blockDim.y) {
      typename F::template Item<V> item[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t row = r + k * blockDim.y;
        if (row < end) f.template Fetch<V>(row * columns + column, item[k]);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (r + k * blockDim.y >= end) break;
        float first[V], second[V];
        f.template Sum<V>(state, item[k], first, second);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          if constexpr (F::kCompensated) {
            const float value = first[i] - lost[i], total = sum[0][i] + value;
            lost[i] = (total - sum[0][i]) - value;
            sum[0][i] = total;
          } else {
            sum[0][i] += first[i];
          }
          if constexpr (F::kSums == 2) sum[1][i] += second[i];
        }
      }
    }
  }
  // From here on sums are few: doubles cost nothing.
  __shared__ double shared[kThreads * (V + 1)];
  const int width = static_cast<int>(blockDim.x) * V, pitch = width + 1;
#pragma unroll
  for (int s = 0; s < F::kSums; ++s) {
    if (s > 0) __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const double value = sum[s][i];
      shared[threadIdx.y * pitch + threadIdx.x * V + i] = s == 0 ? value - lost[i] : value;
    }
    __syncthreads();
    for (int c = threadIdx.y * blockDim.x + threadIdx.x; c < width; c += kThreads) {
      const int64_t at = static_cast<int64_t>(blockIdx.x) * width + c;
      if (at >= columns) break;
      double total = 0;
      for (int r = 0; r < static_cast<int>(blockDim.y); ++r) total += shared[r * pitch + c];
      partial[s * partial_plane + static_cast<int64_t>(blockIdx.y) * columns + at] = total;
    }
  }
}

template <typename F, int V>
__global__ void __launch_bounds__(kThreads)
    ColumnApplyKernel(const F f, int64_t rows, int64_t columns, int64_t chunk) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (column >= columns) return;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * chunk;
  const int64_t end = begin + chunk < rows ? begin + chunk : rows;
  typename F::template State<V> state;
  f.template Begin<V>(column, state);
  for (int64_t r = begin + threadIdx.y; r < end; r += kAhead * blockDim.y) {
    typename F::template Item<V> item[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t row = r + k * blockDim.y;
      if (row < end) f.template Fetch<V>(row * columns + column, item[k]);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t row = r + k * blockDim.y;
      if (row < end) f.template Apply<V>(row * columns + column, state, item[k]);
    }
  }
}

// Threads of a block along the columns: a power of two.
inline int StripOf(int64_t vectors) {
  int strip = 1;
  while (strip < kStrip && strip < vectors) strip *= 2;
  return strip;
}

// The first stage. `wide`: addresses and columns allow vectors of V elements.
template <int V, typename F>
cudaError_t ColumnPartials(const F& f, bool wide, int64_t rows, int64_t columns, int chunks,
                           double* partial, cudaStream_t stream) {
  const int64_t chunk = DivUp(rows, chunks);
  const int64_t plane = static_cast<int64_t>(chunks) * columns;
  const auto launch = [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const int strip = StripOf(DivUp(columns, kWidth));
    const dim3 grid(static_cast<unsigned>(DivUp(columns, strip * kWidth)),
                    static_cast<unsigned>(chunks));
    const dim3 block(static_cast<unsigned>(strip), static_cast<unsigned>(kThreads / strip));
    ColumnPartialKernel<F, kWidth>
        <<<grid, block, 0, stream>>>(f, rows, columns, chunk, partial, plane);
    return cudaGetLastError();
  };
  return wide ? launch(Width<V>{}) : launch(Width<1>{});
}

// Element-wise work, with blocks of about `rows_a_thread` rows a thread.
template <int V, typename F>
cudaError_t ColumnApply(const F& f, bool wide, int64_t rows, int64_t columns,
                        cudaStream_t stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  const auto launch = [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int64_t kRowsEach = 8, kMost = 65535;
    const int strip = StripOf(DivUp(columns, kWidth));
    int64_t chunk = kRowsEach * (kThreads / strip);
    if (DivUp(rows, chunk) > kMost) chunk = DivUp(rows, kMost);
    const dim3 grid(static_cast<unsigned>(DivUp(columns, strip * kWidth)),
                    static_cast<unsigned>(DivUp(rows, chunk)));
    const dim3 block(static_cast<unsigned>(strip), static_cast<unsigned>(kThreads / strip));
    ColumnApplyKernel<F, kWidth><<<grid, block, 0, stream>>>(f, rows, columns, chunk);
    return cudaGetLastError();
  };
  return wide ? launch(Width<V>{}) : launch(Width<1>{});
}

// The sum of a column's chunks, in their order.
__device__ __forceinline__ double ColumnTotal(const double* partial, int64_t columns, int chunks,
                                              int64_t column) {
  double sum = 0;
#pragma unroll 4
  for (int k = 0; k < chunks; ++k) sum += partial[k * columns + column];
  return sum;
}

}  // namespace oc::cuda::kernels
