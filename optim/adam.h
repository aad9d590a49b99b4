// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, with weight decay as part of
// the gradient, as torch.optim.Adam has it (adamw.h has it apart):
//
//   g += weight_decay p
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct Adam {
  static constexpr char kName[] = "adam";
  double lr = 1e-3;
  double beta1 = 0.9;  // in [0, 1), as beta2
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

Status Check(const Adam& adam);
std::string ToString(const Adam& adam);
// Returns the new value of u.p. Its states are "adam.m.NAME" and "adam.v.NAME".
Val AddUpdate(UpdateBuilder& b, const Adam& adam, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const Adam&);
Status FromConfig(const OptimizerConfig& config, Adam& adam);
void ToConfig(const Adam& adam, OptimizerConfig& config);

}  // namespace oc
