#include "openclaw/devices/cuda/kernels/pools.h"

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

// Position k of window o reads this element of the image.
__device__ __forceinline__ int PositionOf(const PoolAxis& a, int window, int k) {
  return window * a.stride - a.before + k * a.dilation;
}
// The window whose position k reads `position`; -1 where there is none.
__device__ __forceinline__ int WindowOf(const PoolAxis& a, int position, int k) {
  const int start = position + a.before - k * a.dilation;
  if (start < 0 || start % a.stride != 0) return -1;
  const int window = start / a.stride;
  return window < a.outputs ? window : -1;
}

// Where a thread's pack of `height` by `width` pixels lies.
struct Place {
  int64_t batch, channel;
  int h, w;
  bool within;

  __device__ __forceinline__ Place(const Pool& p, int height, int width, int pack) {
    const int64_t packs = p.channels / pack;
    int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    channel = i % packs * pack;
    i /= packs;
    w = static_cast<int>(i % width);
    i /= width;
    h = static_cast<int>(i % height);
    batch = i / height;
    within = batch < p.batch;
  }
};

__device__ __forceinline__ int64_t ImageAt(const Pool& p, const Place& at, int h, int w) {
  return ((at.batch * p.h.size + h) * p.w.size + w) * p.channels + at.channel;
}
__device__ __forceinline__ int64_t PooledAt(const Pool& p, const Place& at, int h, int w) {
  return ((at.batch * p.h.outputs + h) * p.w.outputs + w) * p.channels + at.channel;
}

// f(element of the image, position within the window) for those within the image.
template <typename F>
__device__ __forceinline__ void ForWindow(const Pool& p, const Place& at, const F& f) {
  for (int kh = 0; kh < p.h.kernel; ++kh) {
    const int h = PositionOf(p.h, at.h, kh);
    if (h < 0 || h >= p.h.size) continue;
    for (int kw = 0; kw < p.w.kernel; ++kw) {
      const int w = PositionOf(p.w, at.w, kw);
      if (w >= 0 && w < p.w.size) f(ImageAt(p, at, h, w), kh * p.w.kernel + kw);
    }
  }
}

// f(element of the pooled image, window, position within it) for the windows that read a pixel.
template <typename F>
__device__ __forceinline__ void ForReaders(const Pool& p, const Place& at, const F& f) {
  for (int kh = 0; kh < p.h.kernel; ++kh) {
    const int h = WindowOf(p.h, at.h, kh);
    if (h < 0) continue;
    for (int kw = 0; kw < p.w.kernel; ++kw) {
      const int w = WindowOf(p.w, at.w, kw);
      if (w >= 0) f(PooledAt(p, at, h, w), h, w, kh * p.w.kernel + kw);
    }
  }
}

// Of one direction: the positions of a window that lie within the image.
__device__ __forceinline__ int WithinOf(const PoolAxis& a, int window) {
  int count = 0;
  for (int k = 0; k < a.kernel; ++k) {
    const int position = PositionOf(a, window, k);
    count += position >= 0 && position < a.size ? 1 : 0;
  }
  return count;
}
__device__ __forceinline__ float DivisorOf(const Pool& p, int h, int w) {
  return p.count_padding ? static_cast<float>(p.h.kernel * p.w.kernel)
                         : static_cast<float>(WithinOf(p.h, h) * WithinOf(p.w, w));
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) Maximum(Pool p) {
  const Place at(p, p.h.outputs, p.w.outputs, V);
  if (!at.within) return;
  float best[V];
  int index[V];
#pragma unroll
  for (int i = 0; i < V; ++i) index[i] = -1;
  ForWindow(p, at, [&](int64_t x, int position) {
    const Pack<T, V> pack = Load<V>(static_cast<const T*>(p.from) + x);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      // The first largest; what is no number wins, so that it is not hidden.
      const bool wins = index[i] < 0 || pack[i] > best[i] || (isnan(pack[i]) && !isnan(best[i]));
      best[i] = wins ? pack[i] : best[i];
      index[i] = wins ? position : index[i];
    }
  });
  const int64_t y = PooledAt(p, at, at.h, at.w);
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    out.Set(i, best[i]);
    p.index[y + i] = static_cast<uint8_t>(index[i]);
  }
  Store(static_cast<T*>(p.to) + y, out);
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) MaximumGrad(Pool p) {
  const Place at(p, p.h.size, p.w.size, V);
  if (!at.within) return;
  float sum[V] = {};
  ForReaders(p, at, [&](int64_t y, int, int, int position) {
    const Pack<T, V> dy = Load<V>(static_cast<const T*>(p.from) + y);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += p.index[y + i] == position ? dy[i] : 0.0f;
  });
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.Set(i, sum[i]);
  Store(static_cast<T*>(p.to) + ImageAt(p, at, at.h, at.w), out);
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) Mean(Pool p) {
  const Place at(p, p.h.outputs, p.w.outputs, V);
  if (!at.within) return;
  float sum[V] = {};
  ForWindow(p, at, [&](int64_t x, int) {
    const Pack<T, V> pack = Load<V>(static_cast<const T*>(p.from) + x);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += pack[i];
  });
  const float divisor = DivisorOf(p, at.h, at.w);
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.Set(i, sum[i] / divisor);
  Store(static_cast<T*>(p.to) + PooledAt(p, at, at.h, at.w), out);
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) MeanGrad(Pool p) {
  const Place at(p, p.h.size, p.w.size, V);
  if (!at.within) return;
  float sum[V] = {};
  ForReaders(p, at, [&](int64_t y, int h, int w, int) {
    const Pack<T, V> dy = Load<V>(static_cast<const T*>(p.from) + y);
    const float divisor = DivisorOf(p, h, w);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += dy[i] / divisor;
  });
  Pack<T, V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.Set(i, sum[i]);
  Store(static_cast<T*>(p.to) + ImageAt(p, at, at.h, at.w), out);
}

template <typename T, int V>
void LaunchOf(const Pool& p, cudaStream_t stream) {
  const bool forward = p.what == Pool::What::kMax || p.what == Pool::What::kMean;
  const int64_t pixels = forward ? static_cast<int64_t>(p.h.outputs) * p.w.outputs
                                 : static_cast<int64_t>(p.h.size) * p.w.size;
  const unsigned blocks = BlocksFor(p.batch * pixels * (p.channels / V), kThreads);
  if (blocks == 0) return;
  switch (p.what) {
    case Pool::What::kMax:
      Maximum<T, V><<<blocks, kThreads, 0, stream>>>(p);
      break;
    case Pool::What::kMaxGrad:
      MaximumGrad<T, V><<<blocks, kThreads, 0, stream>>>(p);
      break;
    case Pool::What::kMean:
      Mean<T, V><<<blocks, kThreads, 0, stream>>>(p);
      break;
    case Pool::What::kMeanGrad:
      MeanGrad<T, V><<<blocks, kThreads, 0, stream>>>(p);
      break;
  }
}

}  // namespace

cudaError_t Launch(const Pool& p, cudaStream_t stream) {
  return ForFloat(p.type, [&]<typename T>(T) {
    if (AreAligned(p.from, p.to) && p.channels % kWide<T> == 0) {
      LaunchOf<T, kWide<T>>(p, stream);
    } else {
      LaunchOf<T, 1>(p, stream);
    }
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
