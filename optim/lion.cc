#include "openclaw/optim/lion.h"

namespace oc {

Status Check(const Lion& lion) {
  OC_RETURN_IF_ERROR(CheckBetas(lion.beta1, lion.beta2));
  return CheckRange("weight_decay", lion.weight_decay, 0);
}

std::string ToString(const Lion& lion) {
  return absl::StrCat("lion lr ", lion.lr, " betas ", lion.beta1, " ", lion.beta2, " weight_decay ",
                      lion.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const Lion& lion, const ParameterUpdate& u) {
  const Val m = b.State("lion.m", u);
  Attributes attrs = b.ClippedAttrs();
  attrs.Set("beta1", lion.beta1);
  attrs.Set("beta2", lion.beta2);
  attrs.Set("weight_decay", u.Decay(lion.weight_decay));
  b.SetRate(u, attrs);
  return b.Replace("lion", {u.p, u.g, m, b.lr(), b.clip()}, {u.p, m}, std::move(attrs));
}

std::vector<std::string> ConfigKeys(const Lion&) { return {"betas", "weight_decay"}; }

Status FromConfig(const OptimizerConfig& config, Lion& lion) {
  OC_RETURN_IF_ERROR(BetasFromConfig(config, lion.beta1, lion.beta2));
  lion.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const Lion& lion, OptimizerConfig& config) {
  config.betas = {lion.beta1, lion.beta2};
  config.weight_decay = lion.weight_decay;
}

}  // namespace oc
