#include "openclaw/graph/autodiff.h"

#include <algorithm>

#include "openclaw/core/logging.h"
#include "openclaw/graph/passes.h"

namespace oc {
namespace {

// Values that a parameter reaches through differentiable results.
std::vector<bool> RequiresGrad(const Graph& graph) {
  std::vector<bool> requires_grad(graph.values.size(), false);
  for (const Variable& p : graph.parameters) requires_grad[p.value] = true;
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](int v) { return requires_grad[v]; });
    if (!any) continue;
    for (int v : node.outputs) requires_grad[v] = IsFloat(graph.values[v].type.dtype);
  }
  return requires_grad;
}

// Copies the ancestors of the loss count as nodes of phase kCount, so that they can run before
// anything else. Returns the copy of the count.
StatusOr<Val> CloneCount(GraphBuilder& b, const Graph& forward) {
  std::vector<bool> wanted(forward.values.size(), false);
  wanted[forward.loss_count] = true;
  for (auto node = forward.nodes.rbegin(); node != forward.nodes.rend(); ++node) {
    const bool used =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](int v) { return wanted[v]; });
    if (!used) continue;
    for (int v : node->inputs) wanted[v] = true;
  }
  std::map<int, Val> clone;
  for (const Value& v : forward.values) {
    if (!wanted[v.id] || v.producer != kNone) continue;
    if (v.kind != ValueKind::kData) {
      return InvalidArgument("differentiate ", forward.name, ": the loss count depends on ",
                             Name(v.kind), " %", v.name,
                             "; it must depend on data alone, to be known before the backward");
    }
    clone[v.id] = {v.id};
  }
  for (const Node& node : forward.nodes) {
    if (!wanted[node.outputs[0]]) continue;
    b.SetPhase(Phase::kCount, node.id);
    std::vector<Val> inputs;
    for (int v : node.inputs) inputs.push_back(clone.at(v));
    const std::vector<Val> outputs = b.OpN(node.def->name, inputs, node.attrs);
    OC_RETURN_IF_ERROR(b.status());
    for (size_t i = 0; i < outputs.size(); ++i) clone[node.outputs[i]] = outputs[i];
  }
  return clone.at(forward.loss_count);
}

// Values that follow from parameters alone, such as a transposed weight: their gradients feed
// nothing but gradients of parameters.
std::vector<bool> WeightDerived(const Graph& graph) {
  std::vector<bool> derived(graph.values.size(), false);
  for (const Variable& p : graph.parameters) derived[p.value] = true;
  for (const Node& node : graph.nodes) {
    const bool all = !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(),
                                                         [&](int v) { return derived[v]; });
    for (int v : node.outputs) derived[v] = all;
  }
  return derived;
}

// Nodes from `first` on that no activation's gradient needs only feed parameters.
void MarkWeightGrads(Graph& graph, int first, const std::vector<int>& activation_grads) {
  std::vector<int> pending = activation_grads;
  std::vector<bool> needed(graph.nodes.size(), false);
  while (!pending.empty()) {
    const int producer = graph.values[pending.back()].producer;
    pending.pop_back();
    if (producer < first || needed[producer]) continue;
    needed[producer] = true;
    for (int v : graph.nodes[producer].inputs) pending.push_back(v);
  }
  for (int id = first; id < static_cast<int>(graph.nodes.size()); ++id) {
    if (!needed[id]) graph.nodes[id].phase = Phase::kWeightGrad;
  }
}

class Backward {
 public:
  Backward(GraphBuilder& b, const Graph& forward)
      : b_(b),
        forward_(forward),
        requires_grad_(RequiresGrad(forward)),
        weight_derived_(WeightDerived(forward)),
        grads_(forward.values.size()),
        contributions_(forward.values.size()) {}

  // `scale` may be empty.
  Status Run(Val count, Val scale) {
    const int loss_node = forward_.values[forward_.loss_sum].producer;
    if (!requires_grad_[forward_.loss_sum] || loss_node == kNone) {
      return InvalidArgument("differentiate ", forward_.name, ": the loss depends on no parameter");
    }
    b_.SetPhase(Phase::kInputGrad, loss_node);
    Val seed = b_.Op("reciprocal", {count});
    if (scale) seed = b_.Mul(seed, scale);
    grads_[forward_.loss_sum] = b_.Cast(seed, forward_.values[forward_.loss_sum].type.dtype);
    for (int id = static_cast<int>(forward_.nodes.size()) - 1; id >= 0; --id) {
      OC_RETURN_IF_ERROR(Visit(forward_.nodes[id]));
    }
    return b_.status();
  }

  const std::vector<int>& contributions(int value) const { return contributions_[value]; }

