#include "openclaw/devices/cuda/kernels/attention_tiles.cuh"

namespace oc::cuda::kernels {
namespace {

template <int kD>
constexpr int kKeyRows = kD <= 128 ? 64 : 32;

template <typename T, int kD>
constexpr size_t kForwardBytes = (kBlockRows + 4 * kKeyRows<kD>)*kPitch<kD> * sizeof(T);

// Softmax of a warp's rows while tiles of keys pass: largest score (in powers of two) and sum of
// rows Row() and Row() + 8. Lanes of a row hold the same largest, and their own part of the sum.
struct RunningSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // Scores become probabilities up to the factor that the sums hold; `values` are rescaled.
  template <int kKeys, int kTiles>
  __device__ __forceinline__ void TakeUp(Accumulators<kKeys>& scores,
                                         Accumulators<kTiles>& values) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float next = largest[half];
#pragma unroll
      for (int t = 0; t < kKeys; ++t) {
        next = fmaxf(next, fmaxf(scores.at[t][half * 2], scores.at[t][half * 2 + 1]));
      }
      next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 1));
      next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 2));
      const float rescale = Exp2(largest[half] - next);
      largest[half] = next;
      sum[half] *= rescale;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        values.at[t][half * 2] *= rescale;
        values.at[t][half * 2 + 1] *= rescale;
      }
#pragma unroll
      for (int t = 0; t < kKeys; ++t) {
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          scores.at[t][e] = Exp2(scores.at[t][e] - next);
          sum[half] += scores.at[t][e];
        }
      }
    }
  }
  __device__ __forceinline__ float Total(int half) const {
    float total = sum[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    return total;
  }
};

// A block: 64 queries of a head.
template <typename T, int kD>
__global__ void __launch_bounds__(kAttentionThreads) Forward(Attention a, bool aligned,
                                                             bool pairs) {
  constexpr int kRows = kKeyRows<kD>, kTile = kRows * kPitch<kD>;
  extern __shared__ __align__(16) unsigned char shared[];
  T* q = reinterpret_cast<T*>(shared);
  T* k = q + kBlockRows * kPitch<kD>;
  T* v = k + 2 * kTile;
  const AttentionShape& s = a.shape;
  // The blocks with most keys first.
  const int64_t first = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kBlockRows;
  const HeadPointers at(s, blockIdx.z, blockIdx.y);
  const T* qkv = static_cast<const T*>(a.qkv);
  const int width = static_cast<int>(s.width);
  const int64_t keys = s.causal ? min(s.time, first + kBlockRows) : s.time;
  const int tiles = static_cast<int>((keys + kRows - 1) / kRows);
  const auto load = [&](T* tile, int64_t begin, int t) {
    const int64_t row = static_cast<int64_t>(t) * kRows;
    LoadTile<T, kD, kRows>(tile + t % 2 * kTile, qkv + begin + row * at.row, at.row, s.time - row,
                           width, aligned);
  };
  LoadTile<T, kD, kBlockRows>(q, qkv + at.q + first * at.row, at.row, s.time - first, width,
                              aligned);
  load(k, at.k, 0);
  CommitCopies();
  load(v, at.v, 0);
  CommitCopies();

  const int warp_row = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
  const int64_t first_row = first + warp_row;
  const float scale = s.scale * kLog2e;
  Accumulators<kD / 8> values;
  values.Clear();
  RunningSoftmax softmax;
  for (int t = 0; t < tiles; ++t) {
    // Groups of copies are committed in turn, keys then values, empty ones at the end.
    WaitForCopies<1>();
    __syncthreads();
    if (t + 1 < tiles) load(k, at.k, t + 1);
    CommitCopies();
    Accumulators<kRows / 8> scores;
    scores.Clear();
    AddRowProducts<T, kD>(scores, q + warp_row * kPitch<kD>, k + t % 2 * kTile);
    const int64_t first_key = static_cast<int64_t>(t) * kRows;
    const bool whole =
        first_key + kRows <= s.time && (!s.causal || first_key + kRows - 1 <= first_row);
    scores.ForEach([&](int row, int column, float& score) {
      const int64_t key = first_key + column;
      const bool seen = whole || (key < s.time && (!s.causal || key <= first_row + row));
      score = seen ? score * scale : -INFINITY;
    });
    softmax.TakeUp(scores, values);
    WaitForCopies<1>();
    __syncthreads();
    if (t + 1 < tiles) load(v, at.v, t + 1);
    CommitCopies();
    AddWeighted<T, kD>(values, scores, v + t % 2 * kTile);
  }
  const float totals[2] = {softmax.Total(0), softmax.Total(1)};
  StoreRows(static_cast<T*>(a.y) + at.y + first_row * at.y_row, at.y_row, s.time - first_row, width,
            pairs, values, 1 / totals[0], 1 / totals[1]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first_row + lane / 4 + half * 8;
    if (lane % 4 != 0 || row >= s.time) continue;
    a.lse[at.lse + row] = (softmax.largest[half] + log2f(totals[half])) * kLn2;
  }
}

template <typename T>
cudaError_t LaunchNarrow(const Attention& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const dim3 grid(BlocksFor(s.time, kBlockRows), static_cast<unsigned>(s.heads),
                  static_cast<unsigned>(s.batch));
  const bool aligned = HeadsAreAligned(s) && AreAligned(a.qkv);
  const bool pairs = s.width % 2 == 0 && reinterpret_cast<uintptr_t>(a.y) % 4 == 0;
  ForHeadWidth(s.width, [&]<int kD>() {
    auto* kernel = Forward<T, kD>;
    constexpr size_t kBytes = kForwardBytes<T, kD>;
    AllowShared(kernel, kBytes);
    kernel<<<grid, kAttentionThreads, kBytes, stream>>>(a, aligned, pairs);
  });
  return cudaGetLastError();
}

}  // namespace

cudaError_t Launch(const Attention& a, cudaStream_t stream) {
  if (a.shape.batch == 0 || a.shape.time == 0) return cudaSuccess;
  switch (a.shape.type) {
    case Type::kBF16:
      return LaunchNarrow<__nv_bfloat16>(a, stream);
    case Type::kF16:
      return LaunchNarrow<__half>(a, stream);
    default:
      return LaunchF32(a, stream);
  }
}

}  // namespace oc::cuda::kernels
