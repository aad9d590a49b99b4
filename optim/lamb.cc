#include "openclaw/optim/lamb.h"

namespace oc {

Status Check(const Lamb& lamb) {
  OC_RETURN_IF_ERROR(CheckBetas(lamb.beta1, lamb.beta2));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", lamb.weight_decay, 0));
  return CheckPositive("eps", lamb.eps);
}

std::string ToString(const Lamb& lamb) {
  return absl::StrCat("lamb lr ", lamb.lr, " betas ", lamb.beta1, " ", lamb.beta2, " eps ",
                      lamb.eps, " weight_decay ", lamb.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const Lamb& lamb, const ParameterUpdate& u) {
  const Val m = b.State("lamb.m", u), v = b.State("lamb.v", u);
  Attributes step;
  step.Set("beta1", lamb.beta1);
  step.Set("beta2", lamb.beta2);
  step.Set("eps", lamb.eps);
  step.Set("weight_decay", u.Decay(lamb.weight_decay));
  Attributes moments = step;
  b.SetClip(moments);
  b.SetRate(u, step);
  const std::vector<Val> sums = b.ReplaceAll("lamb_moments", {u.p, u.g, m, v, b.step(), b.clip()},
                                             {m, v}, std::move(moments));
  if (sums.empty()) return {};
  return b.Replace("lamb_step", {u.p, sums[0], sums[1], sums[2], sums[3], b.lr(), b.step()}, {u.p},
                   std::move(step));
}

std::vector<std::string> ConfigKeys(const Lamb&) { return {"betas", "eps", "weight_decay"}; }

Status FromConfig(const OptimizerConfig& config, Lamb& lamb) {
  OC_RETURN_IF_ERROR(BetasFromConfig(config, lamb.beta1, lamb.beta2));
  lamb.eps = config.eps;
  lamb.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const Lamb& lamb, OptimizerConfig& config) {
  config.betas = {lamb.beta1, lamb.beta2};
  config.eps = lamb.eps;
  config.weight_decay = lamb.weight_decay;
}

}  // namespace oc
