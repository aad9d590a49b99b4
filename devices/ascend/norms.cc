#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

double Eps(const OpRequest& r) { return r.attrs.Double("eps", 1e-5); }

// A statistic of each row: [rows, 1].
View Column(const View& v) { return v.Shaped({v.elements(), 1}); }

View Filled(Plan& plan, int64_t count, float value) {
  return plan.Constant(std::vector<float>(static_cast<size_t>(count), value), {count});
}

// Without a weight and a bias of its own the operator would make them at each call.
Status LayerNorm(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(0));
  const int64_t columns = x.dims[1];
  const View gamma = r.inputs.size() > 1 ? plan.InF32(1) : Filled(plan, columns, 1);
  const View beta = r.inputs.size() > 2 ? plan.InF32(2) : Filled(plan, columns, 0);
  plan.Call(Operator::kLayerNorm,
            {x, Ints{{columns}}, gamma, beta, Real{Eps(r)}, AsRows(plan.OutF32(0)),
             Column(plan.Out(1)), Column(plan.Out(2))});
  return OkStatus();
}

Status LayerNormGradInput(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(1));
  const bool has_gamma = r.inputs.size() == 5;
  const int mean = has_gamma ? 3 : 2;
  const View gamma = has_gamma ? plan.InF32(2) : Filled(plan, x.dims[1], 1);
  const View out = AsRows(plan.OutF32(0));
  // The output may lie where dy does, which the operator is not known to allow.
  const bool may_overlap = out.place.kind == Place::kOutput;
  const View dx = may_overlap ? plan.Reserve(DType::kF32, out.dims) : out;
  plan.Call(Operator::kLayerNormBackward,
            {AsRows(plan.InF32(0)), x, Ints{{x.dims[1]}}, Column(plan.InF32(mean)),
             Column(plan.InF32(mean + 1)), gamma, NoTensor{}, Bools{{true, false, false}}, dx,
             NoTensor{}, NoTensor{}});
  if (may_overlap) plan.Copy(dx, out);
  return OkStatus();
}

Status LayerNormGradWeight(const OpRequest&, Plan& plan) {
  const View x = AsRows(plan.InF32(1)), dgamma = plan.OutF32(0), dbeta = plan.OutF32(1);
  if (x.elements() == 0) {
    plan.Clear(dgamma);
    plan.Clear(dbeta);
    return OkStatus();
  }
  plan.Call(Operator::kLayerNormBackward,
            {AsRows(plan.InF32(0)), x, Ints{{x.dims[1]}}, Column(plan.InF32(2)),
             Column(plan.InF32(3)), Filled(plan, x.dims[1], 1), NoTensor{},
             Bools{{false, true, true}}, NoTensor{}, dgamma, dbeta});
  return OkStatus();
}

Status RmsNorm(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(0)), rstd = Column(plan.Out(1));
  const View squares = plan.Reserve(DType::kF32, x.dims);
  const View mean = plan.Reserve(DType::kF32, rstd.dims);
  plan.Mul(x, x, squares);
  plan.Sum(squares, {1}, mean);
  plan.Scale(mean, 1.0 / static_cast<double>(x.dims[1]), mean);
  plan.Call(Operator::kAdds, {mean, Number{Eps(r)}, Number{1}, mean});
  plan.Call(Operator::kSqrt, {mean, mean});
  plan.Call(Operator::kReciprocal, {mean, rstd});
  plan.Mul(x, rstd, squares);
  plan.Mul(squares, plan.InF32(1), AsRows(plan.OutF32(0)));
  return OkStatus();
}

// With g = dy * gamma and xhat = x * rstd: dx = rstd * (g - xhat * mean(g * xhat)).
Status RmsNormGradInput(const OpRequest&, Plan& plan) {
  const View dy = AsRows(plan.InF32(0)), x = AsRows(plan.InF32(1)), rstd = Column(plan.InF32(3));
  // What is left of g is eps's part of it, far below its rounding.
  if (x.dims[1] == 1) return Unimplemented("no kernel for rows of one element");
  const View g = plan.Reserve(DType::kF32, x.dims), xhat = plan.Reserve(DType::kF32, x.dims);
  const View product = plan.Reserve(DType::kF32, x.dims);
  const View mean = plan.Reserve(DType::kF32, rstd.dims);
  plan.Mul(dy, plan.InF32(2), g);
  plan.Mul(x, rstd, xhat);
  plan.Mul(g, xhat, product);
  plan.Sum(product, {1}, mean);
  plan.Scale(mean, 1.0 / static_cast<double>(x.dims[1]), mean);
  plan.Mul(xhat, mean, product);
  plan.Add(g, product, g, -1);
  plan.Mul(g, rstd, AsRows(plan.OutF32(0)));
  return OkStatus();
}

Status RmsNormGradWeight(const OpRequest&, Plan& plan) {
  const View dy = AsRows(plan.InF32(0)), x = AsRows(plan.InF32(1)), rstd = Column(plan.InF32(2));
  const View product = plan.Reserve(DType::kF32, x.dims);
  plan.Mul(x, rstd, product);
  plan.Mul(product, dy, product);
  plan.Sum(product, {0}, plan.OutF32(0).Shaped({1, x.dims[1]}));
  return OkStatus();
}

}  // namespace

void RegisterNorms(PlanRegistry& registry) {
  registry["layer_norm"] = {LayerNorm};
  registry["layer_norm_grad_input"] = {LayerNormGradInput};
  registry["layer_norm_grad_weight"] = {LayerNormGradWeight, 3};
  registry["rms_norm"] = {RmsNorm};
  registry["rms_norm_grad_input"] = {RmsNormGradInput};
  registry["rms_norm_grad_weight"] = {RmsNormGradWeight, 1};
}

}  // namespace oc::ascend
