// The op is a number that all threads share, not a template argument: the branch costs nothing
// beside the memory, and three kernels do for all ops and types.
#include "openclaw/devices/cuda/kernels/common.cuh"
#include "openclaw/devices/cuda/kernels/elementwise.h"
#include "openclaw/devices/cuda/kernels/math.cuh"

namespace oc::cuda::kernels {
namespace {

// Vectors that a thread has under way at once.
constexpr int kUnroll = 4;

template <int V, typename F>
__device__ __forceinline__ void Each(float (&x)[V], F f) {
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = f(x[i]);
}

template <bool kFast, int V>
__device__ __forceinline__ void ApplyUnary(UnaryOp op, float factor, float offset, float (&x)[V]) {
  switch (op) {
    case UnaryOp::kRelu:
      return Each(x, [](float v) { return v < 0 ? 0.0f : v; });
    case UnaryOp::kSilu:
      return Each(x, [](float v) { return v * Sigmoid<kFast>(v); });
    case UnaryOp::kTanh:
      return Each(x, [](float v) { return tanhf(v); });
    case UnaryOp::kSigmoid:
      return Each(x, [](float v) { return Sigmoid<kFast>(v); });
    case UnaryOp::kExp:
      return Each(x, [](float v) { return expf(v); });
    case UnaryOp::kLog:
      return Each(x, [](float v) { return logf(v); });
    case UnaryOp::kSqrt:
      return Each(x, [](float v) { return sqrtf(v); });
    case UnaryOp::kReciprocal:
      return Each(x, [](float v) { return 1.0f / v; });
    case UnaryOp::kGelu:
      return Each(x, [](float v) { return GeluExact(v); });
    case UnaryOp::kGeluTanh:
      return Each(x, [](float v) { return GeluTanh<kFast>(v); });
    case UnaryOp::kScale:
      return Each(x, [=](float v) { return factor * v + offset; });
  }
}

// a = op(a, b).
template <int V, typename F>
__device__ __forceinline__ void Each2(float (&a)[V], const float (&b)[V], F f) {
#pragma unroll
  for (int i = 0; i < V; ++i) a[i] = f(a[i], b[i]);
}

template <bool kFast, int V>
__device__ __forceinline__ void ApplyBinary(BinaryOp op, float (&a)[V], const float (&b)[V]) {
  switch (op) {
    case BinaryOp::kAdd:
      return Each2(a, b, [](float x, float y) { return x + y; });
    case BinaryOp::kSub:
      return Each2(a, b, [](float x, float y) { return x - y; });
    case BinaryOp::kMul:
      return Each2(a, b, [](float x, float y) { return x * y; });
    case BinaryOp::kDiv:
      return Each2(a, b, [](float x, float y) { return x / y; });
    case BinaryOp::kReluGrad:
      // Not a product with 0 or 1, which would keep what is not finite in dy.
      return Each2(a, b, [](float dy, float y) { return y > 0 ? dy : 0.0f; });
    case BinaryOp::kTanhGrad:
      return Each2(a, b, [](float dy, float y) { return dy * (1.0f - y * y); });
    case BinaryOp::kSigmoidGrad:
      return Each2(a, b, [](float dy, float y) { return dy * y * (1.0f - y); });
    case BinaryOp::kSqrtGrad:
      return Each2(a, b, [](float dy, float y) { return dy * 0.5f / y; });
    case BinaryOp::kSiluGrad:
      return Each2(a, b, [](float dy, float x) { return dy * SiluSlope<kFast>(x); });
    case BinaryOp::kGeluGrad:
      return Each2(a, b, [](float dy, float x) { return dy * GeluExactSlope(x); });
    case BinaryOp::kGeluTanhGrad:
      return Each2(a, b, [](float dy, float x) { return dy * GeluTanhSlope<kFast>(x); });
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    UnaryKernel(UnaryOp op, float factor, float offset, const T* x, T* y, int64_t vectors) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  float v[kUnroll][V];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + u * kThreads;
    if (i < vectors) Load<V>(x + i * V, v[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= vectors) break;
    ApplyUnary<sizeof(T) == 2, V>(op, factor, offset, v[u]);
    Store<V>(y + i * V, v[u]);
  }
}

// Position of vector i in an operand that repeats every `period` vectors.
__device__ __forceinline__ int64_t Repeat(int64_t i, int64_t period, bool narrow) {
  if (narrow) return static_cast<uint32_t>(i) % static_cast<uint32_t>(period);
  return i % period;
}

// kOne: b is one element.
template <typename T, int V, bool kOne>
__global__ void __launch_bounds__(kThreads)
    BinaryKernel(BinaryOp op, const T* a, const T* b, T* y, int64_t vectors, int64_t period,
                 bool narrow) {
  constexpr int kHalf = kUnroll / 2;  // as many loads as of one operand alone
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kHalf) + threadIdx.x;
  float v[kHalf][V], w[kHalf][V];
#pragma unroll
  for (int u = 0; u < kHalf; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= vectors) break;
    Load<V>(a + i * V, v[u]);
    if constexpr (kOne) {
      const float one = ToFloat(*b);
#pragma unroll
      for (int k = 0; k < V; ++k) w[u][k] = one;
    } else {
      Load<V>(b + (period == vectors ? i : Repeat(i, period, narrow)) * V, w[u]);
    }
  }
#pragma unroll
  for (int u = 0; u < kHalf; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= vectors) break;
    ApplyBinary<sizeof(T) == 2, V>(op, v[u], w[u]);
    Store<V>(y + i * V, v[u]);
  }
}

