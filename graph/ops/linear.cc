// linear: x[..., I], w[O, I], bias[O]? -> y[..., O] = activation(x w^T + bias), and its two
// gradients, which are ops of their own so that the one of the weight may be delayed.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;

Status ExpectTensors(const TensorType& x, const char* x_name, const TensorType& w, int w_axis) {
  OC_RETURN_IF_ERROR(ExpectFloat(x, x_name));
  OC_RETURN_IF_ERROR(ExpectRank(w, 2, "w"));
  if (x.shape.rank() >= 1 && x.dtype == w.dtype && x.shape[-1] == w.shape[w_axis])
    return OkStatus();
  return InvalidArgument(x_name, " is ", x.ToString(), " and w ", w.ToString(),
                         ", want one dtype and ", x_name,
                         "'s last dimension equal to w's dimension ", w_axis);
}

Shape WithLast(const Shape& shape, const Dim& last) {
  Shape result = shape;
  result[-1] = last;
  return result;
}

StatusOr<std::vector<TensorType>> InferLinear(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const TensorType& w = args.inputs[1];
  OC_RETURN_IF_ERROR(ExpectTensors(x, "x", w, 1));
  if (args.inputs.size() > 2) {
    OC_RETURN_IF_ERROR(
        ExpectSame(args.inputs[2], {x.dtype, {w.shape[0]}}, "bias and what it wants"));
  }
  const std::string activation = args.attrs.String("activation", "none");
  if (activation != "none" && activation != "relu") {
    return InvalidArgument("activation is \"", activation, "\", wants \"none\" or \"relu\"");
  }
  return std::vector<TensorType>{{x.dtype, WithLast(x.shape, w.shape[0])}};
}

StatusOr<std::vector<TensorType>> InferGradInput(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectTensors(dy, "dy", args.inputs[1], 0));
  return std::vector<TensorType>{{dy.dtype, WithLast(dy.shape, args.inputs[1].shape[1])}};
}

Status CheckApproximate(const Attributes& attrs) {
  const std::string mode = attrs.String("approximate", "none");
  if (mode == "none" || mode == "tanh") return OkStatus();
  return InvalidArgument("approximate is \"", mode, "\", wants \"none\" or \"tanh\"");
}

// x, w, bias -> h, gelu(h).
StatusOr<std::vector<TensorType>> InferLinearGelu(const InferArgs& args) {
  OC_RETURN_IF_ERROR(CheckApproximate(args.attrs));
  OC_ASSIGN_OR_RETURN(std::vector<TensorType> types, InferLinear(args));
  types.push_back(types[0]);
  return types;
}

// dy, w, x: what gelu was taken of.
StatusOr<std::vector<TensorType>> InferGradInputGelu(const InferArgs& args) {
  OC_ASSIGN_OR_RETURN(std::vector<TensorType> dx, InferGradInput(args));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], dx[0], "x, wanted x"));
  OC_RETURN_IF_ERROR(CheckApproximate(args.attrs));
  return dx;
}

StatusOr<std::vector<TensorType>> InferGradWeight(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  const TensorType& x = args.inputs[1];
  OC_RETURN_IF_ERROR(ExpectFloat(dy, "dy"));
  const int rank = dy.shape.rank();
  if (rank < 1 || x.shape.rank() != rank || x.dtype != dy.dtype ||
      !(WithLast(x.shape, dy.shape[-1]) == dy.shape)) {
    return InvalidArgument("dy is ", dy.ToString(), " and x ", x.ToString(),
                           ", want one dtype and equal leading dimensions");
  }
  return std::vector<TensorType>{{dy.dtype, {dy.shape[-1], x.shape[-1]}}};
}

Status Gradient(GradContext& c) {
  GraphBuilder& b = c.b;
  const bool relu = c.attrs().String("activation", "none") == "relu";
  const Val dy = relu ? b.Op("relu_grad", {c.grad(), c.output(0)}) : c.grad();
  if (c.needs(0)) c.Set(0, b.Op("linear_grad_input", {dy, c.input(1)}));
  if (c.needs(1)) c.Set(1, b.Op("linear_grad_weight", {dy, c.input(0)}));
  if (c.needs(2)) c.Set(2, SumToSuffix(b, dy, b.type(c.input(2))));
  return OkStatus();
}

