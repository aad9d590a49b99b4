// Stochastic gradient descent with momentum: Sutskever et al., "On the importance of initialization
// and momentum in deep learning", 2013, in the form of torch.optim.SGD.
//
//   g += weight_decay p
//   v = momentum v + g                               (the first step: v = g)
//   p -= lr (nesterov ? g + momentum v : v)
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct Sgd {
  static constexpr char kName[] = "sgd";
  double lr = 1e-3;
  double momentum = 0;  // in [0, 1)
  bool nesterov = false;
  double weight_decay = 0;
};

Status Check(const Sgd& sgd);
std::string ToString(const Sgd& sgd);
// Returns the new value of u.p. With momentum its state is "sgd.momentum.NAME".
Val AddUpdate(UpdateBuilder& b, const Sgd& sgd, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const Sgd&);
Status FromConfig(const OptimizerConfig& config, Sgd& sgd);
void ToConfig(const Sgd& sgd, OptimizerConfig& config);

}  // namespace oc
