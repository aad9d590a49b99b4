#include "openclaw/optim/sgd.h"

namespace oc {

Status Check(const Sgd& sgd) {
  OC_RETURN_IF_ERROR(CheckRange("momentum", sgd.momentum, 0, 1));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", sgd.weight_decay, 0));
  if (sgd.nesterov && sgd.momentum == 0) {
    return InvalidArgument("optimizer: nesterov wants a momentum above 0");
  }
  return OkStatus();
}

std::string ToString(const Sgd& sgd) {
  return absl::StrCat("sgd lr ", sgd.lr, " momentum ", sgd.momentum,
                      sgd.nesterov ? " nesterov" : "", " weight_decay ", sgd.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const Sgd& sgd, const ParameterUpdate& u) {
  Attributes attrs = b.ClippedAttrs();
  attrs.Set("momentum", sgd.momentum);
  attrs.Set("nesterov", sgd.nesterov);
  attrs.Set("weight_decay", u.Decay(sgd.weight_decay));
  b.SetRate(u, attrs);
  if (sgd.momentum == 0) {
    return b.Replace("sgd", {u.p, u.g, b.lr(), b.clip()}, {u.p}, std::move(attrs));
  }
  const Val v = b.State("sgd.momentum", u);
  return b.Replace("sgd", {u.p, u.g, v, b.lr(), b.clip()}, {u.p, v}, std::move(attrs));
}

std::vector<std::string> ConfigKeys(const Sgd&) { return {"momentum", "nesterov", "weight_decay"}; }

Status FromConfig(const OptimizerConfig& config, Sgd& sgd) {
  sgd.momentum = config.momentum;
  sgd.nesterov = config.nesterov;
  sgd.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const Sgd& sgd, OptimizerConfig& config) {
  config.momentum = sgd.momentum;
  config.nesterov = sgd.nesterov;
  config.weight_decay = sgd.weight_decay;
}

}  // namespace oc
