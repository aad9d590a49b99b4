#include "openclaw/graph/ops/ops.h"

namespace oc::ops {

Status ExpectRank(const TensorType& type, int rank, const char* what) {
  if (type.shape.rank() == rank) return OkStatus();
  return InvalidArgument(what, " is ", type.ToString(), ", wants ", rank, " dimensions");
}

Status ExpectFloat(const TensorType& type, const char* what) {
  if (IsFloat(type.dtype)) return OkStatus();
  return InvalidArgument(what, " is ", type.ToString(), ", wants a float dtype");
}

Status ExpectInteger(const TensorType& type, const char* what) {
  if (!IsFloat(type.dtype) && type.dtype != DType::kBool) return OkStatus();
  return InvalidArgument(what, " is ", type.ToString(), ", wants an integer dtype");
}

Status ExpectSame(const TensorType& a, const TensorType& b, const char* what) {
  if (a == b) return OkStatus();
  return InvalidArgument(what, ": ", a.ToString(), " and ", b.ToString(), " differ");
}

StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return InvalidArgument("axis ", axis, " of ", rank, " dimensions");
}

Val SumToSuffix(GraphBuilder& b, Val grad, const TensorType& type) {
  if (!grad) return grad;
  const int missing = b.shape(grad).rank() - type.shape.rank();
  if (missing <= 0) return grad;
  std::vector<int64_t> axes;
  for (int i = 0; i < missing; ++i) axes.push_back(i);
  return b.ReduceSum(grad, axes);
}

}  // namespace oc::ops
