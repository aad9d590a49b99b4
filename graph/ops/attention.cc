// Scaled dot-product attention (Vaswani et al., 2017) as one op on packed queries, keys and values;
// query head h reads key-value head h * kv_heads / heads (Ainslie et al., 2023). The log-sum-exp of
// each row of scores is saved, so that the backward recomputes the probabilities (Dao et al.,
// 2022).
#include "openclaw/graph/ops/heads.h"

#include <cmath>

#include "openclaw/graph/ops/norm.h"

namespace oc::ops {

StatusOr<HeadLayout> ReadHeads(const TensorType& qkv, const Attributes& attrs) {
  OC_RETURN_IF_ERROR(ExpectFloat(qkv, "qkv"));
  OC_RETURN_IF_ERROR(ExpectRank(qkv, 3, "qkv"));
  HeadLayout layout;
  layout.heads = attrs.Int("heads", 1);
  layout.kv_heads = attrs.Int("kv_heads", 0);
  if (layout.kv_heads == 0) layout.kv_heads = layout.heads;
  if (layout.heads < 1 || layout.kv_heads < 1 || layout.heads % layout.kv_heads != 0) {
    return InvalidArgument("heads is ", layout.heads, ", kv_heads ", layout.kv_heads,
                           ": heads must be a multiple of kv_heads");
  }
  const Dim& packed = qkv.shape[2];
  const int64_t parts = layout.heads + 2 * layout.kv_heads;
  if (!packed.bound() || packed.size() < parts || packed.size() % parts != 0) {
    return InvalidArgument("qkv is ", qkv.ToString(),
                           ": its last axis must be a known multiple of heads + ",
                           "2 * kv_heads = ", parts);
  }
  layout.width = packed.size() / parts;
  return layout;
}

double AttentionScale(const HeadLayout& layout, const Attributes& attrs) {
  const double scale = attrs.Double("scale", 0.0);
  return scale != 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(layout.width));
}

namespace {

std::vector<TensorType> OutputTypes(const TensorType& qkv, const HeadLayout& layout) {
  const Shape& s = qkv.shape;
  return {{qkv.dtype, {s[0], s[1], layout.heads * layout.width}},
          {StatisticsType(qkv.dtype), {s[0], layout.heads, s[1]}}};
}

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& qkv = args.inputs[0];
  OC_ASSIGN_OR_RETURN(const HeadLayout layout, ReadHeads(qkv, args.attrs));
  return OutputTypes(qkv, layout);
}

StatusOr<std::vector<TensorType>> InferGrad(const InferArgs& args) {
  const TensorType& qkv = args.inputs[1];
  OC_ASSIGN_OR_RETURN(const HeadLayout layout, ReadHeads(qkv, args.attrs));
  const std::vector<TensorType> outputs = OutputTypes(qkv, layout);
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[0], outputs[0], "dy, wanted dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], outputs[0], "y, wanted y"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], outputs[1], "lse, wanted lse"));
  return std::vector<TensorType>{qkv};
}

Status Gradient(GradContext& c) {
  OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 2));
  c.Set(0, c.b.Op("attention_grad", {c.grad(), c.input(0), c.output(0), c.output(1)}, c.attrs()));
  return OkStatus();
}

// `products`: how many T by T by D products a head takes; a causal one needs half of each.
OpCost Cost(const InferArgs& args, const std::vector<TensorType>& outputs, const TensorType& qkv,
            double products) {
  const Shape& s = qkv.shape;
  const double t = static_cast<double>(s[1].size());
  const double columns = static_cast<double>(args.attrs.Int("heads", 1)) *
                         static_cast<double>(ReadHeads(qkv, args.attrs)->width);
  const double share = args.attrs.Bool("causal", true) ? 0.5 * (t + 1) / t : 1.0;
  return CostWithFlops(2.0 * products * static_cast<double>(s[0].size()) * t * t * columns * share,
                       args, outputs);
}

std::vector<AttrSpec> Attrs() {
  return {{"heads", int64_t{1}, true}, {"kv_heads", int64_t{1}}, {"causal", true}, {"scale", 0.0}};
}

}  // namespace

OpDef Attention() {
  OpDef def;
  def.name = "attention";
  def.attrs = Attrs();
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, args.inputs[0], 2);
  };
  return def;
}

OpDef AttentionGrad() {
  OpDef def;
  def.name = "attention_grad";
  def.min_inputs = def.max_inputs = 4;
  def.attrs = Attrs();
  def.infer = InferGrad;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, args.inputs[1], 5);
  };
  return def;
}

}  // namespace oc::ops
