#include "openclaw/devices/cuda/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int kRow = 512;     // threads of a block with a long row
constexpr int kAhead = 4;     // packs that a thread loads before it uses the first
constexpr int kMostShared = 112 << 10;  // two blocks a multiprocessor

// A largest value so far and the sum of e^(x - largest).
struct Partial {
  float largest = -INFINITY;
  float sum = 0;
};

struct MergeOf {
  __device__ __forceinline__ Partial operator()(Partial a, Partial b) const {
    const float largest = fmaxf(a.largest, b.largest);
    if (largest == -INFINITY) return {largest, a.sum + b.sum};
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
  }
};

__device__ __forceinline__ Partial MergeInWarp(Partial p) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Partial other = {__shfl_xor_sync(0xffffffffu, p.largest, step),
                           __shfl_xor_sync(0xffffffffu, p.sum, step)};
    // The same two operands in the same order on both sides.
    p = (threadIdx.x & step) != 0 ? MergeOf()(other, p) : MergeOf()(p, other);
  }
  return p;
}

template <int kThreads>
__device__ __forceinline__ Partial MergeInRow(Partial p, Partial* scratch) {
  p = MergeInWarp(p);
  if constexpr (kThreads == kWarp) return p;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = p;
  __syncthreads();
  p = scratch[0];
#pragma unroll
  for (int w = 1; w < kThreads / kWarp; ++w) p = MergeOf()(p, scratch[w]);
  return p;
}

// Takes up a few packs: one rescaling for all of them.
template <typename T, int V, int N>
__device__ __forceinline__ void TakeUp(Partial& p, const Pack<T, V> (&packs)[N]) {
  const float largest = MaxOf(packs);
  if (largest > p.largest) {
    p.sum *= Exp<T>(p.largest - largest);
    p.largest = largest;
  }
  if (p.largest == -INFINITY) return;
  float sums[2] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < V; ++i) sums[i % 2] += Exp<T>(packs[n][i] - p.largest);
  }
  p.sum += sums[0] + sums[1];
}

// Of the thread's packs of a row, pack p being load(p).
template <typename T, int V, int kThreads, typename F>
__device__ __forceinline__ Partial PartialOf(int64_t packs, int lane, const F& load) {
  Partial partial;
  int64_t p = lane;
  for (; p + (kAhead - 1) * kThreads < packs; p += kAhead * kThreads) {
    Pack<T, V> ahead[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) ahead[a] = load(p + a * kThreads);
    TakeUp(partial, ahead);
  }
  for (; p < packs; p += kThreads) {
    const Pack<T, V> one[1] = {load(p)};
    TakeUp(partial, one);
  }
  return partial;
}

// f(pack, first column) for the packs of a row that the thread has, several loaded ahead.
template <typename T, int V, int kThreads, typename F>
__device__ __forceinline__ void ForPacks(const T* row, int64_t columns, int lane, const F& f) {
  const int64_t stride = static_cast<int64_t>(kThreads) * V;
  int64_t c = static_cast<int64_t>(lane) * V;
  for (; c + (kAhead - 1) * stride < columns; c += kAhead * stride) {
    Pack<T, V> packs[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) packs[a] = Load<V>(row + c + a * stride);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) f(packs[a], c + a * stride);
  }
  for (; c < columns; c += stride) f(Load<V>(row + c), c);
}

template <typename T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kThreads) SoftmaxRows(Softmax s) {
  __shared__ Partial scratch[kThreads / kWarp];
  const int lane = threadIdx.x % kThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kThreads) +
                      threadIdx.x / kThreads;
  if (row >= s.rows) return;
  const T* x = static_cast<const T*>(s.x) + row * s.columns;
  T* to = static_cast<T*>(s.to) + row * s.columns;
  const Partial p = MergeInRow<kThreads>(
      PartialOf<T, V, kThreads>(s.columns / V, lane, [&](int64_t i) { return Load<V>(x + i * V); }),
      scratch);
  const float scale = 1.0f / p.sum;
  ForPacks<T, V, kThreads>(x, s.columns, lane, [&](const Pack<T, V>& pack, int64_t c) {
    float y[V];
#pragma unroll
    for (int i = 0; i < V; ++i) y[i] = Exp<T>(pack[i] - p.largest) * scale;
    Store(to + c, Pack<T, V>::Of(y));
  });
}

