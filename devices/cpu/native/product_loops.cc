#include "openclaw/devices/cpu/native/product_loops.h"

#include "openclaw/devices/cpu/native/small_product.h"
#include "openclaw/devices/cpu/native/transpose16.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

constexpr int64_t kDepth = 256;  // of a panel, which stays in the first cache

// Blocks of kBlock x kBlock, the last ones overlapping those before them. At least kBlock columns
// and rows.
template <int kBlock, typename F>
OC_INLINE void PackBlocks(const float* b, int64_t ldb, int64_t columns, int64_t depth, float* panel,
                          int64_t width, const F& block) {
  for (int64_t j = 0; j < columns; j += kBlock) {
    const int64_t column = j + kBlock <= columns ? j : columns - kBlock;
    for (int64_t k = 0; k < depth; k += kBlock) {
      const int64_t row = k + kBlock <= depth ? k : depth - kBlock;
      block(reinterpret_cast<const uint32_t*>(b + column * ldb + row),
            reinterpret_cast<uint32_t*>(panel + row * width + column), ldb, width);
    }
  }
}

// panel[k][j] = b[j][k] for j < columns and k < depth; zeros up to `width`.
void PackTransposed(const float* b, int64_t ldb, int64_t columns, int64_t depth, float* panel,
                    int64_t width) {
  if (columns < width) {
    __builtin_memset(panel, 0, static_cast<uint64_t>(depth * width) * sizeof(float));
  }
  if (columns >= 16 && depth >= 16) {
    PackBlocks<16>(b, ldb, columns, depth, panel, width,
                   [](auto... args) OC_LAMBDA { Block16(args...); });
  } else if (columns >= 8 && depth >= 8) {
    PackBlocks<8>(b, ldb, columns, depth, panel, width,
                  [](auto... args) OC_LAMBDA { Block8(args...); });
  } else {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t k = 0; k < depth; ++k) panel[k * width + j] = b[j * ldb + k];
    }
  }
}

// Of few columns, the other form would leave most lanes of its tiles empty; but here the lanes of
// each sum are added up at its end, as long as kSumLanes vectors take.
bool SumsAlongDepth(const SmallProduct& p) {
  constexpr int64_t kSumLanes = 8;
  const int64_t lanes = (p.n + kLanes - 1) / kLanes * kLanes;
  return !p.transpose_a && p.transpose_b && p.n * (p.k + kSumLanes * kLanes) < lanes * p.k;
}

// Rows and columns of a tile of sums along the depth.
#ifdef __AVX512F__
constexpr int kDotRows = 4, kDotColumns = 5;
#else
constexpr int kDotRows = 2, kDotColumns = 4;
#endif

// c = a b', both in rows along the depth.
template <int kRows, int kColumns>
OC_INLINE void DotTile(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth,
                       const SumMatrix& c) {
  vf sum[kRows][kColumns] = {};
  ForVectors(depth, [&](int64_t k, auto part) OC_LAMBDA {
    vf right[kColumns];
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) right[j] = Load(b + j * ldb + k, part);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const vf left = Load(a + r * lda + k, part);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) sum[r][j] += left * right[j];
    }
  });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      float* const to = c.at + r * c.stride + j;
      float y = Sum(sum[r][j]);
      if (c.add) {
        y += *to;
      } else if (c.bias != nullptr) {
        y += c.bias[j];
      }
      *to = c.relu && y < 0 ? 0 : y;
    }
  }
}

template <int kRows>
OC_INLINE void DotRows(const SmallProduct& p, const float* a, const float* b, const SumMatrix& c) {
  const int64_t tiles = (p.n + kDotColumns - 1) / kDotColumns;
  for (int64_t t = 0, j = 0; t < tiles; ++t) {
    const int64_t columns = p.n / tiles + (t < p.n % tiles ? 1 : 0);
    const auto tile = [&]<int kColumns>() OC_LAMBDA {
      DotTile<kRows, kColumns>(a, p.lda, b + j * p.ldb, p.ldb, p.k, c.From(0, j));
    };
    switch (columns) {
      case 1:
        tile.template operator()<1>();
        break;
      case 2:
        tile.template operator()<2>();
        break;
      case 3:
        tile.template operator()<3>();
        break;
      case 4:
        tile.template operator()<4>();
        break;
      default:
        tile.template operator()<kDotColumns>();
    }
    j += columns;
  }
}

void MultiplyAlongDepth(const SmallProduct& p, const float* a, const float* b, const float* bias,
                        float* c) {
  const SumMatrix sums = {c, p.ldc, p.accumulate, p.accumulate ? nullptr : bias, p.relu};
  int64_t i = 0;
  for (; i + kDotRows <= p.m; i += kDotRows) {
    DotRows<kDotRows>(p, a + i * p.lda, b, sums.From(i, 0));
  }
  for (; i < p.m; ++i) DotRows<1>(p, a + i * p.lda, b, sums.From(i, 0));
}

void Multiply(const SmallProduct& p, const float* a, const float* b, const float* bias, float* c,
              float* scratch) {
  if (SumsAlongDepth(p)) return MultiplyAlongDepth(p, a, b, bias, c);
  for (int64_t k = 0; k < p.k; k += kDepth) {
    const int64_t depth = p.k - k < kDepth ? p.k - k : kDepth;
    const LeftMatrix left =
        p.transpose_a ? LeftMatrix{a + k * p.lda, 1, p.lda} : LeftMatrix{a + k, p.lda, 1};
    const bool add = p.accumulate || k > 0;
    const SumMatrix sums = {c, p.ldc, add, add ? nullptr : bias, p.relu && k + depth == p.k};
    if (!p.transpose_b) {
      Product<true>(p.m, p.n, depth, left, b + k * p.ldb, p.ldb, sums);
      continue;
    }
    for (int64_t j = 0; j < p.n; j += kPanel) {
      const int64_t columns = p.n - j < kPanel ? p.n - j : kPanel;
      const int64_t width = columns > kLanes ? kPanel : kLanes;
      PackTransposed(b + j * p.ldb + k, p.ldb, columns, depth, scratch, width);
      Product<true>(p.m, columns, depth, left, scratch, width, sums.From(0, j));
    }
  }
}

int64_t ScratchFloats(const SmallProduct& p) {
  if (!p.transpose_b || SumsAlongDepth(p)) return 0;
  return kPanel * (p.k < kDepth ? p.k : kDepth);
}

}  // namespace

const ProductLoops kProductLoops = {ScratchFloats, Multiply};

}  // namespace oc::cpu::OC_CPU_ISA
