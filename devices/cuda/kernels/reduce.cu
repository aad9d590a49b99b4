#include "openclaw/devices/cuda/kernels/reduce.h"

#include <type_traits>

#include "openclaw/devices/cuda/kernels/columns.cuh"
#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {
namespace {

// Sums of floats are float, those of integers 64 bits wide.
template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, float>;

template <typename T>
__device__ __forceinline__ Sum<T> Widen(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(x);
  } else {
    return ToFloat(x);
  }
}

template <typename A>
__device__ __forceinline__ A Start(ReduceOp op) {
  if (op != ReduceOp::kMax) return A(0);
  if constexpr (std::is_integral_v<A>) {
    return INT64_MIN;
  } else {
    return -INFINITY;
  }
}

// What is no number is not hidden.
template <typename A>
__device__ __forceinline__ A Combine(ReduceOp op, A a, A b) {
  if (op != ReduceOp::kMax) return a + b;
  return b > a || b != b ? b : a;
}

template <typename A>
__device__ __forceinline__ A WarpCombine(ReduceOp op, A a) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    a = Combine(op, a, __shfl_xor_sync(0xffffffffu, a, lane));
  }
  return a;
}

__device__ __forceinline__ int64_t OffsetOf(const Walk& walk, int64_t i) {
  if (walk.dims == 0) return 0;
  if (walk.dims == 1) return i * walk.strides[0];
  int64_t offset = 0;
  if (i <= 0xffffffffll) {
    auto rest = static_cast<uint32_t>(i);
#pragma unroll
    for (int d = kDims - 1; d >= 0; --d) {
      if (d >= walk.dims) continue;
      const auto size = static_cast<uint32_t>(walk.sizes[d]);
      offset += static_cast<int64_t>(rest % size) * walk.strides[d];
      rest /= size;
    }
    return offset;
  }
  for (int d = walk.dims - 1; d >= 0; --d) {
    offset += i % walk.sizes[d] * walk.strides[d];
    i /= walk.sizes[d];
  }
  return offset;
}

template <typename T>
__device__ __forceinline__ T Narrow(Sum<T> x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    return FromFloat<T>(x);
  }
}

struct Finish {
  ReduceOp op;
  int64_t count;  // elements of one output, of the mean
  bool accumulate;
};

template <typename R, typename A>
__device__ __forceinline__ void StoreResult(const Finish& f, R* y, A value) {
  if (f.op == ReduceOp::kMean) value /= static_cast<A>(f.count);
  if (f.accumulate) value += Widen(*y);
  *y = Narrow<R>(value);
}

// The elements from begin to end of a line, one thread's share of W; 16 bytes at once.
template <typename T, int W>
__device__ __forceinline__ Sum<T> Line(ReduceOp op, const T* x, int64_t begin, int64_t end,
                                       int lane) {
  using A = Sum<T>;
  constexpr int V = kWide<T>, kAhead = 4;
  A strand[V];
#pragma unroll
  for (int k = 0; k < V; ++k) strand[k] = Start<A>(op);
  int64_t i = begin + static_cast<int64_t>(lane) * V;
  constexpr int64_t kStep = static_cast<int64_t>(W) * V;
  for (; i + (kAhead - 1) * kStep + V <= end; i += kAhead * kStep) {
    Vec<T, V> v[kAhead];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) v[s] = *reinterpret_cast<const Vec<T, V>*>(x + i + s * kStep);
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
#pragma unroll
      for (int k = 0; k < V; ++k) strand[k] = Combine(op, strand[k], Widen(v[s].v[k]));
    }
  }
  for (; i + V <= end; i += kStep) {
    const auto v = *reinterpret_cast<const Vec<T, V>*>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) strand[k] = Combine(op, strand[k], Widen(v.v[k]));
  }
  for (; i < end; ++i) strand[0] = Combine(op, strand[0], Widen(x[i]));
#pragma unroll
  for (int k = 1; k < V; ++k) strand[0] = Combine(op, strand[0], strand[k]);
  return strand[0];
}

