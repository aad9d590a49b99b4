// matmul: a[..., M, K], b[..., K, N] -> y[..., M, N], each stored transposed where its attribute
// says so. Equal leading dimensions, or one operand of rank 2 that all products share.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

struct Dims {
  Dim m, k, n;
};

StatusOr<Dims> ProductDims(const InferArgs& args) {
  const TensorType& a = args.inputs[0];
  const TensorType& b = args.inputs[1];
  OC_RETURN_IF_ERROR(ExpectFloat(a, "a"));
  if (a.dtype != b.dtype || a.shape.rank() < 2 || b.shape.rank() < 2) {
    return InvalidArgument("a is ", a.ToString(), " and b ", b.ToString(),
                           ", want one dtype and at least 2 dimensions each");
  }
  const bool ta = args.attrs.Bool("transpose_a"), tb = args.attrs.Bool("transpose_b");
  Dims d{a.shape[ta ? -1 : -2], a.shape[ta ? -2 : -1], b.shape[tb ? -2 : -1]};
  if (!(d.k == b.shape[tb ? -1 : -2])) {
    return InvalidArgument("a is ", a.ToString(), ta ? " transposed" : "", " and b ", b.ToString(),
                           tb ? " transposed" : "", ": the inner dimensions differ");
  }
  return d;
}

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  OC_ASSIGN_OR_RETURN(const Dims d, ProductDims(args));
  const Shape& a = args.inputs[0].shape;
  const Shape& b = args.inputs[1].shape;
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  std::vector<Dim> dims(longer.dims().begin(), longer.dims().end() - 2);
  const auto leads = [&](const Shape& s) {
    return s.rank() == 2 ||
           (s.rank() == longer.rank() && std::equal(dims.begin(), dims.end(), s.dims().begin()));
  };
  if (!leads(a) || !leads(b)) {
    return InvalidArgument("a is ", args.inputs[0].ToString(), " and b ", args.inputs[1].ToString(),
                           ": the leading dimensions differ");
  }
  dims.push_back(d.m);
  dims.push_back(d.n);
  return std::vector<TensorType>{{args.inputs[0].dtype, Shape(std::move(dims))}};
}

// [..., M, N] as [... M, N].
Val Flatten(GraphBuilder& b, Val x) {
  const Shape shape = b.shape(x);
  return b.Reshape(x, {LeadingElements(shape, 1), shape[-1]});
}

Status Gradient(GradContext& c) {
  GraphBuilder& g = c.b;
  const bool ta = c.attrs().Bool("transpose_a"), tb = c.attrs().Bool("transpose_b");
  const Val a = c.input(0), b = c.input(1), dy = c.grad();
  const int rank_a = g.shape(a).rank(), rank_b = g.shape(b).rank();
  if (c.needs(0)) {
    const Val da = ta ? g.Matmul(b, dy, tb, true) : g.Matmul(dy, b, false, !tb);
    c.Set(0, rank_a == 2 ? SumToSuffix(g, da, g.type(a)) : da);
  }
  if (c.needs(1)) {
    if (rank_b == 2 && rank_a > 2 && !ta) {
      // All rows are of one product: no sum over the leading dimensions afterwards.
      const Val rows = Flatten(g, a), drows = Flatten(g, dy);
      c.Set(1, tb ? g.Matmul(drows, rows, true, false) : g.Matmul(rows, drows, true, false));
    } else {
      const Val db = tb ? g.Matmul(dy, a, true, ta) : g.Matmul(a, dy, !ta, false);
      c.Set(1, rank_b == 2 ? SumToSuffix(g, db, g.type(b)) : db);
    }
  }
  return OkStatus();
}

OpCost Cost(const InferArgs& args, const std::vector<TensorType>& outputs) {
  const Shape& a = args.inputs[0].shape;
  const double k = static_cast<double>(a[args.attrs.Bool("transpose_a") ? -2 : -1].size());
  return CostWithFlops(2.0 * k * static_cast<double>(outputs[0].shape.num_elements()), args,
                       outputs);
}

}  // namespace

OpDef Matmul() {
  OpDef def;
  def.name = "matmul";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {{"transpose_a", false}, {"transpose_b", false}};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = Cost;
  return def;
}

}  // namespace oc::ops
