#include "openclaw/devices/cuda/kernels/norms.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int kHeld = 4;      // packs of a row that a thread holds
constexpr int kBlock = 256;   // threads of a block whose warps have a row each
constexpr int64_t kParts = 528;  // partial sums of weights: four a multiprocessor of an H200
// Rows so short that little of a gradient is left by its sums go to the kernel in double.
constexpr int64_t kShort = 32;

// A row of packs, spread over kThreads.
template <typename T, int kThreads>
struct HeldRow {
  Pack<T, kWide<T>> packs[kHeld];

  // f(pack, column of its first element) for what the thread holds of a row.
  template <typename F>
  __device__ __forceinline__ static void ForEach(int lane, int64_t columns, const F& f) {
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int64_t c = static_cast<int64_t>(h * kThreads + lane) * kWide<T>;
      if (c < columns) f(h, c);
    }
  }
};

template <int kThreads>
struct RowThreads {
  static constexpr int kBlockSize = kThreads == kWarp ? kBlock : kThreads;
  static constexpr int kRows = kBlockSize / kThreads;
};

template <typename T, int kThreads>
__global__ void __launch_bounds__(RowThreads<kThreads>::kBlockSize) Forward(NormForward n) {
  constexpr int V = kWide<T>;
  using Row = HeldRow<T, kThreads>;
  __shared__ float scratch[kThreads / kWarp];
  const int lane = threadIdx.x % kThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * RowThreads<kThreads>::kRows +
                      threadIdx.x / kThreads;
  if (row >= n.rows) return;  // whole warps, or the whole block
  const int64_t at = row * n.columns;
  const auto columns = static_cast<float>(n.columns);
  Row x;
  float sum = 0;
  Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
    x.packs[h] = Load<V>(static_cast<const T*>(n.x) + at + c);
  });
  if (n.residual != nullptr) {
    Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
      const Pack<T, V> more = Load<V>(static_cast<const T*>(n.residual) + at + c);
#pragma unroll
      for (int i = 0; i < V; ++i) x.packs[h].Set(i, x.packs[h][i] + more[i]);
      Store(static_cast<T*>(n.sum) + at + c, x.packs[h]);
    });
  }
  float mean = 0;
  if (n.centred) {
    Row::ForEach(lane, n.columns, [&](int h, int64_t) {
#pragma unroll
      for (int i = 0; i < V; ++i) sum += x.packs[h][i];
    });
    mean = RowReduce<kThreads>(sum, scratch, AddOf()) / columns;
  }
  float square = 0;
  Row::ForEach(lane, n.columns, [&](int h, int64_t) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float centred = x.packs[h][i] - mean;
      square += centred * centred;
    }
  });
  square = RowReduce<kThreads>(square, scratch, AddOf());
  const float rstd = 1.0f / sqrtf(square / columns + static_cast<float>(n.eps));
  Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
    Pack<T, V> gamma, beta, y;
    if (n.gamma != nullptr) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
    if (n.beta != nullptr) beta = Load<V>(static_cast<const T*>(n.beta) + c);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float value = (x.packs[h][i] - mean) * rstd;
      if (n.gamma != nullptr) value *= gamma[i];
      if (n.beta != nullptr) value += beta[i];
      y.Set(i, value);
    }
    Store(static_cast<T*>(n.y) + at + c, y);
  });
  if (lane == 0) {
    n.rstd[row] = rstd;
    if (n.centred) n.mean[row] = mean;
  }
}