// W threads an output. With parts, block o * parts + p sums a range of the elements into `partial`.
template <typename T, typename R, int W>
__global__ void __launch_bounds__(kThreads)
    ReduceKernel(const Finish f, const T* x, const Walk kept, const Walk inner, int64_t outputs,
                 int64_t elements, int parts, bool line, Sum<T>* partial, R* y) {
  constexpr int kEach = kThreads / W;
  using A = Sum<T>;
  const int64_t o = static_cast<int64_t>(blockIdx.x) * kEach + threadIdx.x / W;
  const int lane = threadIdx.x % W;
  A value = Start<A>(f.op);
  if (o < outputs * parts) {
    const int64_t part = o % parts;
    int64_t length = (elements + parts - 1) / parts;
    if (line) length = (length + kWide<T> - 1) / kWide<T> * kWide<T>;
    const int64_t begin = part * length;
    const int64_t end = begin + length < elements ? begin + length : elements;
    const T* from = x + OffsetOf(kept, o / parts);
    if (line) {
      value = Line<T, W>(f.op, from, begin, end, lane);
    } else {
    A strand[4] = {value, value, value, value};
    int64_t i = begin + lane;
    for (; i + 3 * W < end; i += 4 * W) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        strand[s] = Combine(f.op, strand[s], Widen(from[OffsetOf(inner, i + s * W)]));
      }
    }
    for (; i < end; i += W) strand[0] = Combine(f.op, strand[0], Widen(from[OffsetOf(inner, i)]));
    value = Combine(f.op, Combine(f.op, strand[0], strand[1]),
                    Combine(f.op, strand[2], strand[3]));
    }
  }
  if constexpr (W >= 32) value = WarpCombine(f.op, value);
  if constexpr (W > 32) {
    __shared__ A shared[kThreads / 32];
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < kThreads / 32 ? shared[threadIdx.x] : Start<A>(f.op);
    if (threadIdx.x < 32) value = WarpCombine(f.op, value);
  }
  if (lane != 0 || o >= outputs * parts) return;
  if (parts > 1) {
    partial[o] = value;
  } else {
    StoreResult(f, y + o, value);
  }
}

template <typename A, typename R>
__global__ void FinishKernel(const Finish f, const A* partial, int64_t outputs, int parts, R* y) {
  const int64_t o = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (o >= outputs) return;
  A value = Start<A>(f.op);
  for (int p = 0; p < parts; ++p) value = Combine(f.op, value, partial[o * parts + p]);
  StoreResult(f, y + o, value);
}

int64_t Elements(const Walk& walk) {
  int64_t n = 1;
  for (int d = 0; d < walk.dims; ++d) n *= walk.sizes[d];
  return n;
}

template <typename T, typename R>
cudaError_t LaunchReduce(const Finish& f, const T* x, const Walk& kept, const Walk& inner,
                         int parts, void* partial, R* y, cudaStream_t stream) {
  const int64_t outputs = Elements(kept), elements = Elements(inner), sums = outputs * parts;
  auto* const parts_of = static_cast<Sum<T>*>(partial);
  // Whether each output's elements lie together, on 16 bytes.
  bool line = inner.dims == 1 && inner.strides[0] == 1 && Aligned(x, 16);
  for (int d = 0; d < kept.dims; ++d) line = line && kept.strides[d] % kWide<T> == 0;
  if (elements / parts >= (line ? 16384 : 1024)) {
    ReduceKernel<T, R, kThreads><<<static_cast<unsigned>(sums), kThreads, 0, stream>>>(
        f, x, kept, inner, outputs, elements, parts, line, parts_of, y);
  } else if (elements / parts >= 32) {
    ReduceKernel<T, R, 32><<<static_cast<unsigned>(DivUp(sums, kThreads / 32)), kThreads, 0,
                             stream>>>(f, x, kept, inner, outputs, elements, parts, line, parts_of, y);
  } else {
    ReduceKernel<T, R, 1><<<static_cast<unsigned>(DivUp(sums, kThreads)), kThreads, 0, stream>>>(
        f, x, kept, inner, outputs, elements, parts, line, parts_of, y);
  }
  if (parts > 1) {
    FinishKernel<Sum<T>, R><<<static_cast<unsigned>(DivUp(outputs, kThreads)), kThreads, 0, stream>>>(
        f, parts_of, outputs, parts, y);
  }
  return cudaGetLastError();
}

