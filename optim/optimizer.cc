#include "openclaw/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "openclaw/graph/builder.h"
#include "openclaw/optim/learning_rate.h"

namespace oc {
namespace {

// Builds one update graph.
class UpdateBuilder {
 public:
  UpdateBuilder(const Graph& joint, const OptimizerOptions& options)
      : joint_(joint), b_(joint.name + ".update", joint.shared_ops()), options_(options) {
    b_.SetPhase(Phase::kUpdate, kNone);
    lr_ = b_.Scalar("lr", {DType::kF32, {}}, Scope::kStep);
    step_ = b_.Scalar("step", {DType::kF32, {}}, Scope::kStep);
    norm_ = {
        b_.graph().AddInput("grad_norm_sq", {DType::kF32, {}}, ValueKind::kReduced, Scope::kStep)};
    const double limit =
        options.clip_norm > 0 ? options.clip_norm : std::numeric_limits<double>::infinity();
    if (joint.FindValue("loss_scale") == kNone) {
      clip_ = b_.Op("clip_factor", {norm_}, {{"max_norm", limit}});
    } else {
      // The norm of the gradients without the scale; the factor takes it out of them.
      const Val inverse = b_.Scalar("inv_loss_scale", {DType::kF32, {}}, Scope::kStep);
      const Val unscaled = b_.Mul(b_.Mul(norm_, inverse), inverse);
      clip_ = b_.Mul(b_.Op("clip_factor", {unscaled}, {{"max_norm", limit}}), inverse);
    }
  }

  Status Add(const Sgd& sgd, const Accumulator& a) {
    const auto [p, g, decay] = Begin(a);
    std::vector<Val> inputs = {p, g, lr_, clip_};
    if (sgd.momentum != 0) inputs.push_back(Moment("sgd.momentum", p));
    const std::vector<Val> outputs = b_.OpN("sgd", inputs,
                                            {{"momentum", sgd.momentum},
                                             {"nesterov", sgd.nesterov},
                                             {"weight_decay", decay ? sgd.weight_decay : 0.0}});
    OC_RETURN_IF_ERROR(b_.status());
    SetUpdated(p, outputs[0]);
    if (sgd.momentum != 0) SetUpdated(inputs[4], outputs[1]);
    return OkStatus();
  }

  Status Add(const AdamW& adamw, const Accumulator& a) {
    const auto [p, g, decay] = Begin(a);
    const Val m = Moment("adamw.m", p), v = Moment("adamw.v", p);
    const std::vector<Val> outputs = b_.OpN("adamw", {p, g, m, v, lr_, step_, clip_},
                                            {{"beta1", adamw.beta1},
                                             {"beta2", adamw.beta2},
                                             {"eps", adamw.eps},
                                             {"weight_decay", decay ? adamw.weight_decay : 0.0}});
    OC_RETURN_IF_ERROR(b_.status());
    SetUpdated(p, outputs[0]);
    SetUpdated(m, outputs[1]);
    SetUpdated(v, outputs[2]);
    return OkStatus();
  }

  // A running statistic takes up the step's mean.
  Status AddState(const Accumulator& a) {
    const Value& target = joint_.value(a.target);
    const Variable* variable = joint_.FindVariable(a.target);
    const Val state = b_.State(target.name, target.type, variable->init);
    const Val sum = Reduced(a);
    const Val scale =
        b_.Cast(b_.Scalar("inv_micro_batches", {DType::kF32, {}}, Scope::kStep), target.type.dtype);
    const Val updated = b_.Op("lerp", {state, b_.Mul(sum, scale)}, {{"rate", a.rate}});
    OC_RETURN_IF_ERROR(b_.status());
    SetUpdated(state, updated);
    return OkStatus();
  }

  StatusOr<Graph> Finish() {
    b_.graph().accumulators.push_back(
        {.kind = Accumulator::Kind::kMetric, .name = "grad_norm_sq", .contributions = squares_});
    return b_.Finish();
  }

 private:
  struct Begun {
    Val p, g;
    bool decay;
  };
  // The parameter, its gradient, and the gradient's share of the norm.
  Begun Begin(const Accumulator& a) {
    const Value& target = joint_.value(a.target);
    const Variable* variable = joint_.FindVariable(a.target);
    const Val p = b_.Parameter(target.name, target.type, variable->init, variable->decay);
    const Val g = Reduced(a);
    if (const Val s = b_.Op("sum_squares", {g})) squares_.push_back(s.id);
    return {p, g, variable->decay};
  }
  // In the type that it is summed in: the parameter's may be narrower.
  Val Reduced(const Accumulator& a) {
    const TensorType& type = joint_.value(a.contributions[0]).type;
    return {b_.graph().AddInput(a.name, type, ValueKind::kReduced, Scope::kStep)};
  }
  Val Moment(const std::string& kind, Val p) {
    const Value v = b_.graph().value(p.id);
    return b_.State(absl::StrCat(kind, ".", v.name), v.type, Initializer::Constant(0));
  }
  void SetUpdated(Val variable, Val updated) {
    for (auto* list : {&b_.graph().parameters, &b_.graph().states}) {
      for (Variable& v : *list) {
        if (v.value == variable.id) v.updated = updated.id;
      }
    }
  }

