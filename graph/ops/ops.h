// The op files of this folder, and what they share. Each defines one function that returns its op.
#pragma once

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/op.h"

namespace oc::ops {

// The ordered list (all_ops.cc).
std::vector<OpDef> All();

// For shape rules. Each error names what was wanted.
Status ExpectRank(const TensorType& type, int rank, const char* what);
Status ExpectFloat(const TensorType& type, const char* what);
Status ExpectInteger(const TensorType& type, const char* what);
Status ExpectSame(const TensorType& a, const TensorType& b, const char* what);
Status ExpectNumeric(const TensorType& type, const char* what);  // not bool
// Whether b's shape is what a's ends in (b may be a scalar), and the dtypes are equal.
Status ExpectSuffix(const TensorType& a, const TensorType& b);
// An axis in [-rank, rank) as one in [0, rank).
StatusOr<int> NormalizeAxis(int64_t axis, int rank);

// The product of all dimensions but the last `trailing`.
Dim LeadingElements(const Shape& shape, int trailing);
// 0, 1, ..., n - 1.
std::vector<int64_t> FirstAxes(int n);
// These flops, and the bytes of every operand once.
OpCost CostWithFlops(double flops, const InferArgs& args, const std::vector<TensorType>& outputs);

// The op with an attribute "dtype" more: the element type of the outputs in `outputs` (bit i:
// output i) where it is wider than the operands', as f32 sums of bf16 products are, which are then
// rounded once. For gradients of parameters, which are summed over micro-batches. Decomposes into
// the op without it and casts.
OpDef WithSumType(OpDef def, uint32_t outputs);

// Gradients of suffix-broadcast operands: sums `grad` over the leading dimensions that `type`
// lacks.
Val SumToSuffix(GraphBuilder& b, Val grad, const TensorType& type);

}  // namespace oc::ops
