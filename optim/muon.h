// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, in the form of
// torch.optim.Muon: the momentum of a weight matrix is orthogonalised by a Newton-Schulz iteration.
//
//   m += (1 - momentum) (g - m)
//   u = nesterov ? g + momentum (m - g) : m
//   X = u / max(|u|, eps); ns_steps times, with A = X X^T: X = a X + (b A + c A A) X
//   p -= lr (adjust X + weight_decay p)
//
// ns_coefficients are a, b, c. `adjust` makes steps alike over shapes [rows, columns]: original
// sqrt(max(1, rows / columns)); match_rms_adamw 0.2 sqrt(max(rows, columns)) (Liu et al., "Muon is
// scalable for LLM training", 2025, where lr and weight_decay are AdamW's).
//
// Muon takes the weights of linear layers and convolutions (as matrices [outputs, the rest]) inside
// the network; embeddings, the layer that makes the output, biases and norms are AdamW's, as its
// author does, with settings of their own. PyTorch iterates in bf16; here it is in the parameter's
// own type.
#pragma once

#include <set>

#include "openclaw/optim/adamw.h"

namespace oc {

struct Muon {
  static constexpr char kName[] = "muon";
  double lr = 1e-3;
  double momentum = 0.95;  // in [0, 1)
  bool nesterov = true;
  double weight_decay = 0.1;
  int64_t ns_steps = 5;
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  std::string adjust_lr_fn = "original";
  // Of what Muon does not take. Its lr goes through the schedule as Muon's does.
  AdamW adamw = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95};
};

Status Check(const Muon& muon);
std::string ToString(const Muon& muon);
// Returns the new value of u.p. Where u.matrix its state is "muon.m.NAME", else AdamW's.
Val AddUpdate(UpdateBuilder& b, const Muon& muon, const ParameterUpdate& u);

std::vector<std::string> ConfigKeys(const Muon&);
Status FromConfig(const OptimizerConfig& config, Muon& muon);
void ToConfig(const Muon& muon, OptimizerConfig& config);

// The parameters of a joint graph that Muon takes by itself, as value ids.
std::set<int> HiddenMatrices(const Graph& joint);

}  // namespace oc
