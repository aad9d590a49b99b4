// Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2:
//
//   u = sign(beta1 m + (1 - beta1) g)                (0 where that is 0)
//   p -= lr (u + weight_decay p)
//   m = beta2 m + (1 - beta2) g
//
// Its steps are larger than AdamW's: a third to a tenth of AdamW's lr, and three to ten times its
// weight decay, is what the authors advise.
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct Lion {
  static constexpr char kName[] = "lion";
  double lr = 1e-4;
  double beta1 = 0.9;  // in [0, 1), as beta2
  double beta2 = 0.99;
  double weight_decay = 0;
};

Status Check(const Lion& lion);
std::string ToString(const Lion& lion);
// Returns the new value of u.p. Its state is "lion.m.NAME".
Val AddUpdate(UpdateBuilder& b, const Lion& lion, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const Lion&);
Status FromConfig(const OptimizerConfig& config, Lion& lion);
void ToConfig(const Lion& lion, OptimizerConfig& config);

}  // namespace oc
