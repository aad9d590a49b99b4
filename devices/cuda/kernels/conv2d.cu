#include "openclaw/devices/cuda/kernels/conv2d.h"

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {
namespace {

// A thread an output element.
template <typename T>
__global__ void ForwardKernel(const ConvShape s, const T* x, const T* w, const T* bias, T* y,
                              int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t o = i % s.out, ow = i / s.out % s.out_width;
  const int64_t oh = i / (s.out * s.out_width) % s.out_height;
  const int64_t b = i / (s.out * s.out_width * s.out_height);
  const int64_t first = o / (s.out / s.groups) * s.in_group;
  float sum = 0;
  for (int64_t kh = 0; kh < s.tap_rows; ++kh) {
    const int64_t h = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
    if (h < 0 || h >= s.height) continue;
    for (int64_t kw = 0; kw < s.tap_columns; ++kw) {
      const int64_t column = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
      if (column < 0 || column >= s.width) continue;
      const T* from = x + ((b * s.height + h) * s.width + column) * s.in + first;
      const T* weight = w + (o * s.in_group * s.tap_rows + kh) * s.tap_columns + kw;
      for (int64_t c = 0; c < s.in_group; ++c) {
        sum += ToFloat(from[c]) * ToFloat(weight[c * s.tap_rows * s.tap_columns]);
      }
    }
  }
  if (bias != nullptr) sum += ToFloat(bias[o]);
  y[i] = FromFloat<T>(sum);
}

// The output that reads `position` with tap k; -1 where there is none.
__device__ __forceinline__ int64_t Reader(int64_t position, int64_t k, int64_t stride, int64_t pad,
                                          int64_t dilation, int64_t outputs) {
  const int64_t start = position + pad - k * dilation;
  if (start < 0 || start % stride != 0 || start / stride >= outputs) return -1;
  return start / stride;
}

// A thread an input element.
template <typename T>
__global__ void GradInputKernel(const ConvShape s, const T* dy, const T* w, T* dx, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t c = i % s.in, column = i / s.in % s.width;
  const int64_t h = i / (s.in * s.width) % s.height, b = i / (s.in * s.width * s.height);
  const int64_t group = c / s.in_group, out_group = s.out / s.groups;
  float sum = 0;
  for (int64_t kh = 0; kh < s.tap_rows; ++kh) {
    const int64_t oh = Reader(h, kh, s.stride_h, s.pad_top, s.dilation_h, s.out_height);
    if (oh < 0) continue;
    for (int64_t kw = 0; kw < s.tap_columns; ++kw) {
      const int64_t ow = Reader(column, kw, s.stride_w, s.pad_left, s.dilation_w, s.out_width);
      if (ow < 0) continue;
      const T* from = dy + ((b * s.out_height + oh) * s.out_width + ow) * s.out + group * out_group;
      for (int64_t o = 0; o < out_group; ++o) {
        const int64_t at = ((group * out_group + o) * s.in_group + c % s.in_group) * s.tap_rows + kh;
        sum += ToFloat(from[o]) * ToFloat(w[at * s.tap_columns + kw]);
      }
    }
  }
  dx[i] = FromFloat<T>(sum);
}

// A block a weight.
template <typename T, typename R>
__global__ void __launch_bounds__(kThreads)
    GradWeightKernel(const ConvShape s, const T* dy, const T* x, bool accumulate, R* dw) {
  __shared__ float shared[32];
  const int64_t i = blockIdx.x;
  const int64_t kw = i % s.tap_columns, kh = i / s.tap_columns % s.tap_rows;
  const int64_t c = i / (s.tap_columns * s.tap_rows) % s.in_group;
  const int64_t o = i / (s.tap_columns * s.tap_rows * s.in_group);
  const int64_t channel = o / (s.out / s.groups) * s.in_group + c;
  const int64_t pixels = s.batch * s.out_height * s.out_width;
  float sum = 0;
  for (int64_t p = threadIdx.x; p < pixels; p += kThreads) {
    const int64_t ow = p % s.out_width, oh = p / s.out_width % s.out_height;
    const int64_t b = p / (s.out_width * s.out_height);
    const int64_t h = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
    const int64_t column = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
    if (h < 0 || h >= s.height || column < 0 || column >= s.width) continue;
    sum += ToFloat(dy[p * s.out + o]) *
           ToFloat(x[((b * s.height + h) * s.width + column) * s.in + channel]);
  }
  sum = BlockSum<kThreads>(sum, shared);
  if (threadIdx.x != 0) return;
  if (accumulate) sum += ToFloat(dw[i]);
  dw[i] = FromFloat<R>(sum);
}

// to[o][c][r] = from[o][r][c].
template <typename A, typename R>
__global__ void WeightsKernel(const A* from, R* to, int64_t n, int64_t rows, int64_t columns,
                              bool accumulate) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t r = i % rows, c = i / rows % columns, o = i / (rows * columns);
  float value = ToFloat(from[(o * rows + r) * columns + c]);
  if (accumulate) value += ToFloat(to[i]);
  to[i] = FromFloat<R>(value);
}

unsigned Blocks(int64_t n) { return static_cast<unsigned>(DivUp(n, kThreads)); }

}  // namespace