  const Graph& joint_;
  GraphBuilder b_;
  const OptimizerOptions& options_;
  Val lr_, step_, norm_, clip_;
  std::vector<int> squares_;
};

// `value` must be at least `least` and below `end`; NaN is neither.
Status CheckRange(const char* name, double value, double least, double end) {
  if (value >= least && value < end) return OkStatus();
  return InvalidArgument("optimizer: ", name, " is ", value, ", wants a number from ", least,
                         std::isinf(end) ? " on" : absl::StrCat(" to below ", end));
}

}  // namespace

Status HybridOptimizer::Check() const {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  OC_RETURN_IF_ERROR(CheckSchedule(options_.schedule));
  OC_RETURN_IF_ERROR(CheckRange("clip_norm", options_.clip_norm, 0, kAny));
  OC_RETURN_IF_ERROR(CheckRange("lr", lr(), 0, kAny));
  if (const auto* sgd = std::get_if<Sgd>(&method_)) {
    OC_RETURN_IF_ERROR(CheckRange("momentum", sgd->momentum, 0, 1));
    OC_RETURN_IF_ERROR(CheckRange("weight_decay", sgd->weight_decay, 0, kAny));
    if (sgd->nesterov && sgd->momentum == 0) {
      return InvalidArgument("optimizer: nesterov wants a momentum above 0");
    }
    return OkStatus();
  }
  const auto& adamw = std::get<AdamW>(method_);
  OC_RETURN_IF_ERROR(CheckRange("beta1", adamw.beta1, 0, 1));
  OC_RETURN_IF_ERROR(CheckRange("beta2", adamw.beta2, 0, 1));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", adamw.weight_decay, 0, kAny));
  if (!(adamw.eps > 0 && std::isfinite(adamw.eps))) {
    return InvalidArgument("optimizer: eps is ", adamw.eps, ", wants a positive number");
  }
  return OkStatus();
}

StatusOr<HybridOptimizer> HybridOptimizer::FromConfig(const OptimizerConfig& c) {
  OC_RETURN_IF_ERROR(CheckSchedule(c.schedule));
  const OptimizerOptions options = {.clip_norm = c.clip_norm.value_or(0), .schedule = c.schedule};
  if (c.name == "sgd") {
    return HybridOptimizer(Sgd{.lr = c.lr,
                               .momentum = c.momentum,
                               .nesterov = c.nesterov,
                               .weight_decay = c.weight_decay},
                           options);
  }
  if (c.name == "adamw") {
    if (c.betas.size() != 2) {
      return InvalidArgument("optimizer.betas has ", c.betas.size(), " values, adamw takes 2");
    }
    return HybridOptimizer(AdamW{.lr = c.lr,
                                 .beta1 = c.betas[0],
                                 .beta2 = c.betas[1],
                                 .eps = c.eps,
                                 .weight_decay = c.weight_decay},
                           options);
  }
  return Unimplemented("optimizer.name '", c.name, "'; there are sgd, adamw");
}

const char* HybridOptimizer::name() const {
  return std::holds_alternative<Sgd>(method_) ? "sgd" : "adamw";
}

double HybridOptimizer::lr() const {
  return std::visit([](const auto& m) { return m.lr; }, method_);
}

std::string HybridOptimizer::ToString() const {
  std::string text;
  if (const auto* sgd = std::get_if<Sgd>(&method_)) {
    text = absl::StrCat("sgd lr ", sgd->lr, " momentum ", sgd->momentum,
                        sgd->nesterov ? " nesterov" : "", " weight_decay ", sgd->weight_decay);
  } else {
    const auto& adamw = std::get<AdamW>(method_);
    text = absl::StrCat("adamw lr ", adamw.lr, " betas ", adamw.beta1, " ", adamw.beta2, " eps ",
                        adamw.eps, " weight_decay ", adamw.weight_decay);
  }
  return absl::StrCat(text, " clip_norm ", options_.clip_norm, " schedule ",
                      options_.schedule.name);
}

StatusOr<Graph> HybridOptimizer::BuildUpdate(const Graph& joint) const {
  OC_RETURN_IF_ERROR(Check());
  UpdateBuilder builder(joint, options_);
  for (const Accumulator& a : joint.accumulators) {
    if (a.kind == Accumulator::Kind::kGradient) {
      OC_RETURN_IF_ERROR(std::visit([&](const auto& m) { return builder.Add(m, a); }, method_));
    } else if (a.kind == Accumulator::Kind::kState) {
      OC_RETURN_IF_ERROR(builder.AddState(a));
    }
  }
  return builder.Finish();
}

}  // namespace oc
