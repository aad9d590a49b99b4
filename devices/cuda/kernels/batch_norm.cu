#include "openclaw/devices/cuda/kernels/batch_norm.h"

#include "openclaw/devices/cuda/kernels/columns.cuh"

namespace oc::cuda::kernels {
namespace {

// Sums of x and of the squares of its distance from the first row's value: what a large mean would
// cancel is not there.
template <typename T>
struct Moments {
  static constexpr int kSums = 2;
  static constexpr bool kCompensated = true;
  const T* x;
  template <int V>
  struct State {
    float pivot[V];
  };
  template <int V>
  using Item = Vec<T, V>;
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
    Load<V>(x + column, s.pivot);
  }
  template <int V>
  __device__ __forceinline__ void Fetch(int64_t at, Item<V>& item) const {
    item = LoadVec<T, V>(x + at);
  }
  template <int V>
  __device__ __forceinline__ void Sum(const State<V>& s, const Item<V>& item, float (&first)[V],
                                      float (&second)[V]) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      first[i] = ToFloat(item.v[i]);
      const float distance = first[i] - s.pivot[i];
      second[i] = distance * distance;
    }
  }
};

// Values of a column, f32: what an element is multiplied with and what is added.
struct Affine {
  const float *mean, *scale, *shift;
};

template <typename T>
struct Normalise {
  const T* x;
  T* y;
  Affine a;
  bool relu;
  template <int V>
  struct State {
    float mean[V], scale[V], shift[V];
  };
  template <int V>
  using Item = Vec<T, V>;
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.mean[i] = a.mean[column + i];
      s.scale[i] = a.scale[column + i];
      s.shift[i] = a.shift[column + i];
    }
  }
  template <int V>
  __device__ __forceinline__ void Fetch(int64_t at, Item<V>& item) const {
    item = LoadVec<T, V>(x + at);
  }
  template <int V>
  __device__ __forceinline__ void Apply(int64_t at, const State<V>& s, const Item<V>& item) const {
    float v[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      v[i] = (ToFloat(item.v[i]) - s.mean[i]) * s.scale[i] + s.shift[i];
      if (relu) v[i] = v[i] < 0 ? 0.0f : v[i];
    }
    Store<V>(y + at, v);
  }
};

// What both stages of the backward read. The gate of the fused relu is the forward's, bit by bit.
template <typename T>
struct GradInputs {
  const T *dy, *x, *gamma, *beta;
  const float *mean, *var;
  float eps;
  bool relu;
  template <int V>
  struct Gate {
    float mean[V], scale[V], shift[V];
  };
  template <int V>
  struct Item {
    Vec<T, V> dy, x;
  };
  __device__ __forceinline__ float Scale(int64_t c) const {
    return ToFloat(gamma[c]) / sqrtf(var[c] + eps);
  }
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, Gate<V>& s) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.mean[i] = mean[column + i];
      s.scale[i] = Scale(column + i);
      s.shift[i] = ToFloat(beta[column + i]);
    }
  }
  template <int V>
  __device__ __forceinline__ void Fetch(int64_t at, Item<V>& item) const {
    item.dy = LoadVec<T, V>(dy + at);
    item.x = LoadVec<T, V>(x + at);
  }
  // The gated gradient, and x less its mean.
  template <int V>
  __device__ __forceinline__ void Gated(const Gate<V>& s, const Item<V>& item, int i, float& g,
                                        float& centred) const {
    g = ToFloat(item.dy.v[i]);
    centred = ToFloat(item.x.v[i]) - s.mean[i];
    if (relu && !(centred * s.scale[i] + s.shift[i] > 0)) g = 0;
  }
};

