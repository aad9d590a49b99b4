#include "openclaw/optim/adamw.h"

namespace oc {

Status Check(const AdamW& adamw) {
  OC_RETURN_IF_ERROR(CheckBetas(adamw.beta1, adamw.beta2));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", adamw.weight_decay, 0));
  return CheckPositive("eps", adamw.eps);
}

std::string ToString(const AdamW& adamw) {
  return absl::StrCat("adamw lr ", adamw.lr, " betas ", adamw.beta1, " ", adamw.beta2, " eps ",
                      adamw.eps, " weight_decay ", adamw.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const AdamW& adamw, const ParameterUpdate& u) {
  const Val m = b.State("adamw.m", u), v = b.State("adamw.v", u);
  Attributes attrs = b.ClippedAttrs();
  attrs.Set("beta1", adamw.beta1);
  attrs.Set("beta2", adamw.beta2);
  attrs.Set("eps", adamw.eps);
  attrs.Set("weight_decay", u.Decay(adamw.weight_decay));
  b.SetRate(u, attrs);
  return b.Replace("adamw", {u.p, u.g, m, v, b.lr(), b.step(), b.clip()}, {u.p, m, v},
                   std::move(attrs));
}

std::vector<std::string> ConfigKeys(const AdamW&) { return {"betas", "eps", "weight_decay"}; }

Status FromConfig(const OptimizerConfig& config, AdamW& adamw) {
  OC_RETURN_IF_ERROR(BetasFromConfig(config, adamw.beta1, adamw.beta2));
  adamw.eps = config.eps;
  adamw.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const AdamW& adamw, OptimizerConfig& config) {
  config.betas = {adamw.beta1, adamw.beta2};
  config.eps = adamw.eps;
  config.weight_decay = adamw.weight_decay;
}

}  // namespace oc
