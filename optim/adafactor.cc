#include "openclaw/optim/adafactor.h"

#include <cmath>

namespace oc {

Status Check(const Adafactor& adafactor) {
  if (!(adafactor.beta2_decay <= 0 && std::isfinite(adafactor.beta2_decay))) {
    return InvalidArgument("optimizer: beta2_decay is ", adafactor.beta2_decay,
                           ", wants a number of at most 0");
  }
  OC_RETURN_IF_ERROR(CheckPositive("eps1", adafactor.eps1));
  OC_RETURN_IF_ERROR(CheckRange("eps2", adafactor.eps2, 0));
  OC_RETURN_IF_ERROR(CheckRange("d", adafactor.d, 1));
  return CheckRange("weight_decay", adafactor.weight_decay, 0);
}

std::string ToString(const Adafactor& adafactor) {
  return absl::StrCat("adafactor lr ", adafactor.lr, " beta2_decay ", adafactor.beta2_decay,
                      " eps1 ", adafactor.eps1, " eps2 ", adafactor.eps2, " d ", adafactor.d,
                      " weight_decay ", adafactor.weight_decay);
}

Val AddUpdate(UpdateBuilder& b, const Adafactor& adafactor, const ParameterUpdate& u) {
  Attributes attrs = b.ClippedAttrs();
  attrs.Set("beta2_decay", adafactor.beta2_decay);
  attrs.Set("eps1", adafactor.eps1);
  attrs.Set("eps2", adafactor.eps2);
  attrs.Set("d", adafactor.d);
  attrs.Set("weight_decay", u.Decay(adafactor.weight_decay));
  b.SetRate(u, attrs);
  const TensorType& type = b.graph().type(u.p);
  const bool factored = type.shape.rank() > 1;
  attrs.Set("factored", factored);
  if (!factored) {
    const Val v = b.State("adafactor.v", u);
    return b.Replace("adafactor", {u.p, u.g, v, b.lr(), b.step(), b.clip()}, {u.p, v},
                     std::move(attrs));
  }
  TensorType rows = type, columns = type;
  rows.shape[-1] = Dim(1);
  columns.shape[-2] = Dim(1);
  const Val r = b.State("adafactor.row", u, rows), c = b.State("adafactor.column", u, columns);
  return b.Replace("adafactor", {u.p, u.g, r, c, b.lr(), b.step(), b.clip()}, {u.p, r, c},
                   std::move(attrs));
}

std::vector<std::string> ConfigKeys(const Adafactor&) {
  return {"beta2_decay", "eps1", "eps2", "d", "weight_decay"};
}

Status FromConfig(const OptimizerConfig& config, Adafactor& adafactor) {
  adafactor.beta2_decay = config.beta2_decay;
  adafactor.eps1 = config.eps1;
  adafactor.eps2 = config.eps2;
  adafactor.d = config.d;
  adafactor.weight_decay = config.weight_decay;
  return OkStatus();
}

void ToConfig(const Adafactor& adafactor, OptimizerConfig& config) {
  config.beta2_decay = adafactor.beta2_decay;
  config.eps1 = adafactor.eps1;
  config.eps2 = adafactor.eps2;
  config.d = adafactor.d;
  config.weight_decay = adafactor.weight_decay;
}

}  // namespace oc