template <typename T, int V, int kThreads>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kThreads) SoftmaxGradRows(Softmax s) {
  __shared__ float scratch[kThreads / kWarp];
  const int lane = threadIdx.x % kThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kThreads) +
                      threadIdx.x / kThreads;
  if (row >= s.rows) return;
  const T* dy = static_cast<const T*>(s.x) + row * s.columns;
  const T* y = static_cast<const T*>(s.y) + row * s.columns;
  T* to = static_cast<T*>(s.to) + row * s.columns;
  float dot = 0;
  ForPacks<T, V, kThreads>(dy, s.columns, lane, [&](const Pack<T, V>& pack, int64_t c) {
    const Pack<T, V> other = Load<V>(y + c);
#pragma unroll
    for (int i = 0; i < V; ++i) dot += pack[i] * other[i];
  });
  dot = RowReduce<kThreads>(dot, scratch, AddOf());
  ForPacks<T, V, kThreads>(dy, s.columns, lane, [&](const Pack<T, V>& pack, int64_t c) {
    const Pack<T, V> other = Load<V>(y + c);
    float dx[V];
#pragma unroll
    for (int i = 0; i < V; ++i) dx[i] = other[i] * (pack[i] - dot);
    Store(to + c, Pack<T, V>::Of(dx));
  });
}

// The row's label; -1 where it counts nothing.
__device__ __forceinline__ int64_t LabelOf(const Labels& labels, int64_t row, int64_t classes,
                                           bool tell) {
  const int label = labels.values[row];
  if (label == labels.ignored) return -1;
  if (label >= 0 && label < classes) return label;
  if (tell) ReportBad(labels.flags, row, label);
  return -1;
}

template <typename T, int V>
__global__ void __launch_bounds__(kRow) EntropyRows(CrossEntropy e) {
  __shared__ Partial scratch[kRow / kWarp];
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(e.logits) + row * e.classes;
  const Partial p = MergeInRow<kRow>(
      PartialOf<T, V, kRow>(e.classes / V, static_cast<int>(threadIdx.x),
                            [&](int64_t i) { return Load<V>(logits + i * V); }),
      scratch);
  if (threadIdx.x != 0) return;
  const float lse = p.largest + logf(p.sum);
  const int64_t label = LabelOf(e.labels, row, e.classes, true);
  e.lse[row] = lse;
  e.losses[row] = label >= 0 ? lse - ToFloat(logits[label]) : 0.0f;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> GradOf(const Pack<T, V>& pack, int64_t c, float dloss,
                                             float lse, int64_t label) {
  float d[V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const float target = c + i == label ? 1.0f : 0.0f;
    d[i] = dloss * (Exp<T>(pack[i] - lse) - target);
  }
  return Pack<T, V>::Of(d);
}

template <typename T, int V>
__global__ void __launch_bounds__(kRow) EntropyGradRows(CrossEntropyGrad e) {
  const int64_t row = blockIdx.x, at = row * e.classes;
  T* to = static_cast<T*>(e.dlogits) + at;
  const int64_t label = LabelOf(e.labels, row, e.classes, threadIdx.x == 0);
  const float dloss = label >= 0 ? e.dloss[0] : 0.0f, lse = e.lse[row];
  ForPacks<T, V, kRow>(static_cast<const T*>(e.logits) + at, e.classes,
                       static_cast<int>(threadIdx.x), [&](const Pack<T, V>& pack, int64_t c) {
                         Store(to + c, label >= 0 ? GradOf(pack, c, dloss, lse, label)
                                                  : Pack<T, V>::Zero());
                       });
}

__device__ __forceinline__ void CopyAsync(void* shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from));
}

