#include "openclaw/optim/optimizer.h"

#include <set>

#include "openclaw/optim/groups.h"
#include "openclaw/optim/learning_rate.h"

namespace oc {
namespace {

// In the type that it is summed in: the parameter's may be narrower.
Val Reduced(GraphBuilder& b, const Graph& joint, const Accumulator& a) {
  const TensorType& type = joint.value(a.contributions[0]).type;
  return {b.graph().AddInput(a.name, type, ValueKind::kReduced, Scope::kStep)};
}

// A running statistic takes up the step's mean.
Status AddState(UpdateBuilder& builder, const Graph& joint, const Accumulator& a) {
  GraphBuilder& b = builder.graph();
  const Value& target = joint.value(a.target);
  const Val state = b.State(target.name, target.type, joint.FindVariable(a.target)->init);
  const Val sum = Reduced(b, joint, a);
  const Val scale =
      b.Cast(b.Scalar("inv_micro_batches", {DType::kF32, {}}, Scope::kStep), target.type.dtype);
  const Val updated = b.Op("lerp", {state, b.Mul(sum, scale)}, {{"rate", a.rate}});
  OC_RETURN_IF_ERROR(b.status());
  builder.SetUpdated(state, updated);
  return OkStatus();
}

// What its group says of each parameter of a joint graph.
class Groups {
 public:
  static StatusOr<Groups> Create(const std::vector<ParameterGroup>& groups, const Graph& joint) {
    Groups result(groups, joint);
    std::vector<std::string> names;
    for (const Variable& v : joint.parameters) names.push_back(joint.value(v.value).name);
    OC_ASSIGN_OR_RETURN(result.group_of_, AssignGroups(groups, names));
    return result;
  }
  ParameterUpdate Of(int parameter) const {
    ParameterUpdate u{.name = joint_.value(parameter).name,
                      .matrix = hidden_.count(parameter) != 0};
    for (size_t i = 0; i < joint_.parameters.size(); ++i) {
      if (joint_.parameters[i].value != parameter) continue;
      u.decays = joint_.parameters[i].decay;
      if (group_of_[i] < 0) continue;
      const ParameterGroup& group = groups_[group_of_[i]];
      u.lr_scale = group.lr_scale;
      u.weight_decay = group.weight_decay;
      u.decays |= group.decay_all;
      const bool matrix = joint_.value(parameter).type.shape.rank() >= 2;
      u.matrix = matrix && group.use_muon.value_or(u.matrix);
    }
    return u;
  }