template <typename T>
__global__ void WholeBinaryKernel(BinaryOp op, const T* a, const T* b, T* y, int64_t n,
                                  int64_t period) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  // Unsigned: what overflows keeps its lower bits.
  const auto x = static_cast<uint64_t>(a[i]), z = static_cast<uint64_t>(b[i % period]);
  const uint64_t value = op == BinaryOp::kAdd ? x + z : op == BinaryOp::kSub ? x - z : x * z;
  y[i] = static_cast<T>(value);
}

template <typename T>
__device__ __forceinline__ auto Number(T x) {
  if constexpr (sizeof(T) == 2) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <typename T>
__global__ void CompareKernel(CompareOp op, const T* a, const T* b, bool* y, int64_t n,
                              int64_t period) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto x = Number(a[i]), z = Number(b[period == n ? i : i % period]);
  y[i] = op == CompareOp::kEqual ? x == z : op == CompareOp::kLess ? x < z : x > z;
}

template <typename M>
__global__ void SelectKernel(const bool* c, const M* a, const M* b, M* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = c[i] ? a[i] : b[i];
}

template <typename From, typename To, int V>
__global__ void __launch_bounds__(kThreads)
    CastFloatKernel(const From* x, To* y, int64_t vectors) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  float v[V];
  Load<V>(x + i * V, v);
  Store<V>(y + i * V, v);
}

// A number of any type: floats as doubles, the others whole.
struct Any {
  double real;
  int64_t whole;
  bool is_float;
};

__device__ Any LoadAny(Type type, const void* x, int64_t i) {
  switch (type) {
    case Type::kF32:
      return {static_cast<const float*>(x)[i], 0, true};
    case Type::kBF16:
      return {ToFloat(static_cast<const __nv_bfloat16*>(x)[i]), 0, true};
    case Type::kF16:
      return {ToFloat(static_cast<const __half*>(x)[i]), 0, true};
    case Type::kF64:
      return {static_cast<const double*>(x)[i], 0, true};
    case Type::kI32:
      return {0, static_cast<const int32_t*>(x)[i], false};
    case Type::kI64:
      return {0, static_cast<const int64_t*>(x)[i], false};
    case Type::kU8:
      return {0, static_cast<const uint8_t*>(x)[i], false};
    default:
      return {0, static_cast<const bool*>(x)[i] ? 1 : 0, false};
  }
}

__device__ int64_t Whole(const Any& v, double low, double high, int64_t lowest, int64_t highest) {
  if (!v.is_float) return v.whole;
  if (isnan(v.real)) return 0;
  if (v.real <= low) return lowest;
  if (v.real >= high) return highest;
  return static_cast<int64_t>(v.real);
}

