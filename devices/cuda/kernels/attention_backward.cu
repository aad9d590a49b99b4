#include "openclaw/devices/cuda/kernels/attention_tiles.cuh"

namespace oc::cuda::kernels {
namespace {

// Which gradients a launch of the kernel of keys makes: both where the registers hold them.
enum class Of { kBoth, kKeys, kValues };

constexpr int kQueryRows = 32;
template <int kD>
constexpr int kKeyRows = kD <= 128 ? 64 : 32;

template <typename T, int kD>
constexpr size_t kKeysBytes =
    (2 * kBlockRows + 4 * kQueryRows)*kPitch<kD> * sizeof(T) +
    4 * kQueryRows * sizeof(float);
template <typename T, int kD>
constexpr size_t kQueriesBytes = (2 * kBlockRows + 4 * kKeyRows<kD>)*kPitch<kD> * sizeof(T);

// delta[row] = dy . y, a warp a row of a head. It equals the sum over keys of p * dp.
template <typename T>
__global__ void __launch_bounds__(256) Deltas(AttentionGrad a) {
  const AttentionShape& s = a.shape;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (256 / kWarp) + threadIdx.x / kWarp;
  if (i >= s.batch * s.time * s.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* dy = static_cast<const T*>(a.dy) + i * s.width;
  const T* y = static_cast<const T*>(a.y) + i * s.width;
  float sum = 0;
  for (int64_t c = lane; c < s.width; c += kWarp) sum += ToFloat(dy[c]) * ToFloat(y[c]);
  sum = WarpReduce(sum, AddOf());
  const int64_t head = i % s.heads, t = i / s.heads % s.time, batch = i / s.heads / s.time;
  if (lane == 0) a.delta[(batch * s.heads + head) * s.time + t] = sum;
}

// A block: 64 keys of a head, which gather from the tiles of queries, of all heads that read them,
// that see them. Scores are transposed: a warp has 16 keys.
template <typename T, int kD, Of kOf>
__global__ void __launch_bounds__(kAttentionThreads, kD <= 64 ? 3 : 1)
    KeysGrad(AttentionGrad a, bool aligned, bool pairs) {
  constexpr int kRows = kQueryRows, kTile = kRows * kPitch<kD>;
  constexpr bool kKeys = kOf != Of::kValues, kValues = kOf != Of::kKeys;
  extern __shared__ __align__(16) unsigned char shared[];
  T* k = reinterpret_cast<T*>(shared);
  T* v = k + kBlockRows * kPitch<kD>;
  T* q = v + kBlockRows * kPitch<kD>;
  T* dy = q + 2 * kTile;
  float* lse = reinterpret_cast<float*>(dy + 2 * kTile);  // in powers of two
  float* delta = lse + 2 * kRows;
  const AttentionShape& s = a.shape;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockRows;
  const int64_t sharers = s.heads / s.kv_heads, first_head = blockIdx.y * sharers;
  const int64_t batch = blockIdx.z;
  const HeadPointers keys_at(s, batch, first_head);
  const T* qkv = static_cast<const T*>(a.qkv);
  const int width = static_cast<int>(s.width);
  const int64_t first_tile = s.causal ? first / kRows : 0;
  const int64_t tiles = (s.time + kRows - 1) / kRows - first_tile, steps = tiles * sharers;
  const auto load = [&](int64_t step) {
    const HeadPointers at(s, batch, first_head + step / tiles);
    const int64_t row = (first_tile + step % tiles) * kRows, rows = s.time - row;
    const int buffer = static_cast<int>(step % 2);
    LoadTile<T, kD, kRows>(q + buffer * kTile, qkv + at.q + row * at.row, at.row, rows, width,
                           aligned);
    LoadTile<T, kD, kRows>(dy + buffer * kTile, static_cast<const T*>(a.dy) + at.y + row * at.y_row,
                           at.y_row, rows, width, aligned);
    const int i = static_cast<int>(threadIdx.x);
    if (i < kRows) {
      // A row that is none has the probability 0 everywhere.
      lse[buffer * kRows + i] = i < rows ? a.lse[at.lse + row + i] * kLog2e : INFINITY;
      delta[buffer * kRows + i] = i < rows ? a.delta[at.lse + row + i] : 0.0f;
    }
  };
  LoadTile<T, kD, kBlockRows>(k, qkv + keys_at.k + first * keys_at.row, keys_at.row, s.time - first,
                              width, aligned);
  LoadTile<T, kD, kBlockRows>(v, qkv + keys_at.v + first * keys_at.row, keys_at.row, s.time - first,
                              width, aligned);
  load(0);
  CommitCopies();
  const int warp_row = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
  const int64_t first_key = first + warp_row;
  const float scale = s.scale * kLog2e;
  Accumulators<kKeys ? kD / 8 : 1> dk;
  Accumulators<kValues ? kD / 8 : 1> dv;
  dk.Clear();
  dv.Clear();
  for (int64_t step = 0; step < steps; ++step) {
    const int buffer = static_cast<int>(step % 2);
    WaitForCopies<0>();
    __syncthreads();  // also: the other buffer is not read any more
    if (step + 1 < steps) load(step + 1);
    CommitCopies();
    const T* q_tile = q + buffer * kTile;
    const T* dy_tile = dy + buffer * kTile;
    const int64_t first_query = (first_tile + step % tiles) * kRows;
    Accumulators<kRows / 8> p;
    p.Clear();
    AddRowProducts<T, kD>(p, k + warp_row * kPitch<kD>, q_tile);
    const bool whole = !s.causal || first_key + kWarpRows - 1 <= first_query;
    p.ForEach([&](int row, int column, float& score) {
      const float power = Exp2(score * scale - lse[buffer * kRows + column]);
      score = whole || first_key + row <= first_query + column ? power : 0.0f;
    });
    if constexpr (kValues) AddWeighted<T, kD>(dv, p, dy_tile);
    if constexpr (kKeys) {
      Accumulators<kRows / 8> ds;
      ds.Clear();
      AddRowProducts<T, kD>(ds, v + warp_row * kPitch<kD>, dy_tile);
#pragma unroll
      for (int t = 0; t < kRows / 8; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = t * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + e % 2;
          ds.at[t][e] = p.at[t][e] * (ds.at[t][e] - delta[buffer * kRows + column]);
        }
      }
      AddWeighted<T, kD>(dk, ds, q_tile);
    }
  }
  T* dqkv = static_cast<T*>(a.dqkv);
  const int64_t rows = s.time - first_key;
  if constexpr (kKeys) {
    StoreRows(dqkv + keys_at.k + first_key * keys_at.row, keys_at.row, rows, width, pairs, dk,
              s.scale, s.scale);
  }
  if constexpr (kValues) {
    StoreRows(dqkv + keys_at.v + first_key * keys_at.row, keys_at.row, rows, width, pairs, dv, 1.0f,
              1.0f);
  }
}

// A block: 64 queries of a head, tiles of keys passing.
template <typename T, int kD>
__global__ void __launch_bounds__(kAttentionThreads) QueriesGrad(AttentionGrad a, bool aligned,
                                                                 bool pairs) {
  constexpr int kRows = kKeyRows<kD>, kTile = kRows * kPitch<kD>;
  extern __shared__ __align__(16) unsigned char shared[];
  T* q = reinterpret_cast<T*>(shared);
  T* dy = q + kBlockRows * kPitch<kD>;
  T* k = dy + kBlockRows * kPitch<kD>;
  T* v = k + 2 * kTile;
  const AttentionShape& s = a.shape;
  const int64_t first = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kBlockRows;
  const HeadPointers at(s, blockIdx.z, blockIdx.y);
  const T* qkv = static_cast<const T*>(a.qkv);
  const int width = static_cast<int>(s.width);
  const int64_t keys = s.causal ? min(s.time, first + kBlockRows) : s.time;
  const int tiles = static_cast<int>((keys + kRows - 1) / kRows);
  const auto load = [&](int t) {
    const int64_t row = static_cast<int64_t>(t) * kRows;
    LoadTile<T, kD, kRows>(k + t % 2 * kTile, qkv + at.k + row * at.row, at.row, s.time - row,
                           width, aligned);
    LoadTile<T, kD, kRows>(v + t % 2 * kTile, qkv + at.v + row * at.row, at.row, s.time - row,
                           width, aligned);
  };
  LoadTile<T, kD, kBlockRows>(q, qkv + at.q + first * at.row, at.row, s.time - first, width,
                              aligned);
  LoadTile<T, kD, kBlockRows>(dy, static_cast<const T*>(a.dy) + at.y + first * at.y_row, at.y_row,
                              s.time - first, width, aligned);
  load(0);
  CommitCopies();
  const int warp_row = static_cast<int>(threadIdx.x) / kWarp * kWarpRows;
  const int64_t first_row = first + warp_row;
  const float scale = s.scale * kLog2e;
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first_row + static_cast<int>(threadIdx.x) % kWarp / 4 + half * 8;
    lse[half] = row < s.time ? a.lse[at.lse + row] * kLog2e : INFINITY;
    delta[half] = row < s.time ? a.delta[at.lse + row] : 0.0f;
  }
  Accumulators<kD / 8> dq;
  dq.Clear();
  for (int t = 0; t < tiles; ++t) {
    WaitForCopies<0>();
    __syncthreads();
    if (t + 1 < tiles) load(t + 1);
    CommitCopies();
    const T* k_tile = k + t % 2 * kTile;
    Accumulators<kRows / 8> p, ds;
    p.Clear();
    ds.Clear();
    AddRowProducts<T, kD>(p, q + warp_row * kPitch<kD>, k_tile);
    AddRowProducts<T, kD>(ds, dy + warp_row * kPitch<kD>, v + t % 2 * kTile);
    const int64_t first_key = static_cast<int64_t>(t) * kRows;
    const bool whole =
        first_key + kRows <= s.time && (!s.causal || first_key + kRows - 1 <= first_row);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int tile = 0; tile < kRows / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t key = first_key + tile * 8 + lane % 4 * 2 + e % 2;
        const int64_t row = first_row + lane / 4 + e / 2 * 8;
        const bool seen = whole || (key < s.time && (!s.causal || key <= row));
        const float power = Exp2(p.at[tile][e] * scale - lse[e / 2]);
        ds.at[tile][e] = seen ? power * (ds.at[tile][e] - delta[e / 2]) : 0.0f;
      }
    }
    AddWeighted<T, kD>(dq, ds, k_tile);
  }
  StoreRows(static_cast<T*>(a.dqkv) + at.q + first_row * at.row, at.row, s.time - first_row, width,
            pairs, dq, s.scale, s.scale);
}