// The row waits in shared memory for its sum: it is read once and written once.
template <typename T>
__global__ void __launch_bounds__(kRow) EntropyTogether(CrossEntropy e, CrossEntropyGrad g) {
  constexpr int V = kWide<T>;
  extern __shared__ uint4 held[];
  __shared__ Partial scratch[kRow / kWarp];
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(e.logits) + row * e.classes;
  T* to = static_cast<T*>(g.dlogits) + row * e.classes;
  const int packs = static_cast<int>(e.classes / V);
  // A thread reads what it copied: no barrier is needed for the row itself.
  for (int p = static_cast<int>(threadIdx.x); p < packs; p += kRow) {
    CopyAsync(&held[p], logits + static_cast<int64_t>(p) * V);
  }
  asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
  const auto pack_at = [&](int64_t p) {
    Pack<T, V> pack;
    memcpy(&pack, &held[p], sizeof(pack));
    return pack;
  };
  const Partial partial = MergeInRow<kRow>(
      PartialOf<T, V, kRow>(packs, static_cast<int>(threadIdx.x), pack_at), scratch);
  const float lse = partial.largest + logf(partial.sum);
  const int64_t label = LabelOf(e.labels, row, e.classes, threadIdx.x == 0);
  if (threadIdx.x == 0) {
    e.lse[row] = lse;
    // From shared memory: the row may be overwritten by then.
    const T* copied = reinterpret_cast<const T*>(held);
    e.losses[row] = label >= 0 ? lse - ToFloat(copied[label]) : 0.0f;
  }
  const float dloss = label >= 0 ? g.dloss[0] : 0.0f;
  for (int p = static_cast<int>(threadIdx.x); p < packs; p += kRow) {
    const int64_t c = static_cast<int64_t>(p) * V;
    Store(to + c,
          label >= 0 ? GradOf(pack_at(p), c, dloss, lse, label) : Pack<T, V>::Zero());
  }
}

__global__ void __launch_bounds__(256) ValidRows(CountRows c) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (row < c.rows) c.ones[row] = c.labels.values[row] != c.labels.ignored ? 1.0f : 0.0f;
}

// A value and where it stands; the first of equal ones is better.
struct Best {
  float value;
  int64_t place;
};
__device__ __forceinline__ Best BetterOf(const Best& a, const Best& b) {
  if (b.place < 0) return a;
  if (a.place < 0) return b;
  if (a.value > b.value || (a.value == b.value && a.place < b.place)) return a;
  return b;
}

template <typename T>
__global__ void __launch_bounds__(kRow) CorrectRows(CountRows c) {
  __shared__ Best scratch[kRow];
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(c.logits) + row * c.classes;
  Best best = {-INFINITY, -1};
  for (int64_t j = threadIdx.x; j < c.classes; j += kRow) {
    best = BetterOf(best, {ToFloat(logits[j]), j});
  }
  scratch[threadIdx.x] = best;
  __syncthreads();
  for (int half = kRow / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      scratch[threadIdx.x] = BetterOf(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const int64_t label = LabelOf(c.labels, row, c.classes, true);
  c.ones[row] = label >= 0 && label == scratch[0].place ? 1.0f : 0.0f;
}

__global__ void __launch_bounds__(1024) SumAll(const float* values, int64_t n, float* to) {
  __shared__ double scratch[1024 / kWarp];
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n; i += 1024) sum += values[i];
  sum = RowReduce<1024>(sum, scratch, AddOf());
  if (threadIdx.x == 0) to[0] = static_cast<float>(sum);
}

// f with the elements of a pack: wide ones where rows and operands allow it.
template <typename T, typename F>
void ForWidth(int64_t columns, bool aligned, const F& f) {
  if (aligned && columns % kWide<T> == 0) {
    f.template operator()<kWide<T>>();
  } else {
    f.template operator()<1>();
  }
}

template <typename T, int V, int kThreads>
void LaunchSoftmax(const Softmax& s, cudaStream_t stream) {
  constexpr int kBlock = kThreads == kWarp ? 256 : kThreads;
  const unsigned blocks = BlocksFor(s.rows, kBlock / kThreads);
  if (s.y == nullptr) {
    SoftmaxRows<T, V, kThreads><<<blocks, kBlock, 0, stream>>>(s);
  } else {
    SoftmaxGradRows<T, V, kThreads><<<blocks, kBlock, 0, stream>>>(s);
  }
}

}  // namespace

