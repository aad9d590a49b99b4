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

namespace {

bool InMask(uint32_t mask, size_t i) { return i < 32 && (mask >> i & 1) != 0; }

StatusOr<std::vector<TensorType>> InferSumType(const OpDef& plain, uint32_t outputs,
                                               const InferArgs& args) {
  OC_ASSIGN_OR_RETURN(std::vector<TensorType> types, plain.infer(args));
  if (!args.attrs.Has("dtype")) return types;
  const DType dtype = args.attrs.GetDType("dtype", DType::kF32);
  for (size_t i = 0; i < types.size(); ++i) {
    if (!InMask(outputs, i)) continue;
    OC_RETURN_IF_ERROR(ExpectFloat(types[i], "what is summed"));
    if (!IsFloat(dtype) || SizeInBits(dtype) < SizeInBits(types[i].dtype)) {
      return InvalidArgument("dtype is ", Name(dtype), ", wants a float at least as wide as ",
                             Name(types[i].dtype));
    }
    types[i].dtype = dtype;
  }
  return types;
}

}  // namespace

OpDef WithSumType(OpDef def, uint32_t outputs) {
  const auto plain = std::make_shared<const OpDef>(def);
  def.attrs.push_back({"dtype", DType::kF32});
  def.infer = [plain, outputs](const InferArgs& args) {
    return InferSumType(*plain, outputs, args);
  };
  def.decompose = [plain, outputs](GraphBuilder& b, const std::vector<int>& inputs,
                                   const Attributes& attrs) -> StatusOr<std::vector<int>> {
    if (!attrs.Has("dtype")) {
      if (plain->decompose) return plain->decompose(b, inputs, attrs);
      return Unimplemented(plain->name, " has no simpler ops");
    }
    Attributes rest;
    for (const auto& [name, value] : attrs.values()) {
      if (name != "dtype") rest.Set(name, value);
    }
    std::vector<Val> operands;
    for (int id : inputs) operands.push_back({id});
    const std::vector<Val> sums = b.OpN(plain->name, operands, rest);
    OC_RETURN_IF_ERROR(b.status());
    std::vector<int> results;
    for (size_t i = 0; i < sums.size(); ++i) {
      const Val wide =
          InMask(outputs, i) ? b.Cast(sums[i], attrs.GetDType("dtype", DType::kF32)) : sums[i];
      results.push_back(wide.id);
    }
    OC_RETURN_IF_ERROR(b.status());
    return results;
  };
  return def;
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
