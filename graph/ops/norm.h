// What the normalisations share.
#pragma once

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {

// The dtype of means, deviations and log-sum-exps of activations of `dtype`: f32, or f64 for f64.
DType StatisticsType(DType dtype);
// kInvalidArgument where a gradient reaches an output beyond the first: those are saved for the
// backward and have no gradient of their own.
Status OnlyFirstOutput(const GradContext& c, int outputs);
// [..., C] -> [C].
TensorType ChannelType(const TensorType& x, DType dtype);
// [..., C] -> [...].
TensorType RowType(const TensorType& x, DType dtype);
Status ExpectRows(const TensorType& x, const char* what);

}  // namespace oc::ops
