#include <algorithm>

#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

bool HasRelu(const OpRequest& r) { return r.attrs.String("activation", "none") == "relu"; }

// 1 / sqrt(var + eps).
View Deviation(const OpRequest& r, Plan& plan, const View& var) {
  const View rstd = plan.Reserve(DType::kF32, var.dims);
  plan.Call(Operator::kAdds, {var, Number{r.attrs.Double("eps", 1e-5)}, Number{1}, rstd});
  plan.Call(Operator::kSqrt, {rstd, rstd});
  plan.Call(Operator::kReciprocal, {rstd, rstd});
  return rstd;
}

// The mean over the rows of [rows, channels].
void Mean(Plan& plan, const View& from, const View& to) {
  const View sum = plan.Reserve(DType::kF32, {1, from.dims[1]});
  plan.Sum(from, {0}, sum);
  plan.Scale(sum.Flat(), 1.0 / static_cast<double>(from.dims[0]), to);
}

Status BatchNorm(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(0)), mean = plan.Out(1), var = plan.Out(2);
  const View centred = plan.Reserve(DType::kF32, x.dims), y = plan.Reserve(DType::kF32, x.dims);
  const bool training = r.attrs.Bool("training", true);
  if (training) {
    Mean(plan, x, mean);
  } else {
    plan.Copy(plan.In(3), mean);
    plan.Copy(plan.In(4), var);
  }
  plan.Add(x, mean, centred, -1);
  if (training) {
    plan.Mul(centred, centred, y);
    Mean(plan, y, var);
  }
  plan.Mul(centred, Deviation(r, plan, var), centred);
  plan.Mul(centred, plan.InF32(1), y);
  const View out = AsRows(plan.OutF32(0));
  plan.Add(y, plan.InF32(2), out);
  if (HasRelu(r)) plan.Call(Operator::kRelu, {out, out});
  return OkStatus();
}

// dx = gamma * rstd * (g - mean(g) - xhat * mean(g * xhat)), with g where the activation is open.
Status BatchNormGrad(const OpRequest& r, Plan& plan) {
  const View dy = AsRows(plan.InF32(0)), x = AsRows(plan.InF32(1)), gamma = plan.InF32(2);
  const View rstd = Deviation(r, plan, plan.In(5));
  const View xhat = plan.Reserve(DType::kF32, x.dims), product = plan.Reserve(DType::kF32, x.dims);
  plan.Add(x, plan.In(4), xhat, -1);
  plan.Mul(xhat, rstd, xhat);
  View g = dy;
  if (HasRelu(r)) {
    g = plan.Reserve(DType::kF32, x.dims);
    plan.Mul(xhat, gamma, product);
    plan.Add(product, plan.InF32(3), product);
    plan.Call(Operator::kThresholdBackward, {dy, product, Number{0}, g});
  }
  plan.Mul(g, xhat, product);
  const View dgamma = plan.OutF32(1), dbeta = plan.OutF32(2);
  const std::vector<int64_t> row = {1, x.dims[1]};
  plan.Sum(product, {0}, dgamma.Shaped(row));
  plan.Sum(g, {0}, dbeta.Shaped(row));
  const double n = static_cast<double>(x.dims[0]);
  plan.Mul(xhat, dgamma, product);
  plan.Add(product, dbeta, product);
  plan.Add(g, product, product, -1 / n);
  plan.Mul(product, rstd, product);
  plan.Mul(product, gamma, AsRows(plan.OutF32(0)));
  return OkStatus();
}

Status UnbiasedVar(const OpRequest& r, Plan& plan) {
  const auto n = static_cast<double>(r.attrs.GetShape("rows").num_elements());
  plan.Scale(plan.InF32(0), n / std::max(n - 1, 1.0), plan.OutF32(0));
  return OkStatus();
}

}  // namespace

void RegisterBatchNorm(PlanRegistry& registry) {
  registry["batch_norm"] = {BatchNorm};
  registry["batch_norm_grad"] = {BatchNormGrad};
  registry["unbiased_var"] = {UnbiasedVar};
}

}  // namespace oc::ascend
