// How an optimizer's update graph is built: what the methods (sgd.h, adam.h, ...) add their ops to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/config.h"
#include "openclaw/graph/builder.h"

namespace oc {

// One parameter and what its group says of it.
struct ParameterUpdate {
  std::string name;
  Val p, g;  // the parameter, and its gradient over the step as it is reduced
  double lr_scale = 1;
  bool decays = true;                  // weight decay applies
  std::optional<double> weight_decay;  // the group's, over the method's
  bool matrix = false;                 // a hidden layer's weight: Muon's

  double Decay(double of_method) const { return decays ? weight_decay.value_or(of_method) : 0; }
};

// One thread at a time. Errors are the graph builder's: they stay until Finish.
class UpdateBuilder {
 public:
  // `clip_norm` 0: no limit; `clip_value` 0: none. `loss_scale`: the gradients are of a scaled loss
  // (loss_scaler.h).
  UpdateBuilder(GraphBuilder builder, double clip_norm, double clip_value, bool loss_scale);

  GraphBuilder& graph() { return b_; }
  // Scalars of the step, f32[]: the learning rate, the number of the step from 1, and what the
  // gradients are to be multiplied with.
  Val lr() const { return lr_; }
  Val step() const { return step_; }
  Val clip() const { return clip_; }

  // A state of a parameter, "KIND.NAME", which begins at zero; of p's type or of another.
  Val State(const std::string& kind, const ParameterUpdate& u);
  Val State(const std::string& kind, const ParameterUpdate& u, TensorType type);
  // Attributes of an op that reads a gradient.
  Attributes ClippedAttrs() const {
    Attributes attrs;
    SetClip(attrs);
    return attrs;
  }
  // Sets the group's factor of the learning rate, times `factor`.
  static void SetRate(const ParameterUpdate& u, Attributes& attrs, double factor = 1);
  void SetClip(Attributes& attrs) const;
  // Adds an op whose first outputs replace `variables`, in their order. Returns the first output,
  // or all; nothing after an error.
  Val Replace(const std::string& op, const std::vector<Val>& inputs,
              const std::vector<Val>& variables, Attributes attrs);
  std::vector<Val> ReplaceAll(const std::string& op, const std::vector<Val>& inputs,
                              const std::vector<Val>& variables, Attributes attrs);
  void SetUpdated(Val variable, Val updated);

  // The verified graph.
  StatusOr<Graph> Finish() { return b_.Finish(); }

 private:
  GraphBuilder b_;
  double clip_value_;
  Val lr_, step_, clip_;
};

// `value` must be at least `least` and below `end`; NaN is neither.
Status CheckRange(const char* name, double value, double least, double end);
// At least `least`, and finite.
Status CheckRange(const char* name, double value, double least);
// Above 0, and finite.
Status CheckPositive(const char* name, double value);
// Both in [0, 1).
Status CheckBetas(double beta1, double beta2);
// Of the two that the configuration must have.
Status BetasFromConfig(const OptimizerConfig& config, double& beta1, double& beta2);

}  // namespace oc
