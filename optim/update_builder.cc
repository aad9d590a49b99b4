#include "openclaw/optim/update_builder.h"

#include <cmath>
#include <limits>

namespace oc {
namespace {
constexpr double kAny = std::numeric_limits<double>::infinity();
}

UpdateBuilder::UpdateBuilder(GraphBuilder builder, double clip_norm, double clip_value,
                             bool loss_scale)
    : b_(std::move(builder)), clip_value_(clip_value) {
  b_.SetPhase(Phase::kUpdate, kNone);
  lr_ = b_.Scalar("lr", {DType::kF32, {}}, Scope::kStep);
  step_ = b_.Scalar("step", {DType::kF32, {}}, Scope::kStep);
  const Val norm = {
      b_.graph().AddInput("grad_norm_sq", {DType::kF32, {}}, ValueKind::kReduced, Scope::kStep)};
  const Attributes limit = {{"max_norm", clip_norm > 0 ? clip_norm : kAny}};
  if (!loss_scale) {
    clip_ = b_.Op("clip_factor", {norm}, limit);
    return;
  }
  // The norm of the gradients without the scale; the factor takes it out of them.
  const Val inverse = b_.Scalar("inv_loss_scale", {DType::kF32, {}}, Scope::kStep);
  const Val unscaled = b_.Mul(b_.Mul(norm, inverse), inverse);
  clip_ = b_.Mul(b_.Op("clip_factor", {unscaled}, limit), inverse);
}

Val UpdateBuilder::State(const std::string& kind, const ParameterUpdate& u) {
  return State(kind, u, b_.type(u.p));
}

Val UpdateBuilder::State(const std::string& kind, const ParameterUpdate& u, TensorType type) {
  return b_.State(absl::StrCat(kind, ".", u.name), std::move(type), Initializer::Constant(0));
}

void UpdateBuilder::SetClip(Attributes& attrs) const {
  if (clip_value_ > 0) attrs.Set("clip_value", clip_value_);
}

void UpdateBuilder::SetRate(const ParameterUpdate& u, Attributes& attrs, double factor) {
  if (u.lr_scale * factor != 1) attrs.Set("lr_scale", u.lr_scale * factor);
}

Val UpdateBuilder::Replace(const std::string& op, const std::vector<Val>& inputs,
                           const std::vector<Val>& variables, Attributes attrs) {
  const std::vector<Val> outputs = ReplaceAll(op, inputs, variables, std::move(attrs));
  return outputs.empty() ? Val{} : outputs[0];
}

std::vector<Val> UpdateBuilder::ReplaceAll(const std::string& op, const std::vector<Val>& inputs,
                                           const std::vector<Val>& variables, Attributes attrs) {
  const std::vector<Val> outputs = b_.OpN(op, inputs, std::move(attrs));
  for (size_t i = 0; i < variables.size() && i < outputs.size(); ++i) {
    SetUpdated(variables[i], outputs[i]);
  }
  return outputs;
}

void UpdateBuilder::SetUpdated(Val variable, Val updated) {
  for (auto* list : {&b_.graph().parameters, &b_.graph().states}) {
    for (Variable& v : *list) {
      if (v.value == variable.id) v.updated = updated.id;
    }
  }
}

Status CheckRange(const char* name, double value, double least, double end) {
  if (value >= least && value < end) return OkStatus();
  return InvalidArgument("optimizer: ", name, " is ", value, ", wants a number from ", least,
                         std::isinf(end) ? " on" : absl::StrCat(" to below ", end));
}

Status CheckRange(const char* name, double value, double least) {
  return CheckRange(name, value, least, kAny);
}

Status CheckPositive(const char* name, double value) {
  if (value > 0 && std::isfinite(value)) return OkStatus();
  return InvalidArgument("optimizer: ", name, " is ", value, ", wants a positive number");
}

Status CheckBetas(double beta1, double beta2) {
  OC_RETURN_IF_ERROR(CheckRange("beta1", beta1, 0, 1));
  return CheckRange("beta2", beta2, 0, 1);
}

Status BetasFromConfig(const OptimizerConfig& config, double& beta1, double& beta2) {
  if (config.betas.size() != 2) {
    return InvalidArgument("optimizer.betas has ", config.betas.size(), " values, ", config.name,
                           " takes 2");
  }
  beta1 = config.betas[0];
  beta2 = config.betas[1];
  return OkStatus();
}

}  // namespace oc
