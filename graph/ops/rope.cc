// Rotary position embedding (Su et al., 2021) on a packed tensor: the pair (i, i + D/2) of every
// query and key head at position t turns by the angle t * base^(-2i/D); by its negative where
// `inverse` is set, which is the transposed map and so the gradient.
#include "openclaw/graph/ops/heads.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_ASSIGN_OR_RETURN(const HeadLayout layout, ReadHeads(x, args.attrs));
  if (layout.width % 2 != 0) {
    return InvalidArgument("heads of ", layout.width,
                           " elements: rope turns pairs, wants an even number");
  }
  const double base = args.attrs.Double("base", 10000.0);
  if (!(base > 0)) return InvalidArgument("base is ", base, ", wants a positive number");
  return std::vector<TensorType>{x};
}

Status Gradient(GradContext& c) {
  Attributes attrs = c.attrs();
  attrs.Set("inverse", !c.attrs().Bool("inverse", false));
  c.Set(0, c.b.Op("rope", {c.grad()}, attrs));
  return OkStatus();
}

}  // namespace

OpDef Rope() {
  OpDef def;
  def.name = "rope";
  def.attrs = {
      {"heads", int64_t{1}, true}, {"kv_heads", int64_t{1}}, {"base", 10000.0}, {"inverse", false}};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(3.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  // Both elements of a pair are read before either is written.
  def.reuse = {0};
  return def;
}

}  // namespace oc::ops
