// Reverse-mode differentiation at graph level.
//
//   OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(forward));
//
// The joint graph holds the forward nodes, the nodes that count valid labels (phase kCount), the
// input-gradient and weight-gradient nodes, and an accumulator a parameter. Gradients are those of
// loss_sum / loss_count where both are summed over the whole global batch: the count arrives as the
// reduced value "global_count", known before the first backward. A parameter's gradient is kept as
// a list of contributions, one a use, so that a tied weight may be used on two stages.
#pragma once

#include "openclaw/graph/builder.h"

namespace oc {

// What a gradient rule sees of one node (OpDef::gradient).
class GradContext {
 public:
  GradContext(GraphBuilder& builder, Node node, std::vector<Val> grads, std::vector<bool> needs)
      : b(builder),
        node_(std::move(node)),
        grads_(std::move(grads)),
        needs_(std::move(needs)),
        results_(node_.inputs.size()) {}

  GraphBuilder& b;
  const Attributes& attrs() const { return node_.attrs; }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  Val input(int i) const { return {node_.inputs[i]}; }
  Val output(int i) const { return {node_.outputs[i]}; }
  // The gradient of output i; empty where none flows.
  Val grad(int i = 0) const { return grads_[i]; }
  // Whether the gradient of input i is wanted. False beyond the inputs.
  bool needs(int i) const { return i < num_inputs() && needs_[i]; }
  // Sets the gradient of input i; it has the input's type.
  void Set(int i, Val grad) { results_[i] = grad; }
  const std::vector<Val>& results() const { return results_; }

 private:
  Node node_;
  std::vector<Val> grads_;
  std::vector<bool> needs_;
  std::vector<Val> results_;
};

struct DifferentiateOptions {
  // The loss's gradient is multiplied by the step's scalar "loss_scale", f32[], and so are all
  // gradients: those that a half type would flush to zero are kept (Micikevicius et al., "Mixed
  // precision training", 2018).
  bool loss_scale = false;
};

// kInvalidArgument: no loss, the loss count depends on more than data, or an op without a gradient
// lies between a parameter and the loss (named).
StatusOr<Graph> Differentiate(const Graph& forward, const DifferentiateOptions& options = {});

// The forward graph as it is used after training: ops with a "training" attribute have it off
// (dropout is the identity, batch norm reads its running statistics), nothing is accumulated but
// the loss, its count and the metrics. The loss is kept where there is one.
StatusOr<Graph> ForInference(const Graph& forward);

}  // namespace oc
