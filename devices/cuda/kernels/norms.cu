#include "openclaw/devices/cuda/kernels/norms.h"

#include <algorithm>
#include <type_traits>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int kBlock = 256;      // threads of a plain kernel
constexpr int kWarpsBlock = 128;  // of a block whose warps have rows of their own
// Rows that a warp or block has at once: their loads overlap. Sums of weights take the registers of
// a second one.
constexpr int kTogether = 2;
constexpr int64_t kParts = 528;   // partial sums of weights: four a multiprocessor of an H200
// Rows so short that little of a gradient is left by its sums go to the kernel in double.
constexpr int64_t kShort = 32;

// How a row is spread over threads: kHeld packs each of kThreads.
template <int kThreads_, int kHeld_>
struct Spread {
  static constexpr int kThreads = kThreads_, kHeld = kHeld_;
  static constexpr int kBlockSize = kThreads == kWarp ? kWarpsBlock : kThreads;
  static constexpr int kGroups = kBlockSize / kThreads;  // that have rows of their own

  // f(h, column of the first element) for the packs that the thread holds of a row.
  template <int V, typename F>
  __device__ __forceinline__ static void ForEach(int64_t columns, const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % kThreads;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int64_t c = static_cast<int64_t>(h * kThreads + lane) * V;
      if (c < columns) f(h, c);
    }
  }
};

// Each value's sum over the threads of a row.
template <int kThreads, int N>
__device__ __forceinline__ void SumOverRow(float (&values)[N], float (*scratch)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n) values[n] = WarpReduce(values[n], AddOf());
  if constexpr (kThreads == kWarp) return;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) scratch[threadIdx.x / kWarp][n] = values[n];
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    values[n] = scratch[0][n];
#pragma unroll
    for (int w = 1; w < kThreads / kWarp; ++w) values[n] += scratch[w][n];
  }
}

// The rows that a group of threads has at once, `rows` apart of which some may lie beyond the last.
template <int N>
struct RowsAtOnce {
  int64_t row[N];
  bool there[N];

  __device__ __forceinline__ RowsAtOnce(int64_t first, int64_t step, int64_t rows) {
#pragma unroll
    for (int r = 0; r < N; ++r) {
      row[r] = first + r * step;
      there[r] = row[r] < rows;
    }
  }
};

template <typename T, typename S>
__global__ void __launch_bounds__(S::kBlockSize) Forward(NormForward n) {
  constexpr int V = kWide<T>;
  __shared__ float scratch[S::kThreads / kWarp][kTogether];
  const int group = static_cast<int>(threadIdx.x) / S::kThreads;
  const RowsAtOnce<kTogether> rows(
      static_cast<int64_t>(blockIdx.x) * kTogether * S::kGroups + group, S::kGroups, n.rows);
  const float columns = static_cast<float>(n.columns);
  Pack<T, V> x[kTogether][S::kHeld];
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    if (!rows.there[r]) continue;
    const int64_t at = rows.row[r] * n.columns;
    S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
      x[r][h] = Load<V>(static_cast<const T*>(n.x) + at + c);
    });
  }
  if (n.residual != nullptr) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      if (!rows.there[r]) continue;
      const int64_t at = rows.row[r] * n.columns;
      S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
        const Pack<T, V> more = Load<V>(static_cast<const T*>(n.residual) + at + c);
        float sum[V];
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] = x[r][h][i] + more[i];
        x[r][h] = Pack<T, V>::Of(sum);
        Store(static_cast<T*>(n.sum) + at + c, x[r][h]);
      });
    }
  }
  float mean[kTogether] = {};
  if (n.centred) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      if (!rows.there[r]) continue;
      S::template ForEach<V>(n.columns, [&](int h, int64_t) {
#pragma unroll
        for (int i = 0; i < V; ++i) mean[r] += x[r][h][i];
      });
    }
    SumOverRow<S::kThreads>(mean, scratch);
