// reduce_sum reduce_mean reduce_max: x -> y over `axes` (none given: all), which stay as 1 with
// keep_dims.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<bool>> ReducedAxes(const Attributes& attrs, int rank) {
  const std::vector<int64_t> axes = attrs.Ints("axes");
  std::vector<bool> reduced(rank, axes.empty());
  for (int64_t a : axes) {
    OC_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a, rank));
    if (reduced[axis]) return InvalidArgument("axis ", a, " is named twice");
    reduced[axis] = true;
  }
  return reduced;
}

StatusOr<std::vector<TensorType>> InferReduce(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectNumeric(x, "x"));
  OC_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(args.attrs, x.shape.rank()));
  std::vector<Dim> dims;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (!reduced[i]) {
      dims.push_back(x.shape[i]);
    } else if (args.attrs.Bool("keep_dims")) {
      dims.push_back(1);
    }
  }
  return std::vector<TensorType>{{x.dtype, Shape(std::move(dims))}};
}

// dy spread over the reduced axes.
StatusOr<Val> Spread(GradContext& c, Val dy) {
  const Shape x = c.b.shape(c.input(0));
  OC_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(c.attrs(), x.rank()));
  Shape kept = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (reduced[i]) kept[i] = 1;
  }
  if (!(c.b.shape(dy) == kept)) dy = c.b.Reshape(dy, kept);
  return c.b.Op("broadcast_to", {dy}, {{"shape", x}});
}

Status SumGradient(GradContext& c) {
  // The sum may have been wider than its terms.
  OC_ASSIGN_OR_RETURN(const Val dx, Spread(c, c.b.Cast(c.grad(), c.b.type(c.input(0)).dtype)));
  c.Set(0, dx);
  return OkStatus();
}

Status MeanGradient(GradContext& c) {
  const Shape x = c.b.shape(c.input(0));
  OC_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(c.attrs(), x.rank()));
  Dim count(1);
  for (int i = 0; i < x.rank(); ++i) {
    if (reduced[i]) count = count * x[i];
  }
  if (!count.bound()) {
    return InvalidArgument("the mean over ", count.ToString(), " elements of ", x.ToString(),
                           ": bind the dimension first, or divide a reduce_sum");
  }
  const Val dy = c.b.Scale(c.grad(), 1.0 / static_cast<double>(std::max<int64_t>(count.size(), 1)));
  OC_ASSIGN_OR_RETURN(const Val dx, Spread(c, dy));
  c.Set(0, dx);
  return OkStatus();
}

OpDef Reduce(const char* name) {
  OpDef def;
  def.name = name;
  def.attrs = {{"axes", std::vector<int64_t>{}}, {"keep_dims", false}};
  def.infer = InferReduce;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return CostWithFlops(static_cast<double>(args.inputs[0].shape.num_elements()), args, outputs);
  };
  return def;
}

}  // namespace

OpDef ReduceSum() {
  OpDef def = Reduce("reduce_sum");
  def.gradient = SumGradient;
  def.accumulable = 1;
  return WithSumType(std::move(def), 1);
}

OpDef ReduceMean() {
  OpDef def = Reduce("reduce_mean");
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "x"));
    return InferReduce(args);
  };
  def.gradient = MeanGradient;
  return def;
}

OpDef ReduceMax() { return Reduce("reduce_max"); }

}  // namespace oc::ops
