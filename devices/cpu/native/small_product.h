// Products of small matrices of floats in scratch memory (x_loops.cc only): the sums of a tile stay
// in registers.
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

template <int kRows, int kVectors>
OC_INLINE void Tile(LeftMatrix a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                    int64_t depth, bool add) {
  vf sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = add ? Load(c + r * c_stride + v * kLanes) : vf{};
    }
  }
  const float* at = a.at;
  for (int64_t k = 0; k < depth; ++k, at += a.k_stride, b += b_stride) {
    vf right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = Load(b + v * kLanes);
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
    for (int v = 0; v < kVectors; ++v) Store(c + r * c_stride + v * kLanes, sum[r][v]);
  }
}

template <int kRows>
OC_INLINE void TileColumns(LeftMatrix a, const float* b, int64_t b_stride, float* c,
                           int64_t c_stride, int64_t depth, int vectors, bool add) {
  if (vectors == 2) {
    Tile<kRows, 2>(a, b, b_stride, c, c_stride, depth, add);
  } else {
    Tile<kRows, 1>(a, b, b_stride, c, c_stride, depth, add);
  }
}

// c[rows][columns] = or += a b: `columns` a multiple of kLanes.
inline void Product(int64_t rows, int64_t columns, int64_t depth, LeftMatrix a, const float* b,
                    int64_t b_stride, float* c, int64_t c_stride, bool add) {
  for (int64_t j = 0; j < columns; j += kPanel) {
    const int vectors = columns - j >= kPanel ? 2 : 1;
    int64_t i = 0;
    for (; i + kTileRows <= rows; i += kTileRows) {
      const LeftMatrix part = {a.at + i * a.row_stride, a.row_stride, a.k_stride};
      TileColumns<kTileRows>(part, b + j, b_stride, c + i * c_stride + j, c_stride, depth, vectors,
                             add);
    }
    const LeftMatrix rest = {a.at + i * a.row_stride, a.row_stride, a.k_stride};
    const auto tail = [&]<int kRows>() OC_LAMBDA {
      TileColumns<kRows>(rest, b + j, b_stride, c + i * c_stride + j, c_stride, depth, vectors,
                         add);
    };
    switch (rows - i) {
      case 1:
        tail.template operator()<1>();
        break;
      case 2:
        tail.template operator()<2>();
        break;
      case 3:
        tail.template operator()<3>();
        break;
      case 4:
        tail.template operator()<4>();
        break;
      case 5:
        tail.template operator()<5>();
        break;
      case 6:
        tail.template operator()<6>();
        break;
      case 7:
        tail.template operator()<7>();
        break;
      default:
        break;
    }
  }
}

}  // namespace oc::cpu::OC_CPU_ISA
