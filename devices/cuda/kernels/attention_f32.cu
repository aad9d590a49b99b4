// Attention in f32: plain products of tiles in shared memory, every sum in float. A block has 32
// rows, eight lanes each; a lane has four scores of its row in a tile, and every eighth column of
// what is summed up.
#include "openclaw/devices/cuda/kernels/attention_tiles.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int kTile = 32;       // rows of a block and of a tile
constexpr int kLanes = 8;       // of a row
constexpr int kScores = kTile / kLanes;
constexpr int kTileThreads = kTile * kLanes;
constexpr int kWeightPitch = kTile + 1;

// The thread's row within the block and its lane.
struct Spot {
  int row = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
};

// Tiles of rows of `width` floats, one apart more so that equal columns lie in unlike banks.
__device__ __forceinline__ int PitchOf(int width) { return width + 1; }

__device__ __forceinline__ void LoadRows(float* tile, const float* from, int64_t row, int64_t rows,
                                         int width) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * width; at += kTileThreads) {
    const int r = at / width, c = at % width;
    tile[r * PitchOf(width) + c] = r < rows ? from[r * row + c] : 0.0f;
  }
}

__device__ __forceinline__ float Dot(const float* a, const float* b, int n) {
  float sums[4] = {};
  int i = 0;
  for (; i + 4 <= n; i += 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// sums[j] += weights of the row x the tile's column lane + 8 j.
template <int kColumns>
__device__ __forceinline__ void AddColumns(float (&sums)[kColumns], const float* weights,
                                           const float* tile, int width, const Spot& spot) {
  for (int k = 0; k < kTile; ++k) {
    const float weight = weights[spot.row * kWeightPitch + k];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int c = spot.lane + j * kLanes;
      if (c < width) sums[j] += weight * tile[k * PitchOf(width) + c];
    }
  }
}
template <int kColumns>
__device__ __forceinline__ void StoreColumns(float* to, const float (&sums)[kColumns], float factor,
                                             int width, const Spot& spot) {
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int c = spot.lane + j * kLanes;
    if (c < width) to[c] = factor * sums[j];
  }
}

template <typename Combine>
__device__ __forceinline__ float OverLanes(float value, Combine combine) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

template <int kColumns>
__global__ void __launch_bounds__(kTileThreads) Forward(Attention a) {
  extern __shared__ float tiles[];
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), tile = kTile * PitchOf(width);
  float* q = tiles;
  float* k = q + tile;
  float* v = k + tile;
  float* weights = v + tile;
  const Spot spot;
  const int64_t first = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int64_t row = first + spot.row;
  const HeadPointers at(s, blockIdx.z, blockIdx.y);
  const float* qkv = static_cast<const float*>(a.qkv);
  LoadRows(q, qkv + at.q + first * at.row, at.row, s.time - first, width);
  float sums[kColumns] = {}, largest = -INFINITY, total = 0;
  const int64_t keys = s.causal ? min(s.time, first + kTile) : s.time;
  for (int64_t begin = 0; begin < keys; begin += kTile) {
    __syncthreads();
    LoadRows(k, qkv + at.k + begin * at.row, at.row, s.time - begin, width);
    LoadRows(v, qkv + at.v + begin * at.row, at.row, s.time - begin, width);
    __syncthreads();
    float scores[kScores], next = largest;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int column = spot.lane + i * kLanes;
      const int64_t key = begin + column;
      const bool seen = key < s.time && (!s.causal || key <= row);
      const float score =
          s.scale * Dot(q + spot.row * PitchOf(width), k + column * PitchOf(width), width);
      scores[i] = seen ? score : -INFINITY;
      next = fmaxf(next, scores[i]);
    }
    next = OverLanes(next, LargerOf());
    const float rescale = expf(largest - next);
    largest = next;
    total *= rescale;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[j] *= rescale;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const float power = expf(scores[i] - next);
      weights[spot.row * kWeightPitch + spot.lane + i * kLanes] = power;
      total += power;
    }
    __syncwarp();  // a row's lanes are of one warp
    AddColumns(sums, weights, v, width, spot);
  }
  total = OverLanes(total, AddOf());
  if (row >= s.time) return;
  StoreColumns(static_cast<float*>(a.y) + at.y + row * at.y_row, sums, 1 / total, width, spot);
  if (spot.lane == 0) a.lse[at.lse + row] = largest + logf(total);
}

