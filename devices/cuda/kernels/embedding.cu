#include "openclaw/devices/cuda/kernels/embedding.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

// The sort: tiles of keys, a digit a pass.
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int kSortThreads = 256, kSortWarps = kSortThreads / kWarp;
constexpr int kTile = 1024, kTileOfWarp = kTile / kSortWarps;
constexpr int kScanThreads = 1024;
// The sums: so many sorted positions a block, so many packs of the row.
constexpr int kWalk = 64, kWalkThreads = 128, kAhead = 8;

template <typename T, int V>
__global__ void __launch_bounds__(256) Lookup(Embedding e) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * (256 / kWarp) + threadIdx.x / kWarp;
  if (n >= e.count) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int id = e.ids[n];
  const bool known = id >= 0 && id < e.vocabulary;
  if (!known && lane == 0) ReportBad(e.flags, n, id);
  const T* from = static_cast<const T*>(e.table) + static_cast<int64_t>(known ? id : 0) * e.width;
  T* to = static_cast<T*>(e.y) + n * e.width;
  for (int64_t c = static_cast<int64_t>(lane) * V; c < e.width; c += kWarp * V) {
    Store(to + c, known ? Load<V>(from + c) : Pack<T, V>::Zero());
  }
}

// Where the sort keeps what. Keys are ids, and `vocabulary` for those that are none.
struct Sort {
  int64_t count = 0, vocabulary = 0, tiles = 0;
  const int32_t* ids = nullptr;
  uint32_t* keys[2] = {};
  int32_t* positions[2] = {};
  int32_t* counts = nullptr;  // [digit][tile]
  Flags flags;
};

// Of the pass that reads keys[from]; the first reads the ids (from is -1).
__device__ __forceinline__ uint32_t KeyAt(const Sort& s, int from, int64_t i) {
  if (from >= 0) return s.keys[from][i];
  const int id = s.ids[i];
  return id >= 0 && id < s.vocabulary ? static_cast<uint32_t>(id)
                                      : static_cast<uint32_t>(s.vocabulary);
}

__global__ void __launch_bounds__(kSortThreads) CountDigits(Sort s, int from, int shift) {
  __shared__ int32_t counts[kDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int k = static_cast<int>(threadIdx.x); k < kTile; k += kSortThreads) {
    const int64_t i = first + k;
    if (i >= s.count) break;
    const uint32_t key = KeyAt(s, from, i);
    if (from < 0 && key == s.vocabulary) ReportBad(s.flags, i, s.ids[i]);
    atomicAdd(&counts[(key >> shift) % kDigits], 1);
  }
  __syncthreads();
  s.counts[threadIdx.x * s.tiles + blockIdx.x] = counts[threadIdx.x];
}

// Counts become the sums of those before them: one block, a run of counts a thread.
__global__ void __launch_bounds__(kScanThreads) ScanCounts(Sort s) {
  __shared__ int32_t totals[kScanThreads / kWarp];
  const int64_t n = s.tiles * kDigits, run = (n + kScanThreads - 1) / kScanThreads;
  const int64_t begin = min(n, threadIdx.x * run), end = min(n, begin + run);
  int32_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += s.counts[i];
  int32_t sum = own;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int step = 1; step < kWarp; step *= 2) {
    const int32_t before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == kWarp - 1) totals[threadIdx.x / kWarp] = sum;
  __syncthreads();
  sum -= own;
  for (unsigned w = 0; w < threadIdx.x / kWarp; ++w) sum += totals[w];
  for (int64_t i = begin; i < end; ++i) {
    const int32_t count = s.counts[i];
    s.counts[i] = sum;
    sum += count;
  }
}

// Each warp places its run of the tile, in order: equal digits stay in order.
__global__ void __launch_bounds__(kSortThreads) PlaceKeys(Sort s, int from, int to, int shift) {
  __shared__ int32_t next[kSortWarps][kDigits + 1];  // the last: of places beyond the keys
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int w = 0; w < kSortWarps; ++w) next[w][threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile + warp * kTileOfWarp;
  for (int k = lane; k < kTileOfWarp; k += kWarp) {
    if (first + k >= s.count) break;
    atomicAdd(&next[warp][(KeyAt(s, from, first + k) >> shift) % kDigits], 1);
  }
  __syncthreads();
  int32_t place = s.counts[threadIdx.x * s.tiles + blockIdx.x];
  for (int w = 0; w < kSortWarps; ++w) {
    const int32_t count = next[w][threadIdx.x];
    next[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
  for (int k = lane; k < kTileOfWarp; k += kWarp) {
    const int64_t i = first + k;
    const bool valid = i < s.count;
    const uint32_t key = valid ? KeyAt(s, from, i) : 0;
    const uint32_t digit = valid ? (key >> shift) % kDigits : kDigits;
    const unsigned same = __match_any_sync(0xffffffffu, digit);
    const int before = __popc(same & ((1u << lane) - 1));
    const int32_t at = next[warp][digit] + before;
    __syncwarp();
    if (before == 0) next[warp][digit] += __popc(same);
    __syncwarp();
    if (!valid) continue;
    s.keys[to][at] = key;
    s.positions[to][at] = from < 0 ? static_cast<int32_t>(i) : s.positions[from][i];
  }
}

// Sorted positions and what is made of them.
struct Walk {
  EmbeddingGrad e;
  const uint32_t* keys = nullptr;
  const int32_t* positions = nullptr;
  float* partials = nullptr;  // [tile][2][width]: a run from before, a run that goes on
};

template <int V>
__device__ __forceinline__ void PutRow(const EmbeddingGrad& e, int64_t at, float (&sum)[V]) {
  if (e.add) {
    float before[V];
    LoadAny<V>(e.dtable, e.table_type, at, before);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += before[i];
  }
  StoreAny<V>(e.dtable, e.table_type, at, sum);
}

// Runs of one id that lie within the block's positions are done; what goes beyond is left as
// partial sums.
template <typename T, int V>
__global__ void __launch_bounds__(kWalkThreads) SumRuns(Walk w) {
  __shared__ uint32_t keys[kWalk + 2];  // with those before and after
  __shared__ int32_t positions[kWalk];
  const EmbeddingGrad& e = w.e;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWalk;
  const int n = static_cast<int>(min(static_cast<int64_t>(kWalk), e.count - first));
  for (int k = static_cast<int>(threadIdx.x); k < n + 2; k += kWalkThreads) {
    const int64_t i = first + k - 1;
    keys[k] = i >= 0 && i < e.count ? w.keys[i] : 0xffffffffu;
    if (k < n) positions[k] = w.positions[first + k];
  }
  __syncthreads();
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * kWalkThreads + threadIdx.x) * V;
  if (c >= e.width) return;
  const T* dy = static_cast<const T*>(e.dy) + c;
  float sum[V] = {};
  int start = 0;
  for (int block = 0; block < n; block += kAhead) {
    Pack<T, V> rows[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (block + a < n) rows[a] = Load<V>(dy + positions[block + a] * e.width);
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int j = block + a;
      if (j >= n) break;
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += rows[a][i];
      const uint32_t key = keys[j + 1];
      if (j + 1 < n && keys[j + 2] == key) continue;
      const bool from_before = start == 0 && keys[0] == key;
      const bool goes_on = j + 1 == n && keys[j + 2] == key;
      if (key < e.vocabulary) {
        if (from_before || goes_on) {
          const int64_t slot = static_cast<int64_t>(blockIdx.x) * 2 + (from_before ? 0 : 1);
          StoreAny<V>(w.partials, Type::kF32, slot * e.width + c, sum);
        } else {
          PutRow<V>(e, key * e.width + c, sum);
        }
      }
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] = 0;
      start = j + 1;
    }
  }
}

// A run that goes on beyond block b's positions: its sums of the blocks in their order.
template <int V>
__global__ void __launch_bounds__(kWalkThreads) JoinRuns(Walk w) {
  const EmbeddingGrad& e = w.e;
  const int64_t tile = blockIdx.x, next = (tile + 1) * kWalk;
  if (next >= e.count) return;
  const uint32_t key = w.keys[next - 1];
  if (key >= e.vocabulary || w.keys[next] != key) return;
  // One that comes from before is the earlier block's.
  const int64_t first = tile * kWalk;
  if (w.keys[first] == key && first > 0 && w.keys[first - 1] == key) return;
  const int64_t c = (static_cast<int64_t>(blockIdx.y) * kWalkThreads + threadIdx.x) * V;
  if (c >= e.width) return;
  float sum[V];
  LoadAny<V>(w.partials, Type::kF32, (tile * 2 + 1) * e.width + c, sum);
  for (int64_t t = tile + 1; t * kWalk < e.count && w.keys[t * kWalk] == key; ++t) {
    float more[V];
    LoadAny<V>(w.partials, Type::kF32, t * 2 * e.width + c, more);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += more[i];
  }
  PutRow<V>(e, key * e.width + c, sum);
}

int64_t Rounded(int64_t bytes) { return (bytes + 15) / 16 * 16; }
int64_t TilesOf(int64_t count) { return std::max<int64_t>(1, (count + kTile - 1) / kTile); }

template <typename T, int V>
void LaunchSums(const Walk& w, cudaStream_t stream) {
  const int64_t packs = (w.e.width + V - 1) / V;
  const dim3 grid(BlocksFor(w.e.count, kWalk), BlocksFor(packs, kWalkThreads));
  SumRuns<T, V><<<grid, kWalkThreads, 0, stream>>>(w);
  JoinRuns<V><<<grid, kWalkThreads, 0, stream>>>(w);
}

}  // namespace

cudaError_t Launch(const Embedding& e, cudaStream_t stream) {
  if (e.count == 0 || e.width == 0) return cudaSuccess;
  const unsigned blocks = BlocksFor(e.count, 256 / kWarp);
  return ForFloat(e.type, [&]<typename T>(T) {
    if (AreAligned(e.table, e.y) && e.width % kWide<T> == 0) {
      Lookup<T, kWide<T>><<<blocks, 256, 0, stream>>>(e);
    } else {
      Lookup<T, 1><<<blocks, 256, 0, stream>>>(e);
    }
    return cudaGetLastError();
  });
}

int64_t EmbeddingGradWorkspace(int64_t count, int64_t width) {
  const int64_t walks = (count + kWalk - 1) / kWalk;
  return 4 * Rounded(count * 4) + Rounded(TilesOf(count) * kDigits * 4) +
         walks * 2 * width * static_cast<int64_t>(sizeof(float));
}

cudaError_t Launch(const EmbeddingGrad& e, cudaStream_t stream) {
  if (e.width == 0 || e.vocabulary == 0) return cudaSuccess;
  if (!e.add) {
    const int64_t bytes = e.vocabulary * e.width * BytesOf(e.table_type);
    cudaMemsetAsync(e.dtable, 0, static_cast<size_t>(bytes), stream);
  }
  if (e.count == 0) return cudaSuccess;
  Sort s{.count = e.count,
         .vocabulary = e.vocabulary,
         .tiles = TilesOf(e.count),
         .ids = e.ids,
         .flags = e.flags};
  char* at = static_cast<char*>(e.workspace);
  const auto take = [&](int64_t bytes) {
    char* taken = at;
    at += Rounded(bytes);
    return taken;
  };
  for (int i = 0; i < 2; ++i) {
    s.keys[i] = reinterpret_cast<uint32_t*>(take(e.count * 4));
    s.positions[i] = reinterpret_cast<int32_t*>(take(e.count * 4));
  }
  s.counts = reinterpret_cast<int32_t*>(take(s.tiles * kDigits * 4));
  const auto blocks = static_cast<unsigned>(s.tiles);
  int from = -1, to = 0;
  for (int shift = 0; shift == 0 || (e.vocabulary >> shift) > 0; shift += kDigitBits) {
    to = from == 0 ? 1 : 0;
    CountDigits<<<blocks, kSortThreads, 0, stream>>>(s, from, shift);
    ScanCounts<<<1, kScanThreads, 0, stream>>>(s);
    PlaceKeys<<<blocks, kSortThreads, 0, stream>>>(s, from, to, shift);
    from = to;
  }
  const Walk w{e, s.keys[to], s.positions[to], reinterpret_cast<float*>(at)};
  return ForFloat(e.type, [&]<typename T>(T) {
    if (AreAligned(e.dy, e.dtable) && e.width % kWide<__half> == 0) {
      LaunchSums<T, kWide<T>>(w, stream);
    } else {
      LaunchSums<T, 1>(w, stream);
    }
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
