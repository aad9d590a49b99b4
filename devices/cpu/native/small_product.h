// Products of small matrices of floats (x_loops.cc only): the sums of a tile stay in registers, and
// what a tile reads is expected in the caches.
#pragma once

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {

// Rows of a tile, of two vectors each: AVX-512 has 32 registers, AVX2 16.
#ifdef __AVX512F__
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kPanel = 2 * kLanes;  // columns of a tile

// Where element (row, k) of the left matrix lies: at[row * row_stride + k * k_stride].
struct LeftMatrix {
  const float* at;
  int64_t row_stride, k_stride;
};

// Where sums go, and what becomes of them: c = sums + bias, or c += sums; then relu.
struct SumMatrix {
  float* at;
  int64_t stride;
  bool add = false;
  const float* bias = nullptr;  // a number a column; not beside `add`
  bool relu = false;

  OC_INLINE SumMatrix From(int64_t row, int64_t column) const {
    return {at + row * stride + column, stride, add, bias == nullptr ? bias : bias + column, relu};
  }
};

// The last of a row's kVectors vectors is `last` (Full or Part).
template <int kRows, int kVectors, typename Last>
OC_INLINE void Tile(LeftMatrix a, const float* b, int64_t b_stride, const SumMatrix& c,
                    int64_t depth, Last last) {
  const auto load = [&](const float* from, int v) OC_LAMBDA {
    return v + 1 < kVectors ? Load(from + v * kLanes) : Load(from + v * kLanes, last);
  };
  vf sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = c.add ? load(c.at + r * c.stride, v) : c.bias != nullptr ? load(c.bias, v) : vf{};
    }
  }
  const float* at = a.at;
  for (int64_t k = 0; k < depth; ++k, at += a.k_stride, b += b_stride) {
    vf right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = load(b, v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const vf left = Set(at[r * a.row_stride]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const vf y = c.relu ? Max(vf{}, sum[r][v]) : sum[r][v];
      float* const to = c.at + r * c.stride + v * kLanes;
      if (v + 1 < kVectors) {
        Store(to, y);
      } else {
        Store(to, y, last);
      }
    }
  }
}

// One panel of columns: `last` of the second vector where it has more than one.
template <typename Last>
OC_INLINE void TilePanel(int rows, LeftMatrix a, const float* b, int64_t b_stride,
                         const SumMatrix& c, int64_t depth, bool two, Last last) {
  const auto tile = [&]<int kRows>() OC_LAMBDA {
    if (two) {
      Tile<kRows, 2>(a, b, b_stride, c, depth, last);
    } else {
      Tile<kRows, 1>(a, b, b_stride, c, depth, last);
    }
  };
  switch (rows) {
    case 1:
      return tile.template operator()<1>();
    case 2:
      return tile.template operator()<2>();
    case 3:
      return tile.template operator()<3>();
    case 4:
      return tile.template operator()<4>();
    case 5:
      return tile.template operator()<5>();
    case 6:
      return tile.template operator()<6>();
#ifdef __AVX512F__
    case 7:
      return tile.template operator()<7>();
    case 8:
      return tile.template operator()<8>();
#endif
    default:
      return;
  }
}

// c[rows][columns] of a b. `columns` is a multiple of kLanes unless kAnyColumns. Rows are cut into
// tiles as even as can be: what has few of them waits for its own additions.
template <bool kAnyColumns = false>
inline void Product(int64_t rows, int64_t columns, int64_t depth, LeftMatrix a, const float* b,
                    int64_t b_stride, const SumMatrix& c) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  if (tiles == 0) return;
  const int64_t each = rows / tiles, more = rows % tiles;
  for (int64_t j = 0; j < columns; j += kPanel) {
    const int64_t width = columns - j < kPanel ? columns - j : kPanel;
    const bool two = width > kLanes;
    const int rest = static_cast<int>(width % kLanes);
    for (int64_t t = 0, i = 0; t < tiles; ++t) {
      const int count = static_cast<int>(each + (t < more ? 1 : 0));
      const LeftMatrix left = {a.at + i * a.row_stride, a.row_stride, a.k_stride};
      const SumMatrix sums = c.From(i, j);
      if (kAnyColumns && rest != 0) {
        TilePanel(count, left, b + j, b_stride, sums, depth, two, Part(rest));
      } else {
        TilePanel(count, left, b + j, b_stride, sums, depth, two, Full{});
      }
      i += count;
    }
  }
}

}  // namespace oc::cpu::OC_CPU_ISA