cudaError_t Launch(const Softmax& s, cudaStream_t stream) {
  if (s.rows == 0 || s.columns == 0) return cudaSuccess;
  return ForFloat(s.type, [&]<typename T>(T) {
    ForWidth<T>(s.columns, AreAligned(s.x, s.y, s.to), [&]<int V>() {
      if (s.columns <= 1024) {
        LaunchSoftmax<T, V, kWarp>(s, stream);
      } else {
        LaunchSoftmax<T, V, kRow>(s, stream);
      }
    });
    return cudaGetLastError();
  });
}

cudaError_t Launch(const CrossEntropy& e, cudaStream_t stream) {
  if (e.rows == 0) return cudaSuccess;
  return ForFloat(e.type, [&]<typename T>(T) {
    ForWidth<T>(e.classes, AreAligned(e.logits), [&]<int V>() {
      EntropyRows<T, V><<<static_cast<unsigned>(e.rows), kRow, 0, stream>>>(e);
    });
    return cudaGetLastError();
  });
}

cudaError_t Launch(const CrossEntropyGrad& e, cudaStream_t stream) {
  if (e.rows == 0) return cudaSuccess;
  return ForFloat(e.type, [&]<typename T>(T) {
    ForWidth<T>(e.classes, AreAligned(e.logits, e.dlogits), [&]<int V>() {
      EntropyGradRows<T, V><<<static_cast<unsigned>(e.rows), kRow, 0, stream>>>(e);
    });
    return cudaGetLastError();
  });
}

bool CanLaunchTogether(const CrossEntropy& e, const CrossEntropyGrad& g) {
  const int64_t bytes = e.classes * BytesOf(e.type);
  return AreAligned(e.logits, g.dlogits) && bytes % 16 == 0 && bytes <= kMostShared;
}

cudaError_t LaunchTogether(const CrossEntropy& e, const CrossEntropyGrad& g, cudaStream_t stream) {
  if (!CanLaunchTogether(e, g)) return cudaErrorInvalidValue;
  if (e.rows == 0) return cudaSuccess;
  const auto bytes = static_cast<size_t>(e.classes * BytesOf(e.type));
  return ForFloat(e.type, [&]<typename T>(T) {
    auto* kernel = EntropyTogether<T>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared);
    kernel<<<static_cast<unsigned>(e.rows), kRow, bytes, stream>>>(e, g);
    return cudaGetLastError();
  });
}

cudaError_t Launch(const CountRows& c, cudaStream_t stream) {
  if (c.rows == 0) return cudaSuccess;
  if (c.logits == nullptr) {
    ValidRows<<<BlocksFor(c.rows, 256), 256, 0, stream>>>(c);
    return cudaGetLastError();
  }
  return ForFloat(c.type, [&]<typename T>(T) {
    CorrectRows<T><<<static_cast<unsigned>(c.rows), kRow, 0, stream>>>(c);
    return cudaGetLastError();
  });
}

cudaError_t LaunchSum(const float* values, int64_t n, float* to, cudaStream_t stream) {
  SumAll<<<1, 1024, 0, stream>>>(values, n, to);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
