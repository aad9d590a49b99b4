#include "openclaw/devices/cuda/kernels/pools.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

__device__ __forceinline__ int Over(int n, const Quotient& by) {
  const auto whole = static_cast<uint32_t>(n);
  return static_cast<int>((__umulhi(whole, by.magic) + whole) >> by.shift);
}

// Position k of window o reads this element of the image.
__device__ __forceinline__ int PositionOf(const PoolAxis& a, int window, int k) {
  return window * a.stride - a.before + k;
}

// Windows first to last read `position`, the first of them with the largest k.
struct Readers {
  int first, last;
  __device__ __forceinline__ Readers(const PoolAxis& a, int position) {
    const int within = position + a.before;
    first = within < a.kernel ? 0 : Over(within - a.kernel, a.by_stride) + 1;
    last = min(a.outputs - 1, Over(within, a.by_stride));
  }
};

// Where a thread's pack of a pixel lies: blocks are rows of an image, one above the other in y.
struct Place {
  int64_t batch;
  int channel, h, w;
  bool within;

  __device__ __forceinline__ Place(const Pool& p, int width, int pack) {
    const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    w = Over(i, p.by_packs);
    channel = i * pack - w * static_cast<int>(p.channels);
    h = static_cast<int>(blockIdx.y);
    batch = p.first + blockIdx.z;
    within = w < width;
  }
};

__device__ __forceinline__ int64_t ImageAt(const Pool& p, const Place& at, int h, int w) {
  return ((at.batch * p.h.size + h) * p.w.size + w) * p.channels + at.channel;
}
__device__ __forceinline__ int64_t PooledAt(const Pool& p, const Place& at, int h, int w) {
  return ((at.batch * p.h.outputs + h) * p.w.outputs + w) * p.channels + at.channel;
}

// f(pack of the image, position within the window) for those within the image, in their order;
// several of a row are loaded before the first is used.
template <typename T, int V, typename F>
__device__ __forceinline__ void ForWindow(const Pool& p, const Place& at, const F& f) {
  constexpr int kAhead = 4;
  const T* image = static_cast<const T*>(p.from);
  for (int kh = 0; kh < p.h.kernel; ++kh) {
    const int h = PositionOf(p.h, at.h, kh);
    if (h < 0 || h >= p.h.size) continue;
    for (int first = 0; first < p.w.kernel; first += kAhead) {
      Pack<T, V> packs[kAhead];
      bool there[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int w = PositionOf(p.w, at.w, first + a);
        there[a] = first + a < p.w.kernel && w >= 0 && w < p.w.size;
        if (there[a]) packs[a] = Load<V>(image + ImageAt(p, at, h, w));
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (there[a]) f(packs[a], kh * p.w.kernel + first + a);
      }
    }
  }
}

// f(element of the pooled image, window, position within it) for the windows that read a pixel.
template <typename F>
__device__ __forceinline__ void ForReaders(const Pool& p, const Place& at, const F& f) {
  const Readers of_h(p.h, at.h), of_w(p.w, at.w);
  for (int h = of_h.first; h <= of_h.last; ++h) {
    const int kh = at.h + p.h.before - h * p.h.stride;
    for (int w = of_w.first; w <= of_w.last; ++w) {
      const int kw = at.w + p.w.before - w * p.w.stride;
      f(PooledAt(p, at, h, w), h, w, kh * p.w.kernel + kw);
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

// Of a pack's elements within their windows.
template <int V>
struct alignas(V) Positions {
  uint8_t at[V];
};

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) Maximum(Pool p) {
  const Place at(p, p.w.outputs, V);
  if (!at.within) return;
  float best[V];
  int index[V];
#pragma unroll
  for (int i = 0; i < V; ++i) index[i] = -1;
  ForWindow<T, V>(p, at, [&](const Pack<T, V>& pack, int position) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      // The first largest; what is no number wins, so that it is not hidden.
      const float x = pack[i];
      const bool wins = index[i] < 0 || (!(x <= best[i]) && best[i] == best[i]);
      best[i] = wins ? x : best[i];
      index[i] = wins ? position : index[i];
    }
  });
  const int64_t y = PooledAt(p, at, at.h, at.w);
  Positions<V> positions;
#pragma unroll
  for (int i = 0; i < V; ++i) positions.at[i] = static_cast<uint8_t>(index[i]);
  *reinterpret_cast<Positions<V>*>(p.index + y) = positions;
  Store(static_cast<T*>(p.to) + y, Pack<T, V>::Of(best));
}

