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

int64_t ScratchFloats(const SmallProduct& p) {
  return p.transpose_b ? kPanel * (p.k < kDepth ? p.k : kDepth) : 0;
}

void Multiply(const SmallProduct& p, const float* a, const float* b, const float* bias, float* c,
              float* scratch) {
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

}  // namespace

const ProductLoops kProductLoops = {ScratchFloats, Multiply};

}  // namespace oc::cpu::OC_CPU_ISA
