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
// An axis in [-rank, rank) as one in [0, rank).
StatusOr<int> NormalizeAxis(int64_t axis, int rank);

// Gradients of suffix-broadcast operands: sums `grad` over the leading dimensions that `type` lacks.
Val SumToSuffix(GraphBuilder& b, Val grad, const TensorType& type);

}  // namespace oc::ops