__device__ void StoreAny(Type type, void* y, int64_t i, const Any& v) {
  const double real = v.is_float ? v.real : static_cast<double>(v.whole);
  switch (type) {
    case Type::kF32:
      static_cast<float*>(y)[i] = v.is_float ? static_cast<float>(real) : static_cast<float>(v.whole);
      return;
    case Type::kBF16:
      static_cast<__nv_bfloat16*>(y)[i] = FromFloat<__nv_bfloat16>(static_cast<float>(real));
      return;
    case Type::kF16:
      static_cast<__half*>(y)[i] = FromFloat<__half>(static_cast<float>(real));
      return;
    case Type::kF64:
      static_cast<double*>(y)[i] = real;
      return;
    case Type::kI32:
      static_cast<int32_t*>(y)[i] =
          static_cast<int32_t>(Whole(v, -2147483648.0, 2147483647.0, INT32_MIN, INT32_MAX));
      return;
    case Type::kI64:
      static_cast<int64_t*>(y)[i] =
          Whole(v, -9223372036854775808.0, 9223372036854775808.0, INT64_MIN, INT64_MAX);
      return;
    case Type::kU8:
      static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(Whole(v, 0, 255, 0, 255));
      return;
    default:
      static_cast<bool*>(y)[i] = v.is_float ? v.real != 0 : v.whole != 0;
  }
}

__global__ void CastAnyKernel(Type from, Type to, const void* x, void* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) StoreAny(to, y, i, LoadAny(from, x, i));
}

unsigned Blocks(int64_t items) { return static_cast<unsigned>(DivUp(items, kThreads)); }

template <typename T, int V>
cudaError_t LaunchUnary(UnaryOp op, float factor, float offset, const T* x, T* y, int64_t n,
                        cudaStream_t stream) {
  const int64_t vectors = n / V;
  if (vectors > 0) {
    UnaryKernel<T, V><<<Blocks(DivUp(vectors, kUnroll)), kThreads, 0, stream>>>(
        op, factor, offset, x, y, vectors);
  }
  if constexpr (V > 1) {
    if (const int64_t done = vectors * V; done < n) {
      return LaunchUnary<T, 1>(op, factor, offset, x + done, y + done, n - done, stream);
    }
  }
  return cudaGetLastError();
}

template <typename T, int V>
cudaError_t LaunchBinary(BinaryOp op, const T* a, const T* b, T* y, int64_t n, int64_t period,
                         cudaStream_t stream) {
  const int64_t vectors = n / V;
  const unsigned blocks = Blocks(DivUp(vectors, kUnroll / 2));
  if (period == 1 && n > 1) {
    if (vectors > 0) {
      BinaryKernel<T, V, true>
          <<<blocks, kThreads, 0, stream>>>(op, a, b, y, vectors, 1, true);
    }
    if constexpr (V > 1) {
      if (const int64_t done = vectors * V; done < n) {
        return LaunchBinary<T, 1>(op, a + done, b, y + done, n - done, 1, stream);
      }
    }
    return cudaGetLastError();
  }
  const bool narrow = vectors <= INT64_C(0xffffffff);
  if (vectors > 0) {
    BinaryKernel<T, V, false><<<blocks, kThreads, 0, stream>>>(op, a, b, y, vectors,
                                                               period == n ? vectors : period / V,
                                                               narrow);
  }
  if constexpr (V > 1) {
    // Only where b does not repeat: a period of whole vectors leaves no rest.
    if (const int64_t done = vectors * V; done < n) {
      return LaunchBinary<T, 1>(op, a + done, b + done, y + done, n - done, n - done, stream);
    }
  }
  return cudaGetLastError();
}

