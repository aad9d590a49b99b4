// Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018, in the
// form of torch.optim.Adafactor: no first moment, and of tensors of two dimensions and more only
// the means over rows and columns of the last two, R and C, for the second moment.
//
//   f = t^beta2_decay; rho = min(lr, 1 / sqrt(t)); alpha = max(eps2, rms(p)) rho
//   p *= 1 - lr weight_decay
//   R += f (rowmean(g^2) - R); C += f (columnmean(g^2) - C); V = R C / max(mean(R), eps1)
//   (others: V += f (g^2 - V))
//   U = g / sqrt(max(V, eps1^2))
//   p -= alpha / max(1, rms(U) / d) U
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/optim/update_builder.h"

namespace oc {

struct Adafactor {
  static constexpr char kName[] = "adafactor";
  double lr = 1e-2;
  double beta2_decay = -0.8;  // at most 0
  double eps1 = 0x1p-23;      // PyTorch's default, that of f32
  double eps2 = 1e-3;
  double d = 1;  // at least 1: the largest root mean square of a step before lr
  double weight_decay = 0;
};

Status Check(const Adafactor& adafactor);
std::string ToString(const Adafactor& adafactor);
// Returns the new value of u.p. Its states are "adafactor.row.NAME" and
// "adafactor.column.NAME", else "adafactor.v.NAME".
Val AddUpdate(UpdateBuilder& b, const Adafactor& adafactor, const ParameterUpdate& u);

// Which keys of a configuration it takes besides those of every optimizer, and how they are read
// and written (but lr).
std::vector<std::string> ConfigKeys(const Adafactor&);
Status FromConfig(const OptimizerConfig& config, Adafactor& adafactor);
void ToConfig(const Adafactor& adafactor, OptimizerConfig& config);

}  // namespace oc