template <typename T>
struct GradSums : GradInputs<T> {
  static constexpr int kSums = 2;
  static constexpr bool kCompensated = false;
  template <int V>
  using State = typename GradInputs<T>::template Gate<V>;
  template <int V>
  using Item = typename GradInputs<T>::template Item<V>;
  template <int V>
  __device__ __forceinline__ void Sum(const State<V>& s, const Item<V>& item, float (&first)[V],
                                      float (&second)[V]) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float centred;
      this->template Gated<V>(s, item, i, first[i], centred);
      second[i] = first[i] * centred;
    }
  }
};

// dx = scale (g - mean of g) - slope (x - mean of x).
template <typename T>
struct GradApply : GradInputs<T> {
  T* dx;
  const float *sum, *product;  // of a column: means over the rows of g, and of g (x - mean) / var
  template <int V>
  struct State {
    typename GradInputs<T>::template Gate<V> gate;
    float sum[V], slope[V];
  };
  template <int V>
  using Item = typename GradInputs<T>::template Item<V>;
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
    GradInputs<T>::template Begin<V>(column, s.gate);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.sum[i] = sum[column + i];
      s.slope[i] = product[column + i] * s.gate.scale[i];
    }
  }
  template <int V>
  __device__ __forceinline__ void Apply(int64_t at, const State<V>& s, const Item<V>& item) const {
    float v[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float g, centred;
      this->template Gated<V>(s.gate, item, i, g, centred);
      v[i] = s.gate.scale[i] * (g - s.sum[i]) - s.slope[i] * centred;
    }
    Store<V>(dx + at, v);
  }
};

// mean and var of a column, and what Normalise wants of it.
template <typename T>
__global__ void MomentsKernel(const T* x, const double* partial, int64_t rows, int64_t columns,
                              int chunks, const T* gamma, const T* beta, float eps, float* mean,
                              float* var, float* scale, float* shift) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= columns) return;
  const auto n = static_cast<double>(rows);
  const double average = ColumnTotal(partial, columns, chunks, c) / n;
  const double square =
      ColumnTotal(partial + static_cast<int64_t>(chunks) * columns, columns, chunks, c) / n;
  const double distance = average - static_cast<double>(ToFloat(x[c]));
  const auto v = static_cast<float>(fmax(square - distance * distance, 0.0));
  mean[c] = static_cast<float>(average);
  var[c] = v;
  scale[c] = ToFloat(gamma[c]) / sqrtf(v + eps);
  shift[c] = ToFloat(beta[c]);
}

template <typename T>
__global__ void FixedKernel(const float* given_mean, const float* given_var, int64_t columns,
                            const T* gamma, const T* beta, float eps, float* mean, float* var,
                            float* scale, float* shift) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= columns) return;
  const float v = given_var[c];
  mean[c] = given_mean[c];
  var[c] = v;
  scale[c] = ToFloat(gamma[c]) / sqrtf(v + eps);
  shift[c] = ToFloat(beta[c]);
}

template <typename R>
__global__ void GradSumsKernel(const double* partial, int64_t rows, int64_t columns, int chunks,
                               const float* var, float eps, R* dgamma, R* dbeta, float* sum,
                               float* product) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= columns) return;
  const auto n = static_cast<double>(rows), spread = static_cast<double>(var[c] + eps);
  const double first = ColumnTotal(partial, columns, chunks, c);
  const double second =
      ColumnTotal(partial + static_cast<int64_t>(chunks) * columns, columns, chunks, c);
  dbeta[c] = FromFloat<R>(static_cast<float>(first));
  dgamma[c] = FromFloat<R>(static_cast<float>(second / sqrt(spread)));
  sum[c] = static_cast<float>(first / n);
  product[c] = static_cast<float>(second / (n * spread));
}

unsigned ColumnBlocks(int64_t columns) { return static_cast<unsigned>(DivUp(columns, kThreads)); }

template <typename T>
bool IsWide(int64_t columns, const void* a, const void* b, const void* c) {
  return columns % kWide<T> == 0 && Aligned(a, 16) && Aligned(b, 16) && Aligned(c, 16);
}

}  // namespace

