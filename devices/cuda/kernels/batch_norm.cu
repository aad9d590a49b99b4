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
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
    kernels::Load<V>(x + column, s.pivot);
  }
  template <int V>
  __device__ __forceinline__ void Load(int64_t at, const State<V>& s, float (&first)[V],
                                       float (&second)[V]) const {
    kernels::Load<V>(x + at, first);
#pragma unroll
    for (int i = 0; i < V; ++i) {
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
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.mean[i] = a.mean[column + i];
      s.scale[i] = a.scale[column + i];
      s.shift[i] = a.shift[column + i];
    }
  }
  template <int V>
  __device__ __forceinline__ void Apply(int64_t at, const State<V>& s) const {
    float v[V];
    kernels::Load<V>(x + at, v);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      v[i] = (v[i] - s.mean[i]) * s.scale[i] + s.shift[i];
      if (relu) v[i] = v[i] < 0 ? 0.0f : v[i];
    }
    Store<V>(y + at, v);
  }
};

// Of a column: gamma * rstd, and what the gate of the fused relu needs.
template <typename T>
struct GradInputs {
  const T *dy, *x, *gamma, *beta;
  const float *mean, *var;
  float eps;
  bool relu;
  template <int V>
  struct State {
    float mean[V], rstd[V], gamma[V], beta[V];
  };
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.mean[i] = mean[column + i];
      s.rstd[i] = 1.0f / sqrtf(var[column + i] + eps);
      s.gamma[i] = ToFloat(gamma[column + i]);
      s.beta[i] = ToFloat(beta[column + i]);
    }
  }
  // The gated gradient and the normalised x.
  template <int V>
  __device__ __forceinline__ void Gated(int64_t at, const State<V>& s, float (&g)[V],
                                        float (&normal)[V]) const {
    kernels::Load<V>(dy + at, g);
    kernels::Load<V>(x + at, normal);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      normal[i] = (normal[i] - s.mean[i]) * s.rstd[i];
      if (relu && !(normal[i] * s.gamma[i] + s.beta[i] > 0)) g[i] = 0;
    }
  }
};

template <typename T>
struct GradSums : GradInputs<T> {
  static constexpr int kSums = 2;
  static constexpr bool kCompensated = false;
  template <int V>
  using State = typename GradInputs<T>::template State<V>;
  template <int V>
  __device__ __forceinline__ void Load(int64_t at, const State<V>& s, float (&first)[V],
                                       float (&second)[V]) const {
    float normal[V];
    this->template Gated<V>(at, s, first, normal);
#pragma unroll
    for (int i = 0; i < V; ++i) second[i] = first[i] * normal[i];
  }
};

template <typename T>
struct GradApply : GradInputs<T> {
  T* dx;
  const float *sum, *product;  // means over the rows of g and of g * normalised x
  template <int V>
  struct State : GradInputs<T>::template State<V> {
    float sum[V], product[V];
  };
  template <int V>
  __device__ __forceinline__ void Begin(int64_t column, State<V>& s) const {
    GradInputs<T>::template Begin<V>(column, s);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      s.sum[i] = sum[column + i];
      s.product[i] = product[column + i];
    }
  }
  template <int V>
  __device__ __forceinline__ void Apply(int64_t at, const State<V>& s) const {
    float g[V], normal[V];
    this->template Gated<V>(at, s, g, normal);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      g[i] = s.gamma[i] * s.rstd[i] * (g[i] - s.sum[i] - normal[i] * s.product[i]);
    }
    Store<V>(dx + at, g);
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
                               R* dgamma, R* dbeta, float* sum, float* product) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= columns) return;
  const auto first = static_cast<float>(ColumnTotal(partial, columns, chunks, c));
  const auto second = static_cast<float>(
      ColumnTotal(partial + static_cast<int64_t>(chunks) * columns, columns, chunks, c));
  dbeta[c] = FromFloat<R>(first);
  dgamma[c] = FromFloat<R>(second);
  sum[c] = first / static_cast<float>(rows);
  product[c] = second / static_cast<float>(rows);
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
          work, s.rows, s.columns, s.chunks, static_cast<R*>(dgamma), static_cast<R*>(dbeta), sum,
          product);
      return cudaGetLastError();
    });
    if (code != cudaSuccess) return code;
    return ColumnApply<kWide<T>>(GradApply<T>{inputs, static_cast<T*>(dx), sum, product}, wide,
                                 s.rows, s.columns, stream);
  });
}

}  // namespace oc::cuda::kernels