template <typename T, int kD, Of kOf>
void LaunchKeys(const AttentionGrad& a, bool aligned, bool pairs, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const dim3 grid(BlocksFor(s.time, kBlockRows), static_cast<unsigned>(s.kv_heads),
                  static_cast<unsigned>(s.batch));
  auto* kernel = KeysGrad<T, kD, kOf>;
  constexpr size_t kBytes = kKeysBytes<T, kD>;
  AllowShared(kernel, kBytes);
  kernel<<<grid, kAttentionThreads, kBytes, stream>>>(a, aligned, pairs);
}

template <typename T>
cudaError_t LaunchNarrow(const AttentionGrad& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const bool aligned = HeadsAreAligned(s) && AreAligned(a.qkv, a.dy);
  const bool pairs = s.width % 2 == 0 && reinterpret_cast<uintptr_t>(a.dqkv) % 4 == 0;
  ForHeadWidth(s.width, [&]<int kD>() {
    if constexpr (kD <= 128) {
      LaunchKeys<T, kD, Of::kBoth>(a, aligned, pairs, stream);
    } else {
      LaunchKeys<T, kD, Of::kKeys>(a, aligned, pairs, stream);
      LaunchKeys<T, kD, Of::kValues>(a, aligned, pairs, stream);
    }
    const dim3 grid(BlocksFor(s.time, kBlockRows), static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(s.batch));
    auto* kernel = QueriesGrad<T, kD>;
    constexpr size_t kBytes = kQueriesBytes<T, kD>;
    AllowShared(kernel, kBytes);
    kernel<<<grid, kAttentionThreads, kBytes, stream>>>(a, aligned, pairs);
  });
  return cudaGetLastError();
}

}  // namespace

cudaError_t Launch(const AttentionGrad& a, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  if (s.batch == 0 || s.time == 0) return cudaSuccess;
  const cudaError_t code = ForFloat(s.type, [&]<typename T>(T) {
    Deltas<T><<<BlocksFor(s.batch * s.time * s.heads, 256 / kWarp), 256, 0, stream>>>(a);
    return cudaGetLastError();
  });
  if (code != cudaSuccess) return code;
  switch (s.type) {
    case Type::kBF16:
      return LaunchNarrow<__nv_bfloat16>(a, stream);
    case Type::kF16:
      return LaunchNarrow<__half>(a, stream);
    default:
      return LaunchF32(a, stream);
  }
}

}  // namespace oc::cuda::kernels