// A row after another, kParts blocks in all where weights are wanted: each block then has one
// partial sum a column, of its rows in their order.
template <typename T, int kThreads, bool kWeights>
__global__ void __launch_bounds__(RowThreads<kThreads>::kBlockSize) Backward(NormBackward n) {
  constexpr int V = kWide<T>;
  constexpr int kRows = RowThreads<kThreads>::kRows;
  using Row = HeldRow<T, kThreads>;
  __shared__ float scratch[2][kThreads / kWarp];
  const int lane = threadIdx.x % kThreads, group = threadIdx.x / kThreads;
  const auto columns = static_cast<float>(n.columns);
  float dgamma[kWeights ? kHeld : 1][V] = {}, dbeta[kWeights ? kHeld : 1][V] = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRows;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + group; row < n.rows; row += step) {
    const int64_t at = row * n.columns;
    Row x, dy;
    Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
      dy.packs[h] = Load<V>(static_cast<const T*>(n.dy) + at + c);
      x.packs[h] = Load<V>(static_cast<const T*>(n.x) + at + c);
    });
    const float mean = n.centred ? n.mean[row] : 0.0f, rstd = n.rstd[row];
    float sum_g = 0, sum_gx = 0;
    Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
      Pack<T, V> gamma;
      const bool scaled = n.gamma != nullptr && n.dx != nullptr;
      if (scaled) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float xhat = (x.packs[h][i] - mean) * rstd;
        const float g = scaled ? dy.packs[h][i] * gamma[i] : dy.packs[h][i];
        sum_g += g;
        sum_gx += g * xhat;
        if constexpr (kWeights) {
          dgamma[h][i] += dy.packs[h][i] * xhat;
          dbeta[h][i] += dy.packs[h][i];
        }
      }
    });
    if (n.dx == nullptr) continue;
    const float mean_g =
        n.centred ? RowReduce<kThreads>(sum_g, scratch[0], AddOf()) / columns : 0.0f;
    const float mean_gx = RowReduce<kThreads>(sum_gx, scratch[1], AddOf()) / columns;
    Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
      Pack<T, V> gamma, more, dx;
      if (n.gamma != nullptr) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
      if (n.residual != nullptr) more = Load<V>(static_cast<const T*>(n.residual) + at + c);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float xhat = (x.packs[h][i] - mean) * rstd;
        const float g = n.gamma != nullptr ? dy.packs[h][i] * gamma[i] : dy.packs[h][i];
        float value = rstd * (g - mean_g - xhat * mean_gx);
        if (n.residual != nullptr) value += more[i];
        dx.Set(i, value);
      }
      Store(static_cast<T*>(n.dx) + at + c, dx);
    });
  }
  if constexpr (kWeights) {
    // The block's rows were spread over kRows groups: their sums are added in the groups' order.
    extern __shared__ float sums[];  // [kRows][2][columns]
    float* own = sums + static_cast<int64_t>(group) * 2 * n.columns;
    if constexpr (kRows > 1) {
      Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          own[c + i] = dgamma[h][i];
          own[n.columns + c + i] = dbeta[h][i];
        }
      });
      __syncthreads();
      float* to = n.workspace + static_cast<int64_t>(blockIdx.x) * 2 * n.columns;
      for (int64_t c = threadIdx.x; c < 2 * n.columns; c += blockDim.x) {
        float sum = 0;
        for (int g = 0; g < kRows; ++g) sum += sums[g * 2 * n.columns + c];
        to[c] = sum;
      }
    } else {
      float* to = n.workspace + static_cast<int64_t>(blockIdx.x) * 2 * n.columns;
      Row::ForEach(lane, n.columns, [&](int h, int64_t c) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          to[c + i] = dgamma[h][i];
          to[n.columns + c + i] = dbeta[h][i];
        }
      });
    }
  }
}