template <typename T>
struct SumOf {
  static constexpr int kSums = 1;
  static constexpr bool kCompensated = false;
  const T* x;
  template <int V>
  struct State {};
  template <int V>
  using Item = Vec<T, V>;
  template <int V>
  __device__ __forceinline__ void Begin(int64_t, State<V>&) const {}
  template <int V>
  __device__ __forceinline__ void Fetch(int64_t at, Item<V>& item) const {
    item = LoadVec<T, V>(x + at);
  }
  template <int V>
  __device__ __forceinline__ void Sum(const State<V>&, const Item<V>& item, float (&first)[V],
                                      float (&)[V]) const {
#pragma unroll
    for (int i = 0; i < V; ++i) first[i] = ToFloat(item.v[i]);
  }
};

template <typename R>
__global__ void ColumnFinishKernel(const double* partial, int64_t columns, int chunks, double scale,
                                   bool accumulate, R* y) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= columns) return;
  float value = static_cast<float>(ColumnTotal(partial, columns, chunks, c) * scale);
  if (accumulate) value += ToFloat(y[c]);
  y[c] = FromFloat<R>(value);
}

}  // namespace

int ReduceParts(int64_t outputs, int64_t elements) {
  constexpr int64_t kFewOutputs = 256, kPart = 4096, kMost = 1024;
  if (outputs >= kFewOutputs || elements < 2 * kPart) return 1;
  const int64_t wanted = kMost / (outputs > 0 ? outputs : 1);
  const int64_t most = elements / kPart;
  return static_cast<int>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

cudaError_t Reduce(Type type, Type out, ReduceOp op, const void* x, const Walk& kept,
                   const Walk& inner, int parts, void* partial, bool accumulate, void* y,
                   cudaStream_t stream) {
  if (Elements(kept) == 0) return cudaSuccess;
  const Finish f = {op, Elements(inner), accumulate};
  const auto launch = [&]<typename T>(T) {
    const T* from = static_cast<const T*>(x);
    if (out == type) {
      return LaunchReduce<T, T>(f, from, kept, inner, parts, partial, static_cast<T*>(y), stream);
    }
    if constexpr (sizeof(T) == 2) {
      if (out == Type::kF32) {
        return LaunchReduce<T, float>(f, from, kept, inner, parts, partial, static_cast<float*>(y),
                                      stream);
      }
    }
    return cudaErrorInvalidValue;
  };
  switch (type) {
    case Type::kI32:
      return launch(int32_t{});
    case Type::kI64:
      return launch(int64_t{});
    case Type::kU8:
      return launch(uint8_t{});
    default:
      return ForFloat(type, launch);
  }
}

int ColumnChunks(int64_t rows, int64_t columns, int units) {
  // Some blocks a multiprocessor, of chunks long enough to be worth their last stage.
  const int64_t strips = DivUp(columns, kStrip * 8);
  int64_t chunks = DivUp(static_cast<int64_t>(units) * 4, strips > 0 ? strips : 1);
  const int64_t most = DivUp(rows, 64);
  if (chunks > most) chunks = most;
  if (chunks > 1024) chunks = 1024;
  return static_cast<int>(chunks < 1 ? 1 : chunks);
}

cudaError_t ColumnSums(Type type, Type out, const void* x, int64_t rows, int64_t columns,
                       int chunks, double* partial, double scale, bool accumulate, void* y,
                       cudaStream_t stream) {
  if (columns == 0) return cudaSuccess;
  const cudaError_t code = ForFloat(type, [&]<typename T>(T) {
    const bool wide = Aligned(x, 16) && columns % kWide<T> == 0;
    return ColumnPartials<kWide<T>>(SumOf<T>{static_cast<const T*>(x)}, wide, rows, columns, chunks,
                                    partial, stream);
  });
  if (code != cudaSuccess) return code;
  return ForFloat(out, [&]<typename R>(R) {
    ColumnFinishKernel<R><<<static_cast<unsigned>(DivUp(columns, kThreads)), kThreads, 0, stream>>>(
        partial, columns, chunks, scale, accumulate, static_cast<R*>(y));
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