cudaError_t BatchNorm(const BatchNormShape& s, const void* x, const void* gamma, const void* beta,
                      void* y, float* mean, float* var, double* work, cudaStream_t stream) {
  if (s.columns == 0 || s.rows == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    const T* from = static_cast<const T*>(x);
    const bool wide = IsWide<T>(s.columns, x, y, nullptr);
    auto* const scale =
        reinterpret_cast<float*>(work + 2 * static_cast<int64_t>(s.chunks) * s.columns);
    float* const shift = scale + s.columns;
    cudaError_t code = ColumnPartials<kWide<T>>(Moments<T>{from}, wide, s.rows, s.columns, s.chunks,
                                                work, stream);
    if (code != cudaSuccess) return code;
    MomentsKernel<T><<<ColumnBlocks(s.columns), kThreads, 0, stream>>>(
        from, work, s.rows, s.columns, s.chunks, static_cast<const T*>(gamma),
        static_cast<const T*>(beta), s.eps, mean, var, scale, shift);
    code = cudaGetLastError();
    if (code != cudaSuccess) return code;
    return ColumnApply<kWide<T>>(
        Normalise<T>{from, static_cast<T*>(y), {mean, scale, shift}, s.relu}, wide, s.rows,
        s.columns, stream);
  });
}

cudaError_t BatchNormFixed(const BatchNormShape& s, const void* x, const void* gamma,
                           const void* beta, const float* given_mean, const float* given_var,
                           void* y, float* mean, float* var, double* work, cudaStream_t stream) {
  if (s.columns == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    auto* const scale = reinterpret_cast<float*>(work);
    float* const shift = scale + s.columns;
    FixedKernel<T><<<ColumnBlocks(s.columns), kThreads, 0, stream>>>(
        given_mean, given_var, s.columns, static_cast<const T*>(gamma),
        static_cast<const T*>(beta), s.eps, mean, var, scale, shift);
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) return code;
    return ColumnApply<kWide<T>>(
        Normalise<T>{static_cast<const T*>(x), static_cast<T*>(y), {mean, scale, shift}, s.relu},
        IsWide<T>(s.columns, x, y, nullptr), s.rows, s.columns, stream);
  });
}

cudaError_t BatchNormGrad(const BatchNormShape& s, const void* dy, const void* x, const void* gamma,
                          const void* beta, const float* mean, const float* var, void* dx,
                          Type sums, void* dgamma, void* dbeta, double* work, cudaStream_t stream) {
  if (s.columns == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    const bool wide = IsWide<T>(s.columns, dy, x, dx);
    const GradInputs<T> inputs = {static_cast<const T*>(dy),
                                  static_cast<const T*>(x),
                                  static_cast<const T*>(gamma),
                                  static_cast<const T*>(beta),
                                  mean,
                                  var,
                                  s.eps,
                                  s.relu};
    auto* const sum =
        reinterpret_cast<float*>(work + 2 * static_cast<int64_t>(s.chunks) * s.columns);
    float* const product = sum + s.columns;
    cudaError_t code = ColumnPartials<kWide<T>>(GradSums<T>{inputs}, wide, s.rows, s.columns,
                                                s.chunks, work, stream);
    if (code != cudaSuccess) return code;
    code = ForFloat(sums, [&]<typename R>(R) {
      GradSumsKernel<R><<<ColumnBlocks(s.columns), kThreads, 0, stream>>>(
          work, s.rows, s.columns, s.chunks, var, s.eps, static_cast<R*>(dgamma),
          static_cast<R*>(dbeta), sum, product);
      return cudaGetLastError();
    });
    if (code != cudaSuccess) return code;
    return ColumnApply<kWide<T>>(GradApply<T>{inputs, static_cast<T*>(dx), sum, product}, wide,
                                 s.rows, s.columns, stream);
  });
}

}  // namespace oc::cuda::kernels