// Any size: a block a row, reading it as often as needed.
template <typename T>
__global__ void __launch_bounds__(kBlock) PlainForward(NormForward n) {
  __shared__ double scratch[kBlock / kWarp];
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n.columns;
  const T* x = static_cast<const T*>(n.x) + at;
  if (n.residual != nullptr) {
    T* sum = static_cast<T*>(n.sum) + at;
    const T* more = static_cast<const T*>(n.residual) + at;
    for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) {
      sum[c] = FromFloat<T>(ToFloat(x[c]) + ToFloat(more[c]));
    }
    x = sum;  // each thread reads what it wrote
  }
  const auto columns = static_cast<double>(n.columns);
  double mean = 0, square = 0;
  if (n.centred) {
    for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) mean += ToFloat(x[c]);
    mean = RowReduce<kBlock>(mean, scratch, AddOf()) / columns;
  }
  for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) {
    const double centred = ToFloat(x[c]) - mean;
    square += centred * centred;
  }
  const double rstd = 1 / sqrt(RowReduce<kBlock>(square, scratch, AddOf()) / columns + n.eps);
  for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) {
    auto value = static_cast<float>((ToFloat(x[c]) - mean) * rstd);
    if (n.gamma != nullptr) value *= ToFloat(static_cast<const T*>(n.gamma)[c]);
    if (n.beta != nullptr) value += ToFloat(static_cast<const T*>(n.beta)[c]);
    static_cast<T*>(n.y)[at + c] = FromFloat<T>(value);
  }
  if (threadIdx.x == 0) {
    n.rstd[blockIdx.x] = static_cast<float>(rstd);
    if (n.centred) n.mean[blockIdx.x] = static_cast<float>(mean);
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock) PlainBackward(NormBackward n) {
  __shared__ double scratch[2][kBlock / kWarp];
  const int64_t row = blockIdx.x, at = row * n.columns;
  const T* dy = static_cast<const T*>(n.dy) + at;
  const T* x = static_cast<const T*>(n.x) + at;
  const T* gamma = static_cast<const T*>(n.gamma);
  const double mean = n.centred ? n.mean[row] : 0, rstd = n.rstd[row];
  const auto g_of = [&](int64_t c) {
    return gamma != nullptr ? static_cast<double>(ToFloat(dy[c])) * ToFloat(gamma[c]) : ToFloat(dy[c]);
  };
  double sum_g = 0, sum_gx = 0;
  for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) {
    const double g = g_of(c);
    sum_g += g;
    sum_gx += g * ((ToFloat(x[c]) - mean) * rstd);
  }
  const auto columns = static_cast<double>(n.columns);
  const double mean_g =
      n.centred ? RowReduce<kBlock>(sum_g, scratch[0], AddOf()) / columns : 0;
  const double mean_gx = RowReduce<kBlock>(sum_gx, scratch[1], AddOf()) / columns;
  for (int64_t c = threadIdx.x; c < n.columns; c += kBlock) {
    const double xhat = (ToFloat(x[c]) - mean) * rstd;
    auto value = static_cast<float>(rstd * (g_of(c) - mean_g - xhat * mean_gx));
    if (n.residual != nullptr) value += ToFloat(static_cast<const T*>(n.residual)[at + c]);
    static_cast<T*>(n.dx)[at + c] = FromFloat<T>(value);
  }
}

// Of any size: blocks of 32 columns by 8 rows at a time; part p has the rows p, p + parts, ...
constexpr int kTileRows = 8;
template <typename T>
__global__ void __launch_bounds__(kWarp* kTileRows) PlainWeights(NormBackward n) {
  __shared__ float sums[2][kTileRows][kWarp];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.y) * kTileRows;
  float dgamma = 0, dbeta = 0;
  if (c < n.columns) {
    for (int64_t row = static_cast<int64_t>(blockIdx.y) * kTileRows + threadIdx.y; row < n.rows;
         row += step) {
      const float dy = ToFloat(static_cast<const T*>(n.dy)[row * n.columns + c]);
      const float x = ToFloat(static_cast<const T*>(n.x)[row * n.columns + c]);
      dgamma += dy * ((x - (n.centred ? n.mean[row] : 0.0f)) * n.rstd[row]);
      dbeta += dy;
    }
  }
  sums[0][threadIdx.y][threadIdx.x] = dgamma;
  sums[1][threadIdx.y][threadIdx.x] = dbeta;
  __syncthreads();
  if (threadIdx.y > 1 || c >= n.columns) return;
  float sum = 0;
  for (int r = 0; r < kTileRows; ++r) sum += sums[threadIdx.y][r][threadIdx.x];
  n.workspace[(static_cast<int64_t>(blockIdx.y) * 2 + threadIdx.y) * n.columns + c] = sum;
}

// 32 columns by 32 strands of parts; the strands' sums are added in their order.
__global__ void __launch_bounds__(kWarp* kWarp) AddPartials(PartialSums s) {
  __shared__ float sums[kWarp][kWarp];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0;
  if (c < s.columns) {
#pragma unroll 4
    for (int64_t p = threadIdx.y; p < s.parts; p += kWarp) sum += s.partials[p * s.stride + c];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= s.columns) return;
  double total = 0;
  for (int y = 0; y < kWarp; ++y) total += sums[y][threadIdx.x];
  auto value = static_cast<float>(total);
  if (s.add) value += LoadAny(s.to, s.type, c);
  StoreAny(s.to, s.type, c, value);
}

// f of the number of threads that hold a row, or of 0 where none do.
template <typename T, typename F>
void ForThreads(int64_t columns, bool aligned, const F& f) {
  const int64_t packs = (columns + kWide<T> - 1) / kWide<T>;
  if (!aligned || columns % kWide<T> != 0 || columns < kShort || packs > 512 * kHeld) {
    f.template operator()<0>();
  } else if (packs <= kWarp * kHeld) {
    f.template operator()<kWarp>();
  } else if (packs <= 128 * kHeld) {
    f.template operator()<128>();
  } else {
    f.template operator()<512>();
  }
}