// As many rows: what a product of matrices takes.
Val Rows(GraphBuilder& b, Val x) {
  const Shape shape = b.shape(x);
  return shape.rank() == 2 ? x : b.Reshape(x, {LeadingElements(shape, 1), shape[-1]});
}

StatusOr<Ids> DecomposeLinear(GraphBuilder& b, const Ids& in, const Attributes& attrs) {
  const Val x = {in[0]}, w = {in[1]};
  Val y = b.Matmul(Rows(b, x), w, false, true);
  if (in.size() > 2) y = b.Add(y, {in[2]});
  if (attrs.String("activation", "none") == "relu") y = b.Relu(y);
  const Shape shape = WithLast(b.shape(x), b.shape(w)[0]);
  return Ids{shape.rank() == 2 ? y.id : b.Reshape(y, shape).id};
}

StatusOr<Ids> DecomposeGradInput(GraphBuilder& b, const Ids& in, const Attributes&) {
  const Val dy = {in[0]}, w = {in[1]};
  const Val dx = b.Matmul(Rows(b, dy), w);
  const Shape shape = WithLast(b.shape(dy), b.shape(w)[1]);
  return Ids{shape.rank() == 2 ? dx.id : b.Reshape(dx, shape).id};
}

StatusOr<Ids> DecomposeGradWeight(GraphBuilder& b, const Ids& in, const Attributes&) {
  return Ids{b.Matmul(Rows(b, {in[0]}), Rows(b, {in[1]}), true, false).id};
}

// Two flops for each of rows x inputs x outputs.
OpCost Cost(const InferArgs& args, double outputs_per_row, const std::vector<TensorType>& outputs) {
  const double elements = static_cast<double>(args.inputs[0].shape.num_elements());
  return CostWithFlops(2.0 * elements * outputs_per_row, args, outputs);
}

OpDef Base(const char* name, int min_inputs, int max_inputs) {
  OpDef def;
  def.name = name;
  def.min_inputs = min_inputs;
  def.max_inputs = max_inputs;
  return def;
}

}  // namespace

OpDef Linear() {
  OpDef def = Base("linear", 2, 3);
  def.attrs = {{"activation", std::string("none")}};
  def.infer = InferLinear;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, static_cast<double>(args.inputs[1].shape[0].size()), outputs);
  };
  def.decompose = DecomposeLinear;
  return def;
}

OpDef LinearGradInput() {
  OpDef def = Base("linear_grad_input", 2, 2);
  def.infer = InferGradInput;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, static_cast<double>(args.inputs[1].shape[1].size()), outputs);
  };
  def.decompose = DecomposeGradInput;
  return def;
}

OpDef LinearGelu() {
  OpDef def = Base("linear_gelu", 3, 3);
  def.attrs = {{"approximate", std::string("none")}};
  def.infer = InferLinearGelu;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, static_cast<double>(args.inputs[1].shape[0].size()), outputs);
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    const Val h = b.Linear({in[0]}, {in[1]}, {in[2]});
    return Ids{h.id, b.Op("gelu", {h}, attrs).id};
  };
  return def;
}

OpDef LinearGradInputGelu() {
  OpDef def = Base("linear_grad_input_gelu", 3, 3);
  def.attrs = {{"approximate", std::string("none")}};
  def.infer = InferGradInputGelu;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, static_cast<double>(args.inputs[1].shape[1].size()), outputs);
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    const Val dy = b.Op("linear_grad_input", {{in[0]}, {in[1]}});
    return Ids{b.Op("gelu_grad", {dy, {in[2]}}, attrs).id};
  };
  return def;
}

OpDef LinearGradWeight() {
  OpDef def = Base("linear_grad_weight", 2, 2);
  def.infer = InferGradWeight;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, static_cast<double>(args.inputs[1].shape[-1].size()), outputs);
  };
  def.accumulable = 1;
  def.decompose = DecomposeGradWeight;
  return WithSumType(std::move(def), 1);
}

}  // namespace oc::ops
