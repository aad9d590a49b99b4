#include "openclaw/devices/cuda/kernels/move.h"

#include "openclaw/devices/cuda/kernels/common.cuh"

namespace oc::cuda::kernels {
namespace {

// Elements, 1 to 16 bytes at once.
template <int kBytes>
struct alignas(kBytes) Unit {
  uint8_t bytes[kBytes];
};
template <int kBytes>
struct UnitOf {
  using T = Unit<kBytes>;
};
template <>
struct UnitOf<1> {
  using T = uint8_t;
};
template <>
struct UnitOf<2> {
  using T = uint16_t;
};
template <>
struct UnitOf<4> {
  using T = uint32_t;
};
template <>
struct UnitOf<8> {
  using T = uint2;
};
template <>
struct UnitOf<16> {
  using T = uint4;
};

template <typename F>
cudaError_t ForUnit(int bytes, F f) {
  switch (bytes) {
    case 1:
      return f(UnitOf<1>::T{});
    case 2:
      return f(UnitOf<2>::T{});
    case 4:
      return f(UnitOf<4>::T{});
    case 8:
      return f(UnitOf<8>::T{});
    case 16:
      return f(UnitOf<16>::T{});
    default:
      return cudaErrorInvalidValue;
  }
}

template <typename Index>
__device__ __forceinline__ int64_t Offset(const Walk& walk, int64_t i) {
  int64_t offset = 0;
  auto rest = static_cast<Index>(i);
#pragma unroll
  for (int d = kDims - 1; d >= 0; --d) {
    if (d >= walk.dims) continue;
    const auto size = static_cast<Index>(walk.sizes[d]);
    offset += static_cast<int64_t>(rest % size) * walk.strides[d];
    rest /= size;
  }
  return offset;
}

template <typename M, typename Index>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(const M* x, const Walk walk, M* y, int64_t n) {
  constexpr int kEach = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kEach) + threadIdx.x;
  M v[kEach];
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = first + u * kThreads;
    if (i < n) v[u] = x[Offset<Index>(walk, i)];
  }
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = first + u * kThreads;
    if (i < n) y[i] = v[u];
  }
}

// y[b][c][r] = x[b][r][c] where x's rows are `row` apart and its planes `plane`: tiles through
// shared memory, so that both sides are read and written along their rows.
constexpr int kTile = 32, kTileRows = 8;
template <typename M>
__global__ void TransposeKernel(const M* x, int64_t plane, int64_t row, M* y, int64_t rows,
                                int64_t columns, int64_t tiles_down) {
  __shared__ M tile[kTile][kTile + 1];
  const int64_t b = blockIdx.z;
  const int64_t c0 = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int64_t down = blockIdx.y; down < tiles_down; down += gridDim.y) {
    const int64_t r0 = down * kTile;
    for (int k = threadIdx.y; k < kTile; k += kTileRows) {
      const int64_t r = r0 + k, c = c0 + threadIdx.x;
      if (r < rows && c < columns) tile[k][threadIdx.x] = x[b * plane + r * row + c];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += kTileRows) {
      const int64_t c = c0 + k, r = r0 + threadIdx.x;
      if (r < rows && c < columns) y[(b * columns + c) * rows + r] = tile[threadIdx.x][k];
    }
    __syncthreads();
  }
}

// The same for elements of two bytes, two at a time: rows, columns, row and plane are even.
constexpr int kPairTile = 64;
__global__ void TransposePairsKernel(const uint16_t* x, int64_t plane, int64_t row, uint16_t* y,
                                     int64_t rows, int64_t columns, int64_t tiles_down) {
  __shared__ uint16_t tile[kPairTile][kPairTile + 2];
  const int64_t b = blockIdx.z;
  const int64_t c0 = static_cast<int64_t>(blockIdx.x) * kPairTile;
  const int pair = static_cast<int>(threadIdx.x) * 2;
  for (int64_t down = blockIdx.y; down < tiles_down; down += gridDim.y) {
    const int64_t r0 = down * kPairTile;
#pragma unroll
    for (int k = 0; k < kPairTile; k += kTileRows) {
      const int64_t r = r0 + k + threadIdx.y, c = c0 + pair;
      if (r >= rows || c >= columns) continue;
      *reinterpret_cast<uint32_t*>(&tile[k + threadIdx.y][pair]) =
          *reinterpret_cast<const uint32_t*>(x + b * plane + r * row + c);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPairTile; k += kTileRows) {
      const int at = k + static_cast<int>(threadIdx.y);
      const int64_t c = c0 + at, r = r0 + pair;
      if (r >= rows || c >= columns) continue;
      const uint32_t both = tile[pair][at] | static_cast<uint32_t>(tile[pair + 1][at]) << 16;
      *reinterpret_cast<uint32_t*>(y + (b * columns + c) * rows + r) = both;
    }
    __syncthreads();
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    RowsKernel(const M* x, int64_t x_row, M* y, int64_t y_row, int64_t n, int64_t width,
               bool narrow) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  int64_t r, c;
  if (narrow) {
    const auto w = static_cast<uint32_t>(width);
    r = static_cast<uint32_t>(i) / w;
    c = static_cast<uint32_t>(i) % w;
  } else {
    r = i / width;
    c = i % width;
  }
  y[r * y_row + c] = x[r * x_row + c];
}

int64_t Elements(const Walk& walk) {
  int64_t n = 1;
  for (int d = 0; d < walk.dims; ++d) n *= walk.sizes[d];
  return n;
}

// The walk in units of `factor` elements; false where it cannot be.
bool Widen(Walk& walk, int factor) {
  if (walk.dims == 0) return false;
  const int last = walk.dims - 1;
  if (walk.strides[last] != 1 || walk.sizes[last] % factor != 0) return false;
  for (int d = 0; d < last; ++d) {
    if (walk.strides[d] % factor != 0) return false;
  }
  walk.sizes[last] /= factor;
  for (int d = 0; d < last; ++d) walk.strides[d] /= factor;
  return true;
}

// [b] planes, columns, rows: the last two swapped, of a tensor whose rows lie together.
bool IsTranspose(const Walk& walk) {
  if (walk.dims != 2 && walk.dims != 3) return false;
  const int d = walk.dims - 2;
  constexpr int64_t kMostPlanes = 65535;
  return walk.strides[d] == 1 && walk.strides[d + 1] != 1 && walk.strides[d + 1] != 0 &&
         walk.sizes[d] >= kTileRows && walk.sizes[d + 1] >= kTileRows &&
         (d == 0 || walk.sizes[0] <= kMostPlanes);
}

}  // namespace