cudaError_t Conv2d(const ConvShape& s, const void* x, const void* w, const void* bias, void* y,
                   cudaStream_t stream) {
  const int64_t n = s.y_elements();
  if (n == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    ForwardKernel<T><<<Blocks(n), kThreads, 0, stream>>>(
        s, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(bias),
        static_cast<T*>(y), n);
    return cudaGetLastError();
  });
}

cudaError_t Conv2dGradInput(const ConvShape& s, const void* dy, const void* w, void* dx,
                            cudaStream_t stream) {
  const int64_t n = s.x_elements();
  if (n == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    GradInputKernel<T><<<Blocks(n), kThreads, 0, stream>>>(
        s, static_cast<const T*>(dy), static_cast<const T*>(w), static_cast<T*>(dx), n);
    return cudaGetLastError();
  });
}

cudaError_t Conv2dGradWeight(const ConvShape& s, const void* dy, const void* x, Type sum,
                             bool accumulate, void* dw, cudaStream_t stream) {
  if (s.w_elements() == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    const auto launch = [&]<typename R>(R) {
      GradWeightKernel<T, R><<<static_cast<unsigned>(s.w_elements()), kThreads, 0, stream>>>(
          s, static_cast<const T*>(dy), static_cast<const T*>(x), accumulate, static_cast<R*>(dw));
      return cudaGetLastError();
    };
    return sum == Type::kF32 ? launch(float{}) : launch(T{});
  });
}

cudaError_t WeightsToLibrary(Type type, const void* from, void* to, int64_t out, int64_t in,
                             int64_t taps, cudaStream_t stream) {
  const int64_t n = out * in * taps;
  if (n == 0) return cudaSuccess;
  return ForFloat(type, [&]<typename T>(T) {
    WeightsKernel<T, T><<<Blocks(n), kThreads, 0, stream>>>(
        static_cast<const T*>(from), static_cast<T*>(to), n, in, taps, false);
    return cudaGetLastError();
  });
}

cudaError_t WeightsFromLibrary(Type from_type, Type to_type, const void* from, void* to,
                               int64_t out, int64_t in, int64_t taps, bool accumulate,
                               cudaStream_t stream) {
  const int64_t n = out * in * taps;
  if (n == 0) return cudaSuccess;
  return ForFloat(from_type, [&]<typename A>(A) {
    const auto launch = [&]<typename R>(R) {
      WeightsKernel<A, R><<<Blocks(n), kThreads, 0, stream>>>(
          static_cast<const A*>(from), static_cast<R*>(to), n, taps, in, accumulate);
      return cudaGetLastError();
    };
    return to_type == Type::kF32 ? launch(float{}) : launch(A{});
  });
}

}  // namespace oc::cuda::kernels