// A block: 32 keys of a head, all queries that see them passing.
template <int kColumns>
__global__ void __launch_bounds__(kTileThreads) KeysGrad(AttentionGrad a) {
  extern __shared__ float tiles[];
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), tile = kTile * PitchOf(width);
  float* k = tiles;
  float* v = k + tile;
  float* q = v + tile;
  float* dy = q + tile;
  float* weights = dy + tile;
  float* dweights = weights + kTile * kWeightPitch;
  const Spot spot;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile, key = first + spot.row;
  const int64_t sharers = s.heads / s.kv_heads, first_head = blockIdx.y * sharers;
  const HeadPointers own(s, blockIdx.z, first_head);
  const float* qkv = static_cast<const float*>(a.qkv);
  LoadRows(k, qkv + own.k + first * own.row, own.row, s.time - first, width);
  LoadRows(v, qkv + own.v + first * own.row, own.row, s.time - first, width);
  float dk[kColumns] = {}, dv[kColumns] = {};
  for (int64_t head = first_head; head < first_head + sharers; ++head) {
    const HeadPointers at(s, blockIdx.z, head);
    for (int64_t begin = s.causal ? first : 0; begin < s.time; begin += kTile) {
      __syncthreads();
      LoadRows(q, qkv + at.q + begin * at.row, at.row, s.time - begin, width);
      LoadRows(dy, static_cast<const float*>(a.dy) + at.y + begin * at.y_row, at.y_row,
               s.time - begin, width);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const int column = spot.lane + i * kLanes;
        const int64_t query = begin + column;
        const bool seen = query < s.time && key < s.time && (!s.causal || key <= query);
        float power = 0, step = 0;
        if (seen) {
          const float score =
              s.scale * Dot(k + spot.row * PitchOf(width), q + column * PitchOf(width), width);
          power = expf(score - a.lse[at.lse + query]);
          const float dp = Dot(v + spot.row * PitchOf(width), dy + column * PitchOf(width), width);
          step = power * (dp - a.delta[at.lse + query]);
        }
        weights[spot.row * kWeightPitch + column] = power;
        dweights[spot.row * kWeightPitch + column] = step;
      }
      __syncwarp();
      AddColumns(dv, weights, dy, width, spot);
      AddColumns(dk, dweights, q, width, spot);
    }
  }
  if (key >= s.time) return;
  float* dqkv = static_cast<float*>(a.dqkv);
  StoreColumns(dqkv + own.k + key * own.row, dk, s.scale, width, spot);
  StoreColumns(dqkv + own.v + key * own.row, dv, 1.0f, width, spot);
}

// A block: 32 queries of a head, the keys that they see passing.
template <int kColumns>
__global__ void __launch_bounds__(kTileThreads) QueriesGrad(AttentionGrad a) {
  extern __shared__ float tiles[];
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.width), tile = kTile * PitchOf(width);
  float* q = tiles;
  float* dy = q + tile;
  float* k = dy + tile;
  float* v = k + tile;
  float* weights = v + tile;
  const Spot spot;
  const int64_t first = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int64_t row = first + spot.row;
  const HeadPointers at(s, blockIdx.z, blockIdx.y);
  const float* qkv = static_cast<const float*>(a.qkv);
  LoadRows(q, qkv + at.q + first * at.row, at.row, s.time - first, width);
  LoadRows(dy, static_cast<const float*>(a.dy) + at.y + first * at.y_row, at.y_row, s.time - first,
           width);
  const float lse = row < s.time ? a.lse[at.lse + row] : 0.0f;
  const float delta = row < s.time ? a.delta[at.lse + row] : 0.0f;
  float dq[kColumns] = {};
  const int64_t keys = s.causal ? min(s.time, first + kTile) : s.time;
  for (int64_t begin = 0; begin < keys; begin += kTile) {
    __syncthreads();
    LoadRows(k, qkv + at.k + begin * at.row, at.row, s.time - begin, width);
    LoadRows(v, qkv + at.v + begin * at.row, at.row, s.time - begin, width);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int column = spot.lane + i * kLanes;
      const int64_t key = begin + column;
      const bool seen = row < s.time && key < s.time && (!s.causal || key <= row);
      float step = 0;
      if (seen) {
        const float score =
            s.scale * Dot(q + spot.row * PitchOf(width), k + column * PitchOf(width), width);
        const float dp = Dot(dy + spot.row * PitchOf(width), v + column * PitchOf(width), width);
        step = expf(score - lse) * (dp - delta);
      }
      weights[spot.row * kWeightPitch + column] = step;
    }
    __syncwarp();
    AddColumns(dq, weights, k, width, spot);
  }
  if (row >= s.time) return;
  StoreColumns(static_cast<float*>(a.dqkv) + at.q + row * at.row, dq, s.scale, width, spot);
}

// f with the columns of a head that a lane has.
template <typename F>
void ForColumns(int64_t width, const F& f) {
  if (width <= 8 * kLanes) {
    f.template operator()<8>();
  } else if (width <= 16 * kLanes) {
    f.template operator()<16>();
  } else {
    f.template operator()<32>();
  }
}

size_t BytesOf(const AttentionShape& s, int tiles, int weights) {
  const int64_t floats = tiles * kTile * (s.width + 1) + weights * kTile * kWeightPitch;
  return static_cast<size_t>(floats) * sizeof(float);
}

dim3 GridOf(const AttentionShape& s, int64_t heads) {
  return {BlocksFor(s.time, kTile), static_cast<unsigned>(heads), static_cast<unsigned>(s.batch)};
}

}  // namespace

cudaError_t LaunchF32(const Attention& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  ForColumns(s.width, [&]<int kColumns>() {
    auto* kernel = Forward<kColumns>;
    const size_t bytes = BytesOf(s, 3, 1);
    AllowShared(kernel, bytes);
    kernel<<<GridOf(s, s.heads), kTileThreads, bytes, stream>>>(a);
  });
  return cudaGetLastError();
}

cudaError_t LaunchF32(const AttentionGrad& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  ForColumns(s.width, [&]<int kColumns>() {
    auto* keys = KeysGrad<kColumns>;
    const size_t keys_bytes = BytesOf(s, 4, 2);
    AllowShared(keys, keys_bytes);
    keys<<<GridOf(s, s.kv_heads), kTileThreads, keys_bytes, stream>>>(a);
    auto* queries = QueriesGrad<kColumns>;
    const size_t queries_bytes = BytesOf(s, 4, 1);
    AllowShared(queries, queries_bytes);
    queries<<<GridOf(s, s.heads), kTileThreads, queries_bytes, stream>>>(a);
  });
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels
