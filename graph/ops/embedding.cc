// Rows of a table: y[..., :] = table[ids[...], :].
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& ids = args.inputs[0];
  const TensorType& table = args.inputs[1];
  if (ids.dtype != DType::kI32) return InvalidArgument("ids are ", ids.ToString(), ", want i32");
  OC_RETURN_IF_ERROR(ExpectFloat(table, "the table"));
  OC_RETURN_IF_ERROR(ExpectRank(table, 2, "the table"));
  std::vector<Dim> dims = ids.shape.dims();
  dims.push_back(table.shape[1]);
  return std::vector<TensorType>{{table.dtype, Shape(std::move(dims))}};
}

StatusOr<std::vector<TensorType>> InferGrad(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  const TensorType& ids = args.inputs[1];
  if (ids.dtype != DType::kI32) return InvalidArgument("ids are ", ids.ToString(), ", want i32");
  OC_RETURN_IF_ERROR(ExpectFloat(dy, "dy"));
  std::vector<Dim> dims = dy.shape.dims();
  if (dims.empty()) return InvalidArgument("dy is ", dy.ToString(), ", wants ids' shape and a row");
  const Dim width = dims.back();
  dims.pop_back();
  if (!(ids.shape == Shape(std::move(dims)))) {
    return InvalidArgument("dy ", dy.ToString(), " does not belong to ids ", ids.ToString());
  }
  const int64_t vocabulary = args.attrs.Int("vocabulary");
  if (vocabulary < 1) return InvalidArgument("vocabulary is ", vocabulary, ", wants at least 1");
  return std::vector<TensorType>{{dy.dtype, {vocabulary, width}}};
}

Status Gradient(GradContext& c) {
  if (!c.needs(1)) return OkStatus();
  const Dim vocabulary = c.b.shape(c.input(1))[0];
  if (!vocabulary.bound()) {
    return InvalidArgument("the table has ", vocabulary.ToString(), " rows: bind them first");
  }
  c.Set(1, c.b.Op("embedding_grad", {c.grad(), c.input(0)}, {{"vocabulary", vocabulary.size()}}));
  return OkStatus();
}

}  // namespace

OpDef Embedding() {
  OpDef def;
  def.name = "embedding";
  def.min_inputs = def.max_inputs = 2;
  def.infer = Infer;
  def.gradient = Gradient;
  // The rows that are read, not the table.
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return {0, static_cast<double>(args.inputs[0].bytes() + 2 * outputs[0].bytes())};
  };
  return def;
}

OpDef EmbeddingGrad() {
  OpDef def;
  def.name = "embedding_grad";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {{"vocabulary", int64_t{1}, true}};
  def.infer = InferGrad;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(static_cast<double>(args.inputs[0].shape.num_elements()), args, outputs);
  };
  def.accumulable = 1;
  return WithSumType(std::move(def), 1);
}

}  // namespace oc::ops
