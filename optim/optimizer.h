// Optimizers as graphs: what a step does once, after the gradients are reduced, is an update graph
// over the parameters, planned and lowered like the rest.
//
//   HybridOptimizer optimizer(AdamW{.lr = 6e-4, .weight_decay = 0.1});
//   OC_ASSIGN_OR_RETURN(Graph update, optimizer.BuildUpdate(joint));
//
// The update graph reads parameters, states ("adamw.m.NAME"), reduced gradients ("grad.NAME") and
// the step's scalars ("lr", "step" from 1, "inv_micro_batches", "inv_loss_scale" where the joint
// graph has a "loss_scale"); its variables' `updated` values
// replace them. The squared gradient norm is the metric "grad_norm_sq", each parameter counted
// once.
#pragma once

#include <variant>

#include "openclaw/core/config.h"
#include "openclaw/graph/graph.h"

namespace oc {

// g += weight_decay p; v = momentum v + g (the first step: v = g); p -= lr (nesterov ? g + momentum
// v : v). Sutskever et al., "On the importance of initialization and momentum in deep learning",
// 2013, in PyTorch's form.
struct Sgd {
  double lr = 0.1;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019:
// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) +
// eps) + weight_decay p).
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

struct OptimizerOptions {
  // The gradient is scaled to at most this global norm; 0: not.
  double clip_norm = 0;
  ScheduleConfig schedule;
};

class HybridOptimizer {
 public:
  HybridOptimizer() : HybridOptimizer(AdamW{}) {}
  HybridOptimizer(Sgd sgd, OptimizerOptions options = {})  // NOLINT: an optimizer is its method
      : method_(sgd), options_(std::move(options)) {}
  HybridOptimizer(AdamW adamw, OptimizerOptions options = {})  // NOLINT
      : method_(adamw), options_(std::move(options)) {}
  // kInvalidArgument or kUnimplemented name the key and value.
  static StatusOr<HybridOptimizer> FromConfig(const OptimizerConfig& config);

  const char* name() const;  // "sgd", "adamw"
  double lr() const;
  const OptimizerOptions& options() const { return options_; }
  // One line for reports and manifests.
  std::string ToString() const;

  // kInvalidArgument names a setting out of range; kUnimplemented a schedule that is not built.
  Status Check() const;
  // For a joint graph (Differentiate). Errors of Check. Weight decay leaves out parameters with
  // decay = false.
  StatusOr<Graph> BuildUpdate(const Graph& joint) const;

 private:
  std::variant<Sgd, AdamW> method_;
  OptimizerOptions options_;
};

}  // namespace oc
