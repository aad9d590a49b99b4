#include "openclaw/optim/adam.h"

namespace oc {

Status Check(const Adam& adam) {
  OC_RETURN_IF_ERROR(CheckBetas(adam.beta1, adam.beta2));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", adam.weight_decay, 0));
  return CheckPositive("eps", adam.eps);
}

std::string ToString(const Adam& adam) {
  return absl::StrCat("adam lr ", adam.lr, " betas ", adam.beta1, " ", adam.beta2, " eps ",
                      adam.eps, " weight_decay ", adam.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const Adam& adam, const ParameterUpdate& u) {
  const Val m = b.State("adam.m", u), v = b.State("adam.v", u);
  Attributes attrs = b.ClippedAttrs();
  attrs.Set("beta1", adam.beta1);
  attrs.Set("beta2", adam.beta2);
  attrs.Set("eps", adam.eps);
  attrs.Set("weight_decay", u.Decay(adam.weight_decay));
  b.SetRate(u, attrs);
  return b.Replace("adam", {u.p, u.g, m, v, b.lr(), b.step(), b.clip()}, {u.p, m, v},
                   std::move(attrs));
}

std::vector<std::string> ConfigKeys(const Adam&) { return {"betas", "eps", "weight_decay"}; }

Status FromConfig(const OptimizerConfig& config, Adam& adam) {
  OC_RETURN_IF_ERROR(BetasFromConfig(config, adam.beta1, adam.beta2));
  adam.eps = config.eps;
  adam.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const Adam& adam, OptimizerConfig& config) {
  config.betas = {adam.beta1, adam.beta2};
  config.eps = adam.eps;
  config.weight_decay = adam.weight_decay;
}

}  // namespace oc
