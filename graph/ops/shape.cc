// transpose reshape broadcast_to slice pad concat copy: what only moves elements.
#include <algorithm>

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

using Types = std::vector<TensorType>;

OpDef Move(const char* name, std::vector<AttrSpec> attrs) {
  OpDef def;
  def.name = name;
  def.attrs = std::move(attrs);
  def.cost = [](const InferArgs& args, const Types& outputs) {
    return CostWithFlops(0, args, outputs);
  };
  return def;
}

StatusOr<Types> InferTranspose(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const std::vector<int64_t> permutation = args.attrs.Ints("permutation");
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != FirstAxes(x.shape.rank())) {
    return InvalidArgument("permutation (", Attributes({{"", permutation}}).ToString(), ") of ",
                           x.ToString(), " must name each dimension once");
  }
  std::vector<Dim> dims;
  for (int64_t axis : permutation) dims.push_back(x.shape[static_cast<int>(axis)]);
  return Types{{x.dtype, Shape(std::move(dims))}};
}

Status TransposeGradient(GradContext& c) {
  const std::vector<int64_t> permutation = c.attrs().Ints("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int64_t>(i);
  c.Set(0, c.b.Transpose(c.grad(), inverse));
  return OkStatus();
}

StatusOr<Types> InferReshape(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const Shape shape = args.attrs.GetShape("shape");
  if (!(shape.elements() == x.shape.elements())) {
    return InvalidArgument("x is ", x.ToString(), " of ", x.shape.elements().ToString(),
                           " elements, shape ", shape.ToString(), " wants ",
                           shape.elements().ToString());
  }
  return Types{{x.dtype, shape}};
}

StatusOr<Types> InferBroadcast(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const Shape shape = args.attrs.GetShape("shape");
  const int added = shape.rank() - x.shape.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < x.shape.rank(); ++i) {
    fits = x.shape[i] == Dim(1) || x.shape[i] == shape[added + i];
  }
  if (!fits)
    return InvalidArgument("x is ", x.ToString(), ", does not broadcast to ", shape.ToString());
  return Types{{x.dtype, shape}};
}

Status BroadcastGradient(GradContext& c) {
  const TensorType x = c.b.type(c.input(0));
  const Shape y = c.b.shape(c.grad());
  const int added = y.rank() - x.shape.rank();
  std::vector<int64_t> axes = FirstAxes(added);
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (!(x.shape[i] == y[added + i])) axes.push_back(added + i);
  }
  Val dx = c.grad();
  if (!axes.empty()) dx = c.b.ReduceSum(dx, axes);
  c.Set(0, c.b.shape(dx) == x.shape ? dx : c.b.Reshape(dx, x.shape));
  return OkStatus();
}

// The size of the axis that slice, pad and concat change: a number, as the result's size must be
// one.
StatusOr<int64_t> AxisSize(const TensorType& x, int axis) {
  if (x.shape[axis].bound()) return x.shape[axis].size();
  return InvalidArgument("x is ", x.ToString(), ": dimension ", axis,
                         " has no size yet; bind it first");
}

StatusOr<Types> InferSlice(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis"), x.shape.rank()));
  const int64_t begin = args.attrs.Int("begin"), end = args.attrs.Int("end");
  OC_ASSIGN_OR_RETURN(const int64_t size, AxisSize(x, axis));
  if (begin < 0 || begin > end || end > size) {
    return InvalidArgument("x is ", x.ToString(), ", dimension ", axis, " has no part ", begin,
                           " to ", end);
  }
  TensorType y = x;
  y.shape[axis] = end - begin;
  return Types{y};
}

Status SliceGradient(GradContext& c) {
  const Shape x = c.b.shape(c.input(0));
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis"), x.rank()));
  c.Set(0, c.b.Op("pad", {c.grad()},
                  {{"axis", int64_t{axis}},
                   {"before", c.attrs().Int("begin")},
                   {"after", x[axis].size() - c.attrs().Int("end")}}));
  return OkStatus();
}

