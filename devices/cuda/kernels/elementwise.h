// Elements one by one. All functions take any size and alignment, run at the memory's rate where
// operands lie on 16 bytes, and let an output be an input's memory.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

enum class UnaryOp : int32_t {
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
  kScale  // factor * x + offset
};
// Floats.
cudaError_t Unary(Type type, UnaryOp op, float factor, float offset, const void* x, void* y,
                  int64_t n, cudaStream_t stream);

enum class BinaryOp : int32_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kReluGrad,  // a is dy, b what the forward saved
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
  kSiluGrad,
  kGeluGrad,
  kGeluTanhGrad
};
// y[i] = op(a[i], b[i % period]); floats, and kAdd to kMul of integers.
cudaError_t Binary(Type type, BinaryOp op, const void* a, const void* b, void* y, int64_t n,
                   int64_t period, cudaStream_t stream);

enum class CompareOp : int32_t { kEqual, kLess, kGreater };
// y is bool.
cudaError_t Compare(Type type, CompareOp op, const void* a, const void* b, void* y, int64_t n,
                    int64_t period, cudaStream_t stream);

// y = c ? a : b, elements of `bytes` bytes.
cudaError_t Select(int bytes, const void* c, const void* a, const void* b, void* y, int64_t n,
                   cudaStream_t stream);

// Of all types. Floats to integers lose the fraction and stop at the ends of the range.
cudaError_t Cast(Type from, Type to, const void* x, void* y, int64_t n, cudaStream_t stream);

}  // namespace oc::cuda::kernels
