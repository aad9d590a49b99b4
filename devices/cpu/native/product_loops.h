// Matrix products of floats that take microseconds: what a library's call costs before its first
// multiplication, and copies of operands that the caches hold anyhow, would be much of the time.
#pragma once

#include "openclaw/devices/cpu/native/dispatch.h"

namespace oc::cpu {

// c[m][n] = relu(op(a)[m][k] op(b)[k][n] + bias[n]) in rows of lda, ldb and ldc floats; transposed:
// a lies as [k][m], b as [n][k].
struct SmallProduct {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  bool transpose_a, transpose_b;
  bool relu, accumulate;  // accumulate: c += instead, without bias and relu
};

struct ProductLoops {
  // Floats of scratch memory that `multiply` takes.
  int64_t (*scratch_floats)(const SmallProduct& product);
  // `bias` may be null.
  void (*multiply)(const SmallProduct& product, const float* a, const float* b, const float* bias,
                   float* c, float* scratch);
};
OC_CPU_LOOPS(ProductLoops)

}  // namespace oc::cpu
