#include "openclaw/devices/cuda/kernels/sequence.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

// Angles are counted in 2^-64 turns: their product with a position wraps by itself, so that they
// are exact whatever the position.
__device__ __forceinline__ uint64_t PhaseOf(double base, int64_t i, int64_t half) {
  const double turns = pow(base, -static_cast<double>(i) / static_cast<double>(half)) *
                       0.15915494309189533577;  // 1 / (2 pi)
  return __double2ull_rz((turns - floor(turns)) * 0x1p64);
}

// A block has one position, whose sines it makes once, for a share of the batch.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads) TurnPairs(Rope r) {
  extern __shared__ float2 turns[];  // cosine and sine of a pair
  const int64_t t = blockIdx.x;
  for (int64_t i = threadIdx.x; i < r.half; i += kThreads) {
    const uint64_t turn = PhaseOf(r.base, i, r.half) * static_cast<uint64_t>(t);
    // In 2 pi / 2^64 radians.
    const float angle = static_cast<float>(static_cast<int64_t>(turn)) * 3.4061215800304157e-19f;
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    turns[i] = {cosine, r.inverse ? -sine : sine};
  }
  __syncthreads();
  const int64_t a_head = r.half / V, pairs = r.turning_heads * a_head;
  const int64_t turning = r.turning_heads * 2 * r.half;
  const bool in_place = r.x == r.y;
  const int64_t rest = in_place ? 0 : (r.packed - turning) / V;
  for (int64_t b = blockIdx.y; b < r.batch; b += gridDim.y) {
    const int64_t row = (b * r.time + t) * r.packed;
    const T* x = static_cast<const T*>(r.x) + row;
    T* y = static_cast<T*>(r.y) + row;
    for (int64_t j = threadIdx.x; j < pairs + rest; j += kThreads) {
      if (j >= pairs) {
        const int64_t at = turning + (j - pairs) * V;
        Store(y + at, Load<V>(x + at));
        continue;
      }
      const int64_t i = j % a_head * V, at = j / a_head * 2 * r.half + i;
      const Pack<T, V> a = Load<V>(x + at), b_half = Load<V>(x + at + r.half);
      float turned_a[V], turned_b[V];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float2 turn = turns[i + k];
        const float first = a[k], second = b_half[k];
        turned_a[k] = first * turn.x - second * turn.y;
        turned_b[k] = second * turn.x + first * turn.y;
      }
      Store(y + at, Pack<T, V>::Of(turned_a));
      Store(y + at + r.half, Pack<T, V>::Of(turned_b));
    }
  }
}

// Philox4x32-10, bit for bit as core/rng.h has it.
__device__ __forceinline__ uint4 PhiloxBlock(uint64_t key, uint64_t stream, uint64_t low) {
  uint32_t c0 = static_cast<uint32_t>(low), c1 = static_cast<uint32_t>(low >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

__device__ __forceinline__ uint32_t WordOf(const uint4& block, int i) {
  return i == 0 ? block.x : i == 1 ? block.y : i == 2 ? block.z : block.w;
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) Drop(Dropout d) {
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (at >= d.n) return;
  const auto key = static_cast<uint64_t>(d.numbers[0]);
  const uint64_t stream =
      d.stream ^ (static_cast<uint64_t>(d.numbers[1]) * 0x9E3779B97F4A7C15ull);
  const uint64_t first =
      static_cast<uint64_t>(d.numbers[2]) * d.sample_size + static_cast<uint64_t>(at);
  const T* x = static_cast<const T*>(d.x) + at;
  T* y = static_cast<T*>(d.y) + at;
  const auto kept = [&](uint32_t word, float value) {
    return static_cast<float>(word >> 8) * 0x1p-24f >= d.p ? value * d.scale : 0.0f;
  };
  if (V % 4 == 0 && at + V <= d.n && first % 4 == 0) {
    const Pack<T, V> pack = Load<V>(x);
    float out[V];
#pragma unroll
    for (int q = 0; q < V / 4; ++q) {
      const uint4 words = PhiloxBlock(key, stream, first / 4 + static_cast<uint64_t>(q));
#pragma unroll
      for (int k = 0; k < 4; ++k) out[4 * q + k] = kept(WordOf(words, k), pack[4 * q + k]);
    }
    Store(y, Pack<T, V>::Of(out));
    return;
  }
  for (int k = 0; k < V && at + k < d.n; ++k) {
    const uint64_t index = first + static_cast<uint64_t>(k);
    const uint4 words = PhiloxBlock(key, stream, index / 4);
    y[k] = FromFloat<T>(kept(WordOf(words, static_cast<int>(index % 4)), ToFloat(x[k])));
  }
}

}  // namespace

cudaError_t Launch(const Rope& r, cudaStream_t stream) {
  if (r.batch == 0 || r.time == 0) return cudaSuccess;
  const int64_t turning = r.turning_heads * 2 * r.half;
  const auto shared = static_cast<size_t>(r.half) * sizeof(float2);
  // Few rows a block where the positions alone do not fill the device.
  const int64_t shares = std::clamp<int64_t>(4096 / r.time, 1, r.batch);
  const dim3 grid(static_cast<unsigned>(r.time), static_cast<unsigned>(shares));
  return ForFloat(r.type, [&]<typename T>(T) {
    constexpr int64_t V = kWide<T>;
    const bool wide = AreAligned(r.x, r.y) && r.half % V == 0 && (r.packed - turning) % V == 0;
    if (wide) {
      TurnPairs<T, kWide<T>><<<grid, kThreads, shared, stream>>>(r);
    } else {
      TurnPairs<T, 1><<<grid, kThreads, shared, stream>>>(r);
    }
    return cudaGetLastError();
  });
}

cudaError_t Launch(const Dropout& d, cudaStream_t stream) {
  if (d.n == 0) return cudaSuccess;
  return ForFloat(d.type, [&]<typename T>(T) {
    if (AreAligned(d.x, d.y)) {
      Drop<T, kWide<T>><<<BlocksFor(d.n, kThreads * kWide<T>), kThreads, 0, stream>>>(d);
    } else {
      Drop<T, 1><<<BlocksFor(d.n, kThreads), kThreads, 0, stream>>>(d);
    }
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