int64_t PartsOf(int64_t rows, int64_t a_block) {
  return std::min(kParts, std::max<int64_t>(1, (rows + a_block - 1) / a_block));
}

template <typename T, int kThreads>
int64_t LaunchBackward(const NormBackward& n, bool weights, cudaStream_t stream) {
  using Shape = RowThreads<kThreads>;
  if (!weights) {
    Backward<T, kThreads, false>
        <<<BlocksFor(n.rows, Shape::kRows), Shape::kBlockSize, 0, stream>>>(n);
    return 0;
  }
  const int64_t parts = PartsOf(n.rows, Shape::kRows);
  const size_t shared =
      Shape::kRows > 1 ? static_cast<size_t>(Shape::kRows * 2 * n.columns) * sizeof(float) : 0;
  auto* kernel = Backward<T, kThreads, true>;
  // More than the 48 KiB that need no asking for.
  if (shared > (size_t{48} << 10)) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared));
  }
  kernel<<<static_cast<unsigned>(parts), Shape::kBlockSize, shared, stream>>>(n);
  return parts;
}

// Partial sums of weights over how many parts, 0 where none were made.
template <typename T>
int64_t LaunchPlain(const NormBackward& n, bool weights, cudaStream_t stream) {
  if (n.dx != nullptr && n.rows > 0) {
    PlainBackward<T><<<static_cast<unsigned>(n.rows), kBlock, 0, stream>>>(n);
  }
  if (!weights) return 0;
  const int64_t parts = PartsOf(n.rows, kTileRows * 4);
  const dim3 grid(BlocksFor(n.columns, kWarp), static_cast<unsigned>(parts));
  PlainWeights<T><<<grid, dim3(kWarp, kTileRows), 0, stream>>>(n);
  return parts;
}

}  // namespace

cudaError_t Launch(const NormForward& n, cudaStream_t stream) {
  if (n.rows == 0 || n.columns == 0) return cudaSuccess;
  const bool aligned = AreAligned(n.x, n.residual, n.sum, n.gamma, n.beta, n.y);
  return ForFloat(n.type, [&]<typename T>(T) {
    ForThreads<T>(n.columns, aligned, [&]<int kThreads>() {
      if constexpr (kThreads == 0) {
        PlainForward<T><<<static_cast<unsigned>(n.rows), kBlock, 0, stream>>>(n);
      } else {
        using Shape = RowThreads<kThreads>;
        Forward<T, kThreads>
            <<<BlocksFor(n.rows, Shape::kRows), Shape::kBlockSize, 0, stream>>>(n);
      }
    });
    return cudaGetLastError();
  });
}

int64_t NormWorkspace(int64_t rows, int64_t columns) { return PartsOf(rows, 1) * 2 * columns; }

cudaError_t Launch(const NormBackward& n, cudaStream_t stream) {
  if (n.columns == 0) return cudaSuccess;
  const bool weights = n.dgamma != nullptr || n.dbeta != nullptr;
  if (n.rows == 0 && !weights) return cudaSuccess;
  const bool aligned = AreAligned(n.dy, n.x, n.gamma, n.residual, n.dx);
  int64_t parts = 0;
  cudaError_t code = ForFloat(n.type, [&]<typename T>(T) {
    ForThreads<T>(n.columns, aligned, [&]<int kThreads>() {
      if constexpr (kThreads == 0) {
        parts = LaunchPlain<T>(n, weights, stream);
      } else {
        parts = LaunchBackward<T, kThreads>(n, weights, stream);
      }
    });
    return cudaGetLastError();
  });
  const auto finish = [&](int64_t first, void* to, bool add) {
    if (to == nullptr || code != cudaSuccess) return;
    code = Launch(
        PartialSums{n.workspace + first, parts, 2 * n.columns, n.columns, to, n.weight_type, add},
        stream);
  };
  finish(0, n.dgamma, n.add_dgamma);
  finish(n.columns, n.dbeta, n.add_dbeta);
  return code;
}

cudaError_t Launch(const PartialSums& s, cudaStream_t stream) {
  if (s.columns == 0) return cudaSuccess;
  AddPartials<<<BlocksFor(s.columns, kWarp), dim3(kWarp, kWarp), 0, stream>>>(s);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