cudaError_t Gather(int bytes, const void* x, const Walk& given, void* y, cudaStream_t stream) {
  Walk walk = given;
  if (Elements(walk) == 0) return cudaSuccess;
  if (IsTranspose(walk)) {
    const int d = walk.dims - 2;
    const int64_t columns = walk.sizes[d], rows = walk.sizes[d + 1];
    const int64_t plane = d == 0 ? 0 : walk.strides[0], row = walk.strides[d + 1];
    const bool pairs = bytes == 2 && (rows | columns | plane | row) % 2 == 0 && Aligned(x, 4) &&
                       Aligned(y, 4);
    const int tile = pairs ? kPairTile : kTile;
    const int64_t tiles_down = DivUp(rows, tile);
    constexpr int64_t kMost = 65535;
    const dim3 grid(static_cast<unsigned>(DivUp(columns, tile)),
                    static_cast<unsigned>(tiles_down < kMost ? tiles_down : kMost),
                    static_cast<unsigned>(d == 0 ? 1 : walk.sizes[0]));
    if (pairs) {
      TransposePairsKernel<<<grid, dim3(kTile, kTileRows), 0, stream>>>(
          static_cast<const uint16_t*>(x), plane, row, static_cast<uint16_t*>(y), rows, columns,
          tiles_down);
      return cudaGetLastError();
    }
    return ForUnit(bytes, [&]<typename M>(M) {
      TransposeKernel<M><<<grid, dim3(kTile, kTileRows), 0, stream>>>(
          static_cast<const M*>(x), plane, row, static_cast<M*>(y), rows, columns, tiles_down);
      return cudaGetLastError();
    });
  }
  while (bytes < 16 && Aligned(x, bytes * 2) && Aligned(y, bytes * 2) && Widen(walk, 2)) bytes *= 2;
  const int64_t n = Elements(walk);
  const auto blocks = static_cast<unsigned>(DivUp(n, kThreads * 4));
  return ForUnit(bytes, [&]<typename M>(M) {
    if (n <= INT64_C(0xffffffff)) {
      GatherKernel<M, uint32_t><<<blocks, kThreads, 0, stream>>>(
          static_cast<const M*>(x), walk, static_cast<M*>(y), n);
    } else {
      GatherKernel<M, uint64_t><<<blocks, kThreads, 0, stream>>>(
          static_cast<const M*>(x), walk, static_cast<M*>(y), n);
    }
    return cudaGetLastError();
  });
}

cudaError_t CopyRows(const void* x, int64_t x_row, void* y, int64_t y_row, int64_t rows,
                     int64_t width, cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  if (rows == 1 || (x_row == width && y_row == width)) {
    return cudaMemcpyAsync(y, x, static_cast<size_t>(rows * width), cudaMemcpyDeviceToDevice,
                           stream);
  }
  int bytes = 16;
  const auto all = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y) |
                   static_cast<uintptr_t>(x_row | y_row | width);
  while (all % static_cast<uintptr_t>(bytes) != 0) bytes /= 2;
  return ForUnit(bytes, [&]<typename M>(M) {
    const int64_t n = rows * (width / bytes);
    RowsKernel<M><<<static_cast<unsigned>(DivUp(n, kThreads)), kThreads, 0, stream>>>(
        static_cast<const M*>(x), x_row / bytes, static_cast<M*>(y), y_row / bytes, n,
        width / bytes, n <= INT64_C(0xffffffff));
    return cudaGetLastError();
  });
}

}  // namespace oc::cuda::kernels
