// Optimizers as graphs: what a step does once, after the gradients are reduced, is an update graph
// over the parameters, planned and lowered like the rest.
//
//   HybridOptimizer optimizer(AdamW{.lr = 6e-4, .weight_decay = 0.1}, {.clip_norm = 1.0});
//   OC_ASSIGN_OR_RETURN(Graph update, optimizer.BuildUpdate(joint));
//
// The update graph reads parameters, states ("adamw.m.NAME"), reduced gradients ("grad.NAME") and
// the step's scalars ("lr", "step" from 1, "inv_micro_batches", "inv_loss_scale" where the joint
// graph has a "loss_scale"); its variables' `updated` values
// replace them. The squared gradient norm is the metric "grad_norm_sq", each parameter counted
// once.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "openclaw/core/config.h"
#include "openclaw/graph/graph.h"
#include "openclaw/optim/methods.h"

namespace oc {

struct OptimizerOptions {
  // The gradient is scaled to at most this norm over all parameters, then each of its elements is
  // kept within +-clip_value, before weight decay. 0: not.
  double clip_norm = 0;
  double clip_value = 0;
  ScheduleConfig schedule;
  std::vector<ParameterGroup> groups;
  // Moving averages of the parameters, the states "ema.NAME": e += (1 - ema_decay) (p - e) after
  // each step, e = p after the first. 0: none.
  double ema_decay = 0;
};

class HybridOptimizer {
 public:
  HybridOptimizer() : HybridOptimizer(AdamW{}) {}
  // Of one of the methods: an optimizer is its method.
  template <typename M>
  requires std::constructible_from<Method, M> &&
      (!std::same_as<M, HybridOptimizer>)HybridOptimizer(M method,
                                                         OptimizerOptions options = {})  // NOLINT
      : method_(std::move(method)), options_(std::move(options)) {}
  // kInvalidArgument or kUnimplemented name the key and value.
  static StatusOr<HybridOptimizer> FromConfig(const OptimizerConfig& config);
  // A configuration with the method's own defaults; kUnimplemented lists the names.
  static StatusOr<OptimizerConfig> DefaultConfig(const std::string& name);
  // The keys of a configuration that a method takes besides those of all (name, lr, clip_norm,
  // clip_value, schedule, groups, ema); none for an unknown one.
  static std::vector<std::string> ConfigKeys(const std::string& name);

  const char* name() const;  // "sgd", "adamw", ...
  double lr() const;
  const OptimizerOptions& options() const { return options_; }
  // One line for reports and manifests.
  std::string ToString() const;

  // kInvalidArgument names a setting out of range; kUnimplemented a schedule that is not built.
  Status Check() const;
  // For a joint graph (Differentiate). Errors of Check, and kInvalidArgument for a group that no
  // parameter belongs to. Weight decay leaves out parameters with decay = false, unless their
  // group says decay_all.
  StatusOr<Graph> BuildUpdate(const Graph& joint) const;

 private:
  Method method_;
  OptimizerOptions options_;
};

}  // namespace oc