// Calls f with a value of the integer's C++ type.
template <typename F>
cudaError_t ForWhole(Type type, F f) {
  switch (type) {
    case Type::kI32:
      return f(int32_t{});
    case Type::kI64:
      return f(int64_t{});
    case Type::kU8:
      return f(uint8_t{});
    case Type::kBool:
      return f(bool{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t Unary(Type type, UnaryOp op, float factor, float offset, const void* x, void* y,
                  int64_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  return ForFloat(type, [&]<typename T>(T) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (Aligned(x, 16) && Aligned(y, 16)) {
      return LaunchUnary<T, kWide<T>>(op, factor, offset, from, to, n, stream);
    }
    return LaunchUnary<T, 1>(op, factor, offset, from, to, n, stream);
  });
}

cudaError_t Binary(Type type, BinaryOp op, const void* a, const void* b, void* y, int64_t n,
                   int64_t period, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  if (type == Type::kF32 || type == Type::kBF16 || type == Type::kF16) {
    return ForFloat(type, [&]<typename T>(T) {
      const T* left = static_cast<const T*>(a);
      const T* right = static_cast<const T*>(b);
      T* to = static_cast<T*>(y);
      const bool repeats = period != n && period != 1;
      const bool wide = Aligned(a, 16) && Aligned(y, 16) && (period == 1 || Aligned(b, 16)) &&
                        (!repeats || period % kWide<T> == 0);
      if (wide) return LaunchBinary<T, kWide<T>>(op, left, right, to, n, period, stream);
      return LaunchBinary<T, 1>(op, left, right, to, n, period, stream);
    });
  }
  if (op > BinaryOp::kMul) return cudaErrorInvalidValue;
  return ForWhole(type, [&]<typename T>(T) {
    WholeBinaryKernel<T><<<Blocks(n), kThreads, 0, stream>>>(
        op, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), n, period);
    return cudaGetLastError();
  });
}

cudaError_t Compare(Type type, CompareOp op, const void* a, const void* b, void* y, int64_t n,
                    int64_t period, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const auto launch = [&]<typename T>(T) {
    CompareKernel<T><<<Blocks(n), kThreads, 0, stream>>>(
        op, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<bool*>(y), n, period);
    return cudaGetLastError();
  };
  const cudaError_t done = ForFloat(type, launch);
  return done == cudaErrorInvalidValue ? ForWhole(type, launch) : done;
}

cudaError_t Select(int bytes, const void* c, const void* a, const void* b, void* y, int64_t n,
                   cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const auto launch = [&]<typename M>(M) {
    SelectKernel<M><<<Blocks(n), kThreads, 0, stream>>>(
        static_cast<const bool*>(c), static_cast<const M*>(a), static_cast<const M*>(b),
        static_cast<M*>(y), n);
    return cudaGetLastError();
  };
  switch (bytes) {
    case 1:
      return launch(uint8_t{});
    case 2:
      return launch(uint16_t{});
    case 4:
      return launch(uint32_t{});
    default:
      return launch(uint64_t{});
  }
}

cudaError_t Cast(Type from, Type to, const void* x, void* y, int64_t n, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  if (from == to) {
    return cudaMemcpyAsync(y, x, static_cast<size_t>(n * BytesOf(from)), cudaMemcpyDeviceToDevice,
                           stream);
  }
  const cudaError_t floats = ForFloat(from, [&]<typename From>(From) {
    return ForFloat(to, [&]<typename To>(To) {
      if constexpr (sizeof(From) == 2 && sizeof(To) == 2) {
        return cudaErrorInvalidValue;  // rare: as any others
      } else {
        constexpr int V = 4;
        const From* in = static_cast<const From*>(x);
        To* out = static_cast<To*>(y);
        const int64_t vectors =
            Aligned(x, V * sizeof(From)) && Aligned(y, V * sizeof(To)) ? n / V : 0;
        if (vectors > 0) {
          CastFloatKernel<From, To, V><<<Blocks(vectors), kThreads, 0, stream>>>(in, out, vectors);
        }
        const int64_t done = vectors * V;
        if (done < n) {
          CastFloatKernel<From, To, 1>
              <<<Blocks(n - done), kThreads, 0, stream>>>(in + done, out + done, n - done);
        }
        return cudaGetLastError();
      }
    });
  });
  if (floats != cudaErrorInvalidValue) return floats;
  CastAnyKernel<<<Blocks(n), kThreads, 0, stream>>>(from, to, x, y, n);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