 private:
  Groups(const std::vector<ParameterGroup>& groups, const Graph& joint)
      : groups_(groups), joint_(joint), hidden_(HiddenMatrices(joint)) {}
  const std::vector<ParameterGroup>& groups_;
  const Graph& joint_;
  std::set<int> hidden_;
  std::vector<int> group_of_;  // by place in the joint graph's parameters
};

}  // namespace

StatusOr<Graph> HybridOptimizer::BuildUpdate(const Graph& joint) const {
  OC_RETURN_IF_ERROR(Check());
  OC_ASSIGN_OR_RETURN(const Groups groups, Groups::Create(options_.groups, joint));
  UpdateBuilder builder(GraphBuilder(joint.name + ".update", joint.shared_ops()),
                        options_.clip_norm, options_.clip_value,
                        /*loss_scale=*/joint.FindValue("loss_scale") != kNone);
  GraphBuilder& b = builder.graph();
  std::vector<int> squares;
  for (const Accumulator& a : joint.accumulators) {
    if (a.kind == Accumulator::Kind::kState) OC_RETURN_IF_ERROR(AddState(builder, joint, a));
    if (a.kind != Accumulator::Kind::kGradient) continue;
    const Value& target = joint.value(a.target);
    const Variable* variable = joint.FindVariable(a.target);
    ParameterUpdate u = groups.Of(a.target);
    u.p = b.Parameter(target.name, target.type, variable->init, variable->decay);
    u.g = Reduced(b, joint, a);
    // Its share of the norm.
    squares.push_back(b.Op("sum_partials", {b.Op("sum_squares", {u.g})}).id);
    const Val next = std::visit([&](const auto& m) { return AddUpdate(builder, m, u); }, method_);
    if (options_.ema_decay > 0) {
      const Val average = builder.State("ema", u);
      builder.Replace("ema", {average, next, builder.step()}, {average},
                      {{"decay", options_.ema_decay}});
    }
    OC_RETURN_IF_ERROR(Annotate(b.status(), absl::StrCat("update ", u.name)));
  }
  b.graph().accumulators.push_back(
      {.kind = Accumulator::Kind::kMetric, .name = "grad_norm_sq", .contributions = squares});
  return builder.Finish();
}

Status HybridOptimizer::Check() const {
  OC_RETURN_IF_ERROR(CheckSchedule(options_.schedule));
  OC_RETURN_IF_ERROR(CheckRange("clip_norm", options_.clip_norm, 0));
  OC_RETURN_IF_ERROR(CheckRange("clip_value", options_.clip_value, 0));
  OC_RETURN_IF_ERROR(CheckRange("ema.decay", options_.ema_decay, 0, 1));
  OC_RETURN_IF_ERROR(CheckGroups(options_.groups));
  for (const ParameterGroup& group : options_.groups) {
    if (group.use_muon && !std::holds_alternative<Muon>(method_)) {
      return InvalidArgument("optimizer.groups: use_muon is of muon, this is ", name());
    }
  }
  OC_RETURN_IF_ERROR(CheckRange("lr", lr(), 0));
  return std::visit([](const auto& m) { return oc::Check(m); }, method_);
}

StatusOr<HybridOptimizer> HybridOptimizer::FromConfig(const OptimizerConfig& c) {
  OC_RETURN_IF_ERROR(CheckSchedule(c.schedule));
  OC_ASSIGN_OR_RETURN(Method method, DefaultMethod(c.name));
  const Status status = std::visit(
      [&](auto& m) {
        m.lr = c.lr;
        return oc::FromConfig(c, m);
      },
      method);
  OC_RETURN_IF_ERROR(status);
  HybridOptimizer optimizer(std::move(method), {.clip_norm = c.clip_norm.value_or(0),
                                                .clip_value = c.clip_value.value_or(0),
                                                .schedule = c.schedule,
                                                .groups = c.groups,
                                                .ema_decay = c.ema ? c.ema->decay : 0});
  return optimizer;
}

StatusOr<OptimizerConfig> HybridOptimizer::DefaultConfig(const std::string& name) {
  OC_ASSIGN_OR_RETURN(const Method method, DefaultMethod(name));
  OptimizerConfig config{.name = name};
  std::visit(
      [&](const auto& m) {
        config.lr = m.lr;
        ToConfig(m, config);
      },
      method);
  return config;
}

std::vector<std::string> HybridOptimizer::ConfigKeys(const std::string& name) {
  const auto method = DefaultMethod(name);
  if (!method.ok()) return {};
  return std::visit([](const auto& m) { return oc::ConfigKeys(m); }, *method);
}

const char* HybridOptimizer::name() const {
  return std::visit([](const auto& m) -> const char* { return m.kName; }, method_);
}

double HybridOptimizer::lr() const {
  return std::visit([](const auto& m) { return m.lr; }, method_);
}

std::string HybridOptimizer::ToString() const {
  std::string text = std::visit([](const auto& m) { return oc::ToString(m); }, method_);
  absl::StrAppend(&text, " clip_norm ", options_.clip_norm);
  if (options_.clip_value > 0) absl::StrAppend(&text, " clip_value ", options_.clip_value);
  absl::StrAppend(&text, " schedule ", options_.schedule.name);
  if (!options_.groups.empty()) absl::StrAppend(&text, " groups ", options_.groups.size());
  if (options_.ema_decay > 0) absl::StrAppend(&text, " ema ", options_.ema_decay);
  return text;
}

}  // namespace oc
