// Tiles of queries, keys and values in shared memory, and the matrix units' fragments of them
// (PTX: mma.m16n8k16, ldmatrix). A warp has 16 rows of a product.
#pragma once

#include "openclaw/devices/cuda/kernels/attention.h"
#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = kAttentionWarps * kWarp;
constexpr int kWarpRows = 16;
constexpr int kBlockRows = kAttentionWarps * kWarpRows;

// Where the rows of a batch element's head lie.
struct HeadPointers {
  int64_t row, y_row;      // elements from a position to the next
  int64_t q, k, v, y, lse;  // of position 0

  __device__ __forceinline__ HeadPointers(const AttentionShape& s, int64_t batch, int64_t head) {
    const int64_t kv = head * s.kv_heads / s.heads;
    row = (s.heads + 2 * s.kv_heads) * s.width;
    y_row = s.heads * s.width;
    q = batch * s.time * row + head * s.width;
    k = batch * s.time * row + (s.heads + kv) * s.width;
    v = k + s.kv_heads * s.width;
    y = batch * s.time * y_row + head * s.width;
    lse = (batch * s.heads + head) * s.time;
  }
};

// Rows of kD elements; 16 bytes more keep the rows of a fragment in banks of their own.
template <int kD>
constexpr int kPitch = kD + 8;

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Copies `rows` rows of `width` elements and fills the tile of kRows by kD up with zeros. `aligned`:
// rows begin at 16 bytes and have a multiple of 8 elements; copies are asynchronous then.
template <typename T, int kD, int kRows>
__device__ __forceinline__ void LoadTile(T* tile, const T* from, int64_t row, int64_t rows,
                                         int width, bool aligned) {
  if (aligned) {
    constexpr int kPacks = kD / 8;
#pragma unroll
    for (int k = 0; k < kRows * kPacks; k += kAttentionThreads) {
      const int at = k + static_cast<int>(threadIdx.x), r = at / kPacks, c = at % kPacks * 8;
      if (kRows * kPacks % kAttentionThreads != 0 && at >= kRows * kPacks) break;
      const bool there = r < rows && c < width;
      const T* source = there ? from + r * row + c : from;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       SharedAddress(tile + r * kPitch<kD> + c)),
                   "l"(source), "r"(there ? 16 : 0));
    }
    return;
  }
  for (int at = static_cast<int>(threadIdx.x); at < kRows * kD; at += kAttentionThreads) {
    const int r = at / kD, c = at % kD;
    const bool there = r < rows && c < width;
    tile[r * kPitch<kD> + c] = there ? from[r * row + c] : FromFloat<T>(0.0f);
  }
}

// Four 8 by 8 matrices, each lane giving the address of a row.
__device__ __forceinline__ void LoadMatrices(uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(SharedAddress(row)));
}
__device__ __forceinline__ void LoadTransposed(uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(SharedAddress(row)));
}

__device__ __forceinline__ void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1, __nv_bfloat16) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1, __half) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp's accumulators: 16 rows by 8 kTiles columns. The lane has, of each tile, columns
// Column() and the next of rows Row() (elements 0, 1) and Row() + 8 (2, 3).
template <int kTiles>
struct Accumulators {
  float at[kTiles][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) at[t][e] = 0;
    }
  }
  // f(row within the warp's 16, column, value&).
  template <typename F>
  __device__ __forceinline__ void ForEach(const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        f(lane / 4 + e / 2 * 8, t * 8 + lane % 4 * 2 + e % 2, at[t][e]);
      }
    }
  }
};

// sums += rows(16 of a) x rows(of b)^T over kD: both tiles hold a row's elements side by side.
template <typename T, int kD, int kTiles>
__device__ __forceinline__ void AddRowProducts(Accumulators<kTiles>& sums, const T* a, const T* b) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* a_row = a + lane % 16 * kPitch<kD> + lane / 16 * 8;
  const T* b_row = b + (lane % 8 + lane / 16 * 8) * kPitch<kD> + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kD; k += 16) {
    uint32_t of_a[4];
    LoadMatrices(of_a, a_row + k);
#pragma unroll
    for (int t = 0; t < kTiles; t += 2) {
      uint32_t of_b[4];
      LoadMatrices(of_b, b_row + t * 8 * kPitch<kD> + k);
      MultiplyAdd(sums.at[t], of_a, of_b[0], of_b[1], T{});
      MultiplyAdd(sums.at[t + 1], of_a, of_b[2], of_b[3], T{});
    }
  }
}

// sums += p(16 by 8 kKeys, in registers) x tile(8 kKeys rows of kD).
template <typename T, int kD, int kKeys>
__device__ __forceinline__ void AddWeighted(Accumulators<kD / 8>& sums,
                                            const Accumulators<kKeys>& p, const T* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* row = tile + lane % 16 * kPitch<kD> + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kKeys; k += 2) {
    const uint32_t of_p[4] = {PackPair(p.at[k][0], p.at[k][1], T{}),
                              PackPair(p.at[k][2], p.at[k][3], T{}),
                              PackPair(p.at[k + 1][0], p.at[k + 1][1], T{}),
                              PackPair(p.at[k + 1][2], p.at[k + 1][3], T{})};
#pragma unroll
    for (int t = 0; t < kD / 8; t += 2) {
      uint32_t of_tile[4];
      LoadTransposed(of_tile, row + k * 8 * kPitch<kD> + t * 8);
      MultiplyAdd(sums.at[t], of_p, of_tile[0], of_tile[1], T{});
      MultiplyAdd(sums.at[t + 1], of_p, of_tile[2], of_tile[3], T{});
    }
  }
}

// Writes factor * sums to rows of `width` elements; `rows` of the warp's 16 are there. Pairs where
// they are aligned.
template <typename T, int kTiles>
__device__ __forceinline__ void StoreRows(T* to, int64_t row, int64_t rows, int width, bool pairs,
                                          const Accumulators<kTiles>& sums, float upper,
                                          float lower) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = lane / 4 + half * 8;
    if (r >= rows) continue;
    const float factor = half == 0 ? upper : lower;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int c = t * 8 + lane % 4 * 2;
      const float first = sums.at[t][half * 2] * factor;
      const float second = sums.at[t][half * 2 + 1] * factor;
      T* at = to + r * row + c;
      if (pairs) {
        if (c < width) *reinterpret_cast<uint32_t*>(at) = PackPair(first, second, T{});
      } else {
        if (c < width) at[0] = FromFloat<T>(first);
        if (c + 1 < width) at[1] = FromFloat<T>(second);
      }
    }
  }
}

// Whether rows of heads begin at 16 bytes, for tiles.
inline bool HeadsAreAligned(const AttentionShape& s) { return s.width % 8 == 0; }

// f with the width of tiles that hold a head.
template <typename F>
void ForHeadWidth(int64_t width, const F& f) {
  if (width <= 64) {
    f.template operator()<64>();
  } else if (width <= 128) {
    f.template operator()<128>();
  } else {
    f.template operator()<256>();
  }
}

template <typename Kernel>
void AllowShared(Kernel* kernel, size_t bytes) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
}

// Launches of f32, in attention_f32.cu.
cudaError_t LaunchF32(const Attention& attention, cudaStream_t stream);
cudaError_t LaunchF32(const AttentionGrad& attention, cudaStream_t stream);

}  // namespace oc::cuda::kernels
