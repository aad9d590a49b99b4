// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019:
//
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p)
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct AdamW {
  static constexpr char kName[] = "adamw";
  double lr = 1e-3;
  double beta1 = 0.9;  // in [0, 1), as beta2
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

Status Check(const AdamW& adamw);
std::string ToString(const AdamW& adamw);
// Returns the new value of u.p. Its states are "adamw.m.NAME" and "adamw.v.NAME".
Val AddUpdate(UpdateBuilder& b, const AdamW& adamw, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const AdamW&);
Status FromConfig(const OptimizerConfig& config, AdamW& adamw);
void ToConfig(const AdamW& adamw, OptimizerConfig& config);

}  // namespace oc