#pragma unroll
    for (int r = 0; r < kTogether; ++r) mean[r] /= columns;
  }
  float square[kTogether] = {};
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    if (!rows.there[r]) continue;
    S::template ForEach<V>(n.columns, [&](int h, int64_t) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float centred = x[r][h][i] - mean[r];
        square[r] += centred * centred;
      }
    });
  }
  SumOverRow<S::kThreads>(square, scratch);
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
#pragma unroll
    for (int h = 0; h < S::kHeld; ++h) Forget(x[r][h]);
  }
  float rstd[kTogether];
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    rstd[r] = 1.0f / sqrtf(square[r] / columns + static_cast<float>(n.eps));
    if (rows.there[r] && threadIdx.x % S::kThreads == 0) {
      n.rstd[rows.row[r]] = rstd[r];
      if (n.centred) n.mean[rows.row[r]] = mean[r];
    }
  }
  S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
    Pack<T, V> gamma, beta;
    if (n.gamma != nullptr) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
    if (n.beta != nullptr) beta = Load<V>(static_cast<const T*>(n.beta) + c);
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      if (!rows.there[r]) continue;
      float y[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        float value = (x[r][h][i] - mean[r]) * rstd[r];
        if (n.gamma != nullptr) value *= gamma[i];
        if (n.beta != nullptr) value += beta[i];
        y[i] = value;
      }
      Store(static_cast<T*>(n.y) + rows.row[r] * n.columns + c, Pack<T, V>::Of(y));
    }
  });
}

