// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
// algorithm 2, with the identity as its phi:
//
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p
//   p -= lr |p| / |u| u                              (lr u where |p| or |u| is 0)
//
// The norms are those of each parameter, summed over fixed chunks (graph/sum_chunks.h).
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct Lamb {
  static constexpr char kName[] = "lamb";
  double lr = 1e-3;
  double beta1 = 0.9;  // in [0, 1), as beta2
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
};

Status Check(const Lamb& lamb);
std::string ToString(const Lamb& lamb);
// Returns the new value of u.p. Its states are "lamb.m.NAME" and "lamb.v.NAME".
Val AddUpdate(UpdateBuilder& b, const Lamb& lamb, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const Lamb&);
Status FromConfig(const OptimizerConfig& config, Lamb& lamb);
void ToConfig(const Lamb& lamb, OptimizerConfig& config);

}  // namespace oc
