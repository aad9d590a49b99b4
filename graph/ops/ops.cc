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

Status ExpectNumeric(const TensorType& type, const char* what) {
  if (type.dtype != DType::kBool) return OkStatus();
  return InvalidArgument(what, " is ", type.ToString(), ", wants numbers");
}

Status ExpectSuffix(const TensorType& a, const TensorType& b) {
  const int missing = a.shape.rank() - b.shape.rank();
  bool fits = a.dtype == b.dtype && missing >= 0;
  for (int i = 0; fits && i < b.shape.rank(); ++i) fits = a.shape[missing + i] == b.shape[i];
  if (fits) return OkStatus();
  return InvalidArgument("b is ", b.ToString(), ", wants the dtype and the last dimensions of a, ",
                         a.ToString());
}

Dim LeadingElements(const Shape& shape, int trailing) {
  Dim product(1);
  for (int i = 0; i < shape.rank() - trailing; ++i) product = product * shape[i];
  return product;
}

std::vector<int64_t> FirstAxes(int n) {
  std::vector<int64_t> axes;
  for (int i = 0; i < n; ++i) axes.push_back(i);
  return axes;
}

OpCost CostWithFlops(double flops, const InferArgs& args, const std::vector<TensorType>& outputs) {
  OpCost cost{.flops = flops};
  for (const TensorType& t : args.inputs) cost.bytes += static_cast<double>(t.bytes());
  for (const TensorType& t : outputs) cost.bytes += static_cast<double>(t.bytes());
  return cost;
}

StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return InvalidArgument("axis ", axis, " of ", rank, " dimensions");
}

Val SumToSuffix(GraphBuilder& b, Val grad, const TensorType& type) {
  if (!grad) return grad;
  const int missing = b.shape(grad).rank() - type.shape.rank();
  if (missing <= 0) return grad;
  return b.ReduceSum(grad, FirstAxes(missing));
}

}  // namespace oc::ops
