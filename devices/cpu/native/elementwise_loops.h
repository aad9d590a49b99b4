// Loops over elements. Dtypes are indices: see the enums. y may be the memory of an input, element
// for element.
#pragma once

#include "openclaw/devices/cpu/native/dispatch.h"

namespace oc::cpu {

enum FloatKind { kFloat32, kBFloat16, kFloat16, kFloatKinds };
enum IntKind { kInt32, kInt64, kIntKinds };

enum class Unary {
  kRelu,
  kSilu,
  kTanh,
  kSigmoid,
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kGelu,
  kGeluTanh,
  kScale,
  kErf,
  kCount
};
enum class Binary {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kReluGrad,
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
  kSiluGrad,
  kGeluGrad,
  kGeluTanhGrad,
  kLerp,
  kCount
};
enum class Compare { kEqual, kLess, kGreater, kCount };

// The types that cast knows.
enum CastKind {
  kCastF32,
  kCastBF16,
  kCastF16,
  kCastI32,
  kCastI64,
  kCastU8,
  kCastBool,
  kCastF64,
  kCastKinds
};

// y[i] = f(x[i]; p, q): kScale is p x + q.
using UnaryLoop = void (*)(const void* x, void* y, int64_t n, float p, float q);
// y[r, i] = f(a[r, i], b[i]; p) for `rows` rows of n: b is a suffix of a, or all of it where rows
// is 1. kLerp is a + p (b - a); gradients take (dy, y or x).
using BinaryLoop = void (*)(const void* a, const void* b, void* y, int64_t rows, int64_t n,
                            float p);
// y[i] = c[i] ? a[i] : b[i]
using WhereLoop = void (*)(const uint8_t* c, const void* a, const void* b, void* y, int64_t n);
using CastLoop = void (*)(const void* x, void* y, int64_t n);

struct ElementwiseLoops {
  UnaryLoop unary[static_cast<int>(Unary::kCount)][kFloatKinds];
  BinaryLoop binary[static_cast<int>(Binary::kCount)][kFloatKinds];
  BinaryLoop integer[3][kIntKinds];                                    // add, sub, mul
  BinaryLoop compare[static_cast<int>(Compare::kCount)][kFloatKinds];  // y: a byte an element
  BinaryLoop compare_integer[static_cast<int>(Compare::kCount)][kIntKinds];
  WhereLoop where[4];  // elements of 1, 2, 4, 8 bytes
  CastLoop cast[kCastKinds][kCastKinds];
};
OC_CPU_LOOPS(ElementwiseLoops)

}  // namespace oc::cpu