StatusOr<Types> InferPad(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis"), x.shape.rank()));
  const int64_t before = args.attrs.Int("before"), after = args.attrs.Int("after");
  if (before < 0 || after < 0) {
    return InvalidArgument("pads ", before, " and ", after, ", want no negative number");
  }
  OC_ASSIGN_OR_RETURN(const int64_t size, AxisSize(x, axis));
  TensorType y = x;
  y.shape[axis] = before + size + after;
  return Types{y};
}

Status PadGradient(GradContext& c) {
  const Shape x = c.b.shape(c.input(0));
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis"), x.rank()));
  const int64_t before = c.attrs().Int("before");
  c.Set(0, c.b.Slice(c.grad(), axis, before, before + x[axis].size()));
  return OkStatus();
}

StatusOr<Types> InferConcat(const InferArgs& args) {
  TensorType y = args.inputs[0];
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis"), y.shape.rank()));
  if (args.inputs.size() == 1) return Types{y};
  int64_t total = 0;
  for (const TensorType& x : args.inputs) {
    TensorType like = x;
    if (x.shape.rank() == y.shape.rank()) like.shape[axis] = y.shape[axis];
    OC_RETURN_IF_ERROR(ExpectSame(like, y, "inputs but for the axis"));
    OC_ASSIGN_OR_RETURN(const int64_t size, AxisSize(x, axis));
    total += size;
  }
  y.shape[axis] = total;
  return Types{y};
}

Status ConcatGradient(GradContext& c) {
  if (c.num_inputs() == 1) {
    c.Set(0, c.grad());
    return OkStatus();
  }
  const int rank = c.b.shape(c.grad()).rank();
  OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis"), rank));
  int64_t begin = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const int64_t end = begin + c.b.shape(c.input(i))[axis].size();
    if (c.needs(i)) c.Set(i, c.b.Slice(c.grad(), axis, begin, end));
    begin = end;
  }
  return OkStatus();
}

}  // namespace

OpDef Transpose() {
  OpDef def = Move("transpose", {{"permutation", std::vector<int64_t>{1, 0}, /*required=*/true}});
  def.infer = InferTranspose;
  def.gradient = TransposeGradient;
  return def;
}

OpDef Reshape() {
  OpDef def = Move("reshape", {{"shape", Shape(), /*required=*/true}});
  def.infer = InferReshape;
  def.gradient = [](GradContext& c) {
    c.Set(0, c.b.Reshape(c.grad(), c.b.shape(c.input(0))));
    return OkStatus();
  };
  def.is_view = true;
  return def;
}

OpDef BroadcastTo() {
  OpDef def = Move("broadcast_to", {{"shape", Shape(), /*required=*/true}});
  def.infer = InferBroadcast;
  def.gradient = BroadcastGradient;
  return def;
}

OpDef Slice() {
  OpDef def =
      Move("slice",
           {{"axis", int64_t{0}, true}, {"begin", int64_t{0}, true}, {"end", int64_t{1}, true}});
  def.infer = InferSlice;
  def.gradient = SliceGradient;
  return def;
}

OpDef Pad() {
  OpDef def =
      Move("pad", {{"axis", int64_t{0}, true}, {"before", int64_t{0}}, {"after", int64_t{0}}});
  def.infer = InferPad;
  def.gradient = PadGradient;
  return def;
}

OpDef Concat() {
  OpDef def = Move("concat", {{"axis", int64_t{0}, true}});
  def.max_inputs = -1;
  def.infer = InferConcat;
  def.gradient = ConcatGradient;
  return def;
}

OpDef Copy() {
  OpDef def = Move("copy", {});
  def.parts = OpDef::Parts::kElements;
  def.infer = [](const InferArgs& args) -> StatusOr<Types> { return Types{args.inputs[0]}; };
  def.gradient = [](GradContext& c) {
    c.Set(0, c.grad());
    return OkStatus();
  };
  return def;
}

}  // namespace oc::ops