// Rows after rows, kParts blocks at most where weights are wanted: each block then has one partial
// sum a column, of its rows in their order.
template <typename T, typename S, bool kWeights>
__global__ void __launch_bounds__(S::kBlockSize, S::kHeld <= 3 && kWeights ? 4 : 1)
    Backward(NormBackward n) {
  constexpr int V = kWide<T>;
  constexpr int kAtOnce = kWeights ? 1 : kTogether;
  __shared__ float scratch[S::kThreads / kWarp][2 * kAtOnce];
  const int group = static_cast<int>(threadIdx.x) / S::kThreads;
  const float columns = static_cast<float>(n.columns);
  const bool scaled = n.gamma != nullptr && n.dx != nullptr;
  float dgamma[kWeights ? S::kHeld : 1][V] = {}, dbeta[kWeights ? S::kHeld : 1][V] = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kAtOnce * S::kGroups;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kAtOnce * S::kGroups; first < n.rows;
       first += step) {
    const RowsAtOnce<kAtOnce> rows(first + group, S::kGroups, n.rows);
    Pack<T, V> x[kAtOnce][S::kHeld], dy[kAtOnce][S::kHeld];
    Pack<T, V> early[kAtOnce][kWeights ? S::kHeld : 1];  // of the residual
    float mean[kAtOnce] = {}, rstd[kAtOnce] = {};
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (!rows.there[r]) continue;
      const int64_t at = rows.row[r] * n.columns;
      S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
        dy[r][h] = Load<V>(static_cast<const T*>(n.dy) + at + c);
        x[r][h] = Load<V>(static_cast<const T*>(n.x) + at + c);
        if constexpr (kWeights) {
          if (n.residual != nullptr) {
            early[r][h] = Load<V>(static_cast<const T*>(n.residual) + at + c);
          }
        }
      });
      mean[r] = n.centred ? n.mean[rows.row[r]] : 0.0f;
      rstd[r] = n.rstd[rows.row[r]];
    }
    float sums[2 * kAtOnce] = {};  // of g, of g * xhat
    S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
      Pack<T, V> gamma;
      if (scaled) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        if (!rows.there[r]) continue;
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float xhat = (x[r][h][i] - mean[r]) * rstd[r];
          const float g = scaled ? dy[r][h][i] * gamma[i] : dy[r][h][i];
          sums[2 * r] += g;
          sums[2 * r + 1] += g * xhat;
          if constexpr (kWeights) {
            dgamma[h][i] += dy[r][h][i] * xhat;
            dbeta[h][i] += dy[r][h][i];
          }
        }
      }
    });
    if (n.dx == nullptr) continue;
    SumOverRow<S::kThreads>(sums, scratch);
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
#pragma unroll
      for (int h = 0; h < S::kHeld; ++h) {
        Forget(x[r][h]);
        Forget(dy[r][h]);
      }
    }
    S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
      Pack<T, V> gamma;
      if (scaled) gamma = Load<V>(static_cast<const T*>(n.gamma) + c);
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        if (!rows.there[r]) continue;
        const int64_t at = rows.row[r] * n.columns + c;
        const float mean_g = n.centred ? sums[2 * r] / columns : 0.0f;
        const float mean_gx = sums[2 * r + 1] / columns;
        Pack<T, V> more;
        if constexpr (kWeights) {
          more = early[r][h];
        } else {
          if (n.residual != nullptr) more = Load<V>(static_cast<const T*>(n.residual) + at);
        }
        float dx[V];
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float xhat = (x[r][h][i] - mean[r]) * rstd[r];
          const float g = scaled ? dy[r][h][i] * gamma[i] : dy[r][h][i];
          float value = rstd[r] * (g - mean_g - xhat * mean_gx);
          if (n.residual != nullptr) value += more[i];
          dx[i] = value;
        }
        Store(static_cast<T*>(n.dx) + at, Pack<T, V>::Of(dx));
      }
    });
  }
  if constexpr (kWeights) {
    // The block's rows were spread over groups: their sums are added in the groups' order.
    extern __shared__ float sums[];  // [groups][2][columns]
    float* to = n.workspace + static_cast<int64_t>(blockIdx.x) * 2 * n.columns;
    float* own = S::kGroups > 1 ? sums + static_cast<int64_t>(group) * 2 * n.columns : to;
    S::template ForEach<V>(n.columns, [&](int h, int64_t c) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        own[c + i] = dgamma[h][i];
        own[n.columns + c + i] = dbeta[h][i];
      }
    });
    if constexpr (S::kGroups > 1) {
      __syncthreads();
      for (int64_t c = threadIdx.x; c < 2 * n.columns; c += S::kBlockSize) {
        float sum = 0;
        for (int g = 0; g < S::kGroups; ++g) sum += sums[g * 2 * n.columns + c];
        to[c] = sum;
      }
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
  const int output = static_cast<int>(blockIdx.y);
  if (s.to[output] == nullptr) return;
  float sum = 0;
  if (c < s.columns) {
#pragma unroll 4
    for (int64_t p = threadIdx.y; p < s.parts; p += kWarp) {
      sum += s.partials[(p * 2 + output) * s.columns + c];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= s.columns) return;
  double total = 0;
  for (int y = 0; y < kWarp; ++y) total += sums[y][threadIdx.x];
  auto value = static_cast<float>(total);
  if (s.add[output]) value += LoadAny(s.to[output], s.type, c);
  StoreAny(s.to[output], s.type, c, value);
}

// f of how rows are spread, or of void where they are not to be held.
template <typename T, typename F>
void ForSpread(int64_t columns, bool aligned, const F& f) {
  const int64_t packs = (columns + kWide<T> - 1) / kWide<T>;
  if (!aligned || columns % kWide<T> != 0 || columns < kShort || packs > 256 * 4) {
    f.template operator()<void>();
  } else if (packs <= kWarp * 3) {
    f.template operator()<Spread<kWarp, 3>>();
  } else if (packs <= 128 * 2) {
    f.template operator()<Spread<128, 2>>();
  } else if (packs <= 128 * 4) {
    f.template operator()<Spread<128, 4>>();
  } else {
    f.template operator()<Spread<256, 4>>();
  }
}

int64_t PartsOf(int64_t rows, int64_t a_block) {
  return std::min(kParts, std::max<int64_t>(1, (rows + a_block - 1) / a_block));
}

template <typename T, typename S>
int64_t LaunchBackward(const NormBackward& n, bool weights, cudaStream_t stream) {
  if (!weights) {
    Backward<T, S, false>
        <<<BlocksFor(n.rows, S::kGroups * kTogether), S::kBlockSize, 0, stream>>>(n);
    return 0;
  }
  const int64_t parts = PartsOf(n.rows, S::kGroups);
  const size_t shared =
      S::kGroups > 1 ? static_cast<size_t>(S::kGroups * 2 * n.columns) * sizeof(float) : 0;
  Backward<T, S, true><<<static_cast<unsigned>(parts), S::kBlockSize, shared, stream>>>(n);
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
    ForSpread<T>(n.columns, aligned, [&]<typename S>() {
      if constexpr (std::is_void_v<S>) {
        PlainForward<T><<<static_cast<unsigned>(n.rows), kBlock, 0, stream>>>(n);
      } else {
        Forward<T, S>
            <<<BlocksFor(n.rows, S::kGroups * kTogether), S::kBlockSize, 0, stream>>>(n);
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
  const cudaError_t code = ForFloat(n.type, [&]<typename T>(T) {
    ForSpread<T>(n.columns, aligned, [&]<typename S>() {
      if constexpr (std::is_void_v<S>) {
        parts = LaunchPlain<T>(n, weights, stream);
      } else {
        parts = LaunchBackward<T, S>(n, weights, stream);
      }
    });
    return cudaGetLastError();
  });
  if (!weights || code != cudaSuccess) return code;
  return Launch(PartialSums{n.workspace,
                            parts,
                            n.columns,
                            {n.dgamma, n.dbeta},
                            n.weight_type,
                            {n.add_dgamma, n.add_dbeta}},
                stream);
}

cudaError_t Launch(const PartialSums& s, cudaStream_t stream) {
  if (s.columns == 0) return cudaSuccess;
  AddPartials<<<dim3(BlocksFor(s.columns, kWarp), 2), dim3(kWarp, kWarp), 0, stream>>>(s);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