// Adds those elements of dy whose window chose `position`: four positions are compared at once, and
// what was not chosen becomes 0.
template <typename T, int V>
__device__ __forceinline__ void AddChosen(float (&sum)[V], const Positions<V>& positions,
                                          const Pack<T, V>& dy, int position) {
  if constexpr (Pack<T, V>::kPairs && V % 4 == 0) {
    uint32_t words[V / 4];
    memcpy(words, &positions, sizeof(words));
#pragma unroll
    for (int w = 0; w < V / 4; ++w) {
      const uint32_t chosen = __vcmpeq4(words[w], static_cast<uint32_t>(position) * 0x01010101u);
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t mask = __byte_perm(chosen, 0, pair == 0 ? 0x1100 : 0x3322);
        const uint32_t kept = dy.words[w * 2 + pair] & mask;
        sum[w * 4 + pair * 2] += OfPair(kept, false, T{});
        sum[w * 4 + pair * 2 + 1] += OfPair(kept, true, T{});
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += positions.at[i] == position ? dy[i] : 0.0f;
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) MaximumGrad(Pool p) {
  const Place at(p, p.w.size, V);
  if (!at.within) return;
  float sum[V] = {};
  const T* dy = static_cast<const T*>(p.from);
  const Readers of_h(p.h, at.h), of_w(p.w, at.w);
  if (of_h.last - of_h.first < 2 && of_w.last - of_w.first < 2) {
    // Most pools: all that reads the pixel is loaded before the first is used.
    Positions<V> positions[4];
    Pack<T, V> packs[4];
    int position[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int h = of_h.first + r / 2, w = of_w.first + r % 2;
      position[r] = -1;
      if (h > of_h.last || w > of_w.last) continue;
      const int64_t row = ((at.batch * p.h.outputs + h) * p.w.outputs) * p.channels;
      const int64_t y = row + (w * static_cast<int>(p.channels) + at.channel);
      position[r] = (at.h + p.h.before - h * p.h.stride) * p.w.kernel + at.w + p.w.before -
                    w * p.w.stride;
      positions[r] = *reinterpret_cast<const Positions<V>*>(p.index + y);
      packs[r] = Load<V>(dy + y);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (position[r] >= 0) AddChosen(sum, positions[r], packs[r], position[r]);
    }
  } else {
    ForReaders(p, at, [&](int64_t y, int, int, int position) {
      AddChosen(sum, *reinterpret_cast<const Positions<V>*>(p.index + y), Load<V>(dy + y),
                position);
    });
  }
  Store(static_cast<T*>(p.to) + ImageAt(p, at, at.h, at.w), Pack<T, V>::Of(sum));
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) Mean(Pool p) {
  const Place at(p, p.w.outputs, V);
  if (!at.within) return;
  float sum[V] = {};
  ForWindow<T, V>(p, at, [&](const Pack<T, V>& pack, int) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += pack[i];
  });
  const float divisor = DivisorOf(p, at.h, at.w);
#pragma unroll
  for (int i = 0; i < V; ++i) sum[i] /= divisor;
  Store(static_cast<T*>(p.to) + PooledAt(p, at, at.h, at.w), Pack<T, V>::Of(sum));
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) MeanGrad(Pool p) {
  const Place at(p, p.w.size, V);
  if (!at.within) return;
  float sum[V] = {};
  ForReaders(p, at, [&](int64_t y, int h, int w, int) {
    const Pack<T, V> dy = Load<V>(static_cast<const T*>(p.from) + y);
    const float divisor = DivisorOf(p, h, w);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += dy[i] / divisor;
  });
  Store(static_cast<T*>(p.to) + ImageAt(p, at, at.h, at.w), Pack<T, V>::Of(sum));
}

template <typename T, int V>
cudaError_t LaunchOf(const Pool& pool, cudaStream_t stream) {
  const bool forward = pool.what == Pool::What::kMax || pool.what == Pool::What::kMean;
  const int height = forward ? pool.h.outputs : pool.h.size;
  const int64_t items = (forward ? pool.w.outputs : pool.w.size) * (pool.channels / V);
  // A grid has as many layers.
  constexpr int64_t kMostImages = 65535;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(kThreads, DivUp(items, 32) * 32));
  for (int64_t first = 0; first < pool.batch; first += kMostImages) {
    Pool p = pool;
    p.first = first;
    p.by_packs = Quotient(pool.channels / V);
    const dim3 grid(BlocksFor(items, threads), static_cast<unsigned>(height),
                    static_cast<unsigned>(std::min(kMostImages, pool.batch - first)));
    switch (p.what) {
      case Pool::What::kMax:
        Maximum<T, V><<<grid, threads, 0, stream>>>(p);
        break;
      case Pool::What::kMaxGrad:
        MaximumGrad<T, V><<<grid, threads, 0, stream>>>(p);
        break;
      case Pool::What::kMean:
        Mean<T, V><<<grid, threads, 0, stream>>>(p);
        break;
      case Pool::What::kMeanGrad:
        MeanGrad<T, V><<<grid, threads, 0, stream>>>(p);
        break;
    }
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t Launch(const Pool& p, cudaStream_t stream) {
  if (p.batch == 0 || p.channels == 0) return cudaSuccess;
  return ForFloat(p.type, [&]<typename T>(T) {
    const bool wide = AreAligned(p.from, p.to, p.index) && p.channels % kWide<T> == 0;
    return wide ? LaunchOf<T, kWide<T>>(p, stream) : LaunchOf<T, 1>(p, stream);
  });
}

}  // namespace oc::cuda::kernels