 private:
  Status Visit(const Node& node) {
    std::vector<Val> grads;
    bool any_grad = false;
    for (int v : node.outputs) {
      grads.push_back(grads_[v]);
      any_grad |= static_cast<bool>(grads_[v]);
    }
    std::vector<bool> needs;
    bool any_need = false;
    for (int v : node.inputs) {
      needs.push_back(requires_grad_[v]);
      any_need |= requires_grad_[v];
    }
    if (!any_grad || !any_need) return OkStatus();
    if (node.def->gradient == nullptr) {
      return InvalidArgument("differentiate ", forward_.name, ": op ", node.def->name,
                             node.scope.empty() ? "" : " in ", node.scope,
                             " has no gradient, and a parameter lies before it");
    }
    b_.SetPhase(Phase::kInputGrad, node.id);
    const int first = static_cast<int>(b_.graph().nodes.size());
    GradContext context(b_, node, std::move(grads), needs);
    OC_RETURN_IF_ERROR(
        Annotate(node.def->gradient(context), absl::StrCat("gradient of ", node.def->name)));
    OC_RETURN_IF_ERROR(Annotate(b_.status(), absl::StrCat("gradient of ", node.def->name)));
    std::vector<int> activation_grads;
    for (size_t i = 0; i < needs.size(); ++i) {
      const Val g = context.results()[i];
      if (!needs[i] || !g) continue;
      const int v = node.inputs[i];
      if (!(b_.type(g) == forward_.values[v].type)) {
        return Internal("gradient of ", node.def->name, " for input ", i, " is ",
                        b_.type(g).ToString(), ", the input ", forward_.values[v].type.ToString());
      }
      if (forward_.values[v].kind == ValueKind::kParameter) {
        contributions_[v].push_back(OwnContribution(g, first).id);
      } else {
        grads_[v] = grads_[v] ? b_.Add(grads_[v], g) : g;
        if (!weight_derived_[v]) activation_grads.push_back(grads_[v].id);
      }
    }
    MarkWeightGrads(b_.graph(), first, activation_grads);
    return b_.status();
  }

  // A contribution is computed by the node's own backward, so that it lies on the node's stage: a
  // gradient that only passes through (of a sum, say) is copied.
  Val OwnContribution(Val grad, int first) {
    return b_.graph().values[grad.id].producer >= first ? grad : b_.Op("copy", {grad});
  }

  GraphBuilder& b_;
  const Graph& forward_;
  std::vector<bool> requires_grad_;
  std::vector<bool> weight_derived_;
  std::vector<Val> grads_;
  std::vector<std::vector<int>> contributions_;
};

}  // namespace

StatusOr<Graph> Differentiate(const Graph& forward, const DifferentiateOptions& options) {
  if (forward.loss_sum == kNone || forward.loss_count == kNone) {
    return InvalidArgument("differentiate ", forward.name, ": the graph has no loss");
  }
  if (forward.value(forward.loss_count).producer == kNone) {
    return InvalidArgument("differentiate ", forward.name,
                           ": the loss count is an input; count its valid labels with an op");
  }
  GraphBuilder b(forward);
  OC_ASSIGN_OR_RETURN(const Val clone, CloneCount(b, forward));
  Graph& graph = b.graph();
  const Val count = {
      graph.AddInput("global_count", {DType::kF32, {}}, ValueKind::kReduced, Scope::kStep)};
  Backward backward(b, forward);
  Val scale;
  if (options.loss_scale) scale = b.Scalar("loss_scale", {DType::kF32, {}}, Scope::kStep);
  OC_RETURN_IF_ERROR(backward.Run(count, scale));

  graph.accumulators.push_back(
      {.kind = Accumulator::Kind::kCount, .name = "global_count", .contributions = {clone.id}});
  graph.accumulators.push_back(
      {.kind = Accumulator::Kind::kMetric, .name = "loss_count", .contributions = {clone.id}});
  graph.accumulators.push_back({.kind = Accumulator::Kind::kMetric,
                                .name = "loss_sum",
                                .contributions = {forward.loss_sum}});
  for (const Variable& p : graph.parameters) {
    const std::string& name = graph.values[p.value].name;
    if (backward.contributions(p.value).empty()) {
      OC_LOG_WARNING("parameter ", name, " does not influence the loss: it is not trained");
      continue;
    }
    graph.accumulators.push_back({.kind = Accumulator::Kind::kGradient,
                                  .name = absl::StrCat("grad.", name),
                                  .target = p.value,
                                  .contributions = backward.contributions(p.value)});
  }
  OC_ASSIGN_OR_RETURN(Graph joint, b.Finish());
  OC_RETURN_IF_ERROR(RemoveDeadNodes(joint));
  return joint;
}

StatusOr<Graph> ForInference(const Graph& forward) {
  Graph graph = forward;
  for (Node& node : graph.nodes) {
    const bool takes_training =
        std::any_of(node.def->attrs.begin(), node.def->attrs.end(),
                    [](const AttrSpec& spec) { return spec.name == "training"; });
    if (takes_training) node.attrs.Set("training", false);
  }
  std::erase_if(graph.accumulators,
                [](const Accumulator& a) { return a.kind != Accumulator::Kind::kMetric; });
  if (graph.loss_sum != kNone) {
    graph.accumulators.push_back({.kind = Accumulator::Kind::kMetric,
                                  .name = "loss_count",
                                  .contributions = {graph.loss_count}});
    graph.accumulators.push_back({.kind = Accumulator::Kind::kMetric,
                                  .name = "loss_sum",
                                  .contributions = {graph.loss_sum}});
  }
  OC_RETURN_IF_ERROR(RemoveDeadNodes(graph));
  OC_RETURN_IF_ERROR(Verify(graph));
  return graph;
}

}  // namespace oc
