#include <algorithm>

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/walk.h"

namespace oc::opencl {
namespace {

Status WantAllF32(const OpRequest& r) {
  for (const TensorType& t : r.inputs) OC_RETURN_IF_ERROR(WantF32(t));
  return OkStatus();
}

double Eps(const OpRequest& r) { return r.attrs.Double("eps", 1e-5); }

Status LayerNorm(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  const bool gamma = r.inputs.size() > 1, beta = r.inputs.size() > 2;
  KernelStep& step = plan.Kernel("norms", "norm").Define("CENTRED", "");
  if (gamma) step.Define("GAMMA", "");
  if (beta) step.Define("BETA", "");
  step.In(0)
      .Add(gamma ? In(1) : Operand{})
      .Add(beta ? In(2) : Operand{})
      .Out(0)
      .Out(1)
      .Out(2)
      .Int(rows.columns)
      .Float(Eps(r))
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status LayerNormGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  const bool gamma = r.inputs.size() == 5;
  const int mean = gamma ? 3 : 2;
  KernelStep& step = plan.Kernel("norms", "norm_grad").Define("CENTRED", "");
  if (gamma) step.Define("GAMMA", "");
  step.In(0)
      .In(1)
      .Add(gamma ? In(2) : Operand{})
      .In(mean)
      .In(mean + 1)
      .Out(0)
      .Int(rows.columns)
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status LayerNormGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  AddColumnSums(plan, rows.count, rows.columns, {In(0), In(1), In(2), In(3)},
                {"a[i] * (b[i] - m[r]) * s[r]", "a[i]"}, {Out(0), Out(1)}, 1, r.accumulate);
  return OkStatus();
}

Status RmsNorm(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  plan.Kernel("norms", "norm")
      .Define("GAMMA", "")
      .In(0)
      .In(1)
      .Add({})
      .Out(0)
      .Add({})
      .Out(1)
      .Int(rows.columns)
      .Float(Eps(r))
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status RmsNormGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  plan.Kernel("norms", "norm_grad")
      .Define("GAMMA", "")
      .In(0)
      .In(1)
      .In(2)
      .Add({})
      .In(3)
      .Out(0)
      .Int(rows.columns)
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status RmsNormGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const RowSplit rows(r.inputs[0].shape);
  AddColumnSums(plan, rows.count, rows.columns, {In(0), In(1), {}, In(2)}, {"a[i] * b[i] * s[r]"},
                {Out(0)}, 1, r.accumulate);
  return OkStatus();
}

bool HasRelu(const OpRequest& r) { return r.attrs.String("activation", "none") == "relu"; }

void CopyFloats(OpPlan& plan, Operand from, Operand to, int64_t n, double factor) {
  plan.Kernel("norms", "times").Add(from).Add(to).Int(n).Float(factor).Items(n);
}

Status BatchNorm(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const int64_t n = r.inputs[0].shape.num_elements();
  const int64_t channels = r.inputs[1].shape.num_elements();
  const int64_t rows = n / std::max<int64_t>(channels, 1);
  if (r.attrs.Bool("training", true)) {
    const double scale = 1.0 / static_cast<double>(rows);
    AddColumnSums(plan, rows, channels, {In(0)}, {"a[i]"}, {Out(1)}, scale, 0);
    AddColumnSums(plan, rows, channels, {In(0), {}, Out(1)}, {"(a[i] - m[c]) * (a[i] - m[c])"},
                  {Out(2)}, scale, 0);
  } else {
    CopyFloats(plan, In(3), Out(1), channels, 1);
    CopyFloats(plan, In(4), Out(2), channels, 1);
  }
  plan.Kernel("norms", "batch_norm")
      .In(0)
      .In(1)
      .In(2)
      .Out(1)
      .Out(2)
      .Out(0)
      .Int(n)
      .Int(channels)
      .Float(Eps(r))
      .Int(HasRelu(r) ? 1 : 0)
      .Items(n);
  return OkStatus();
}

Status BatchNormGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const int64_t n = r.inputs[0].shape.num_elements();
  const int64_t channels = r.inputs[2].shape.num_elements();
  const int64_t rows = n / std::max<int64_t>(channels, 1);
  const std::string xhat =
      absl::StrCat("((b[i] - m[c]) * (1.0f / sqrt(s[c] + ", Literal(Eps(r)), ")))");
  const std::string gated =
      HasRelu(r) ? absl::StrCat("(", xhat, " * g[c] + h[c] <= 0 ? 0 : a[i])") : "a[i]";
  AddColumnSums(plan, rows, channels, {In(0), In(1), In(4), In(5), In(2), In(3)},
                {absl::StrCat(gated, " * ", xhat), gated}, {Out(1), Out(2)}, 1, 0);
  plan.Kernel("norms", "batch_norm_grad")
      .In(0)
      .In(1)
      .In(2)
      .In(3)
      .In(4)
      .In(5)
      .Out(1)
      .Out(2)
      .Out(0)
      .Int(n)
      .Int(channels)
      .Float(Eps(r))
      .Float(static_cast<double>(rows))
      .Int(HasRelu(r) ? 1 : 0)
      .Items(n);
  return OkStatus();
}

Status UnbiasedVar(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantAllF32(r));
  const auto n = static_cast<double>(r.attrs.GetShape("rows").num_elements());
  CopyFloats(plan, In(0), Out(0), r.inputs[0].shape.num_elements(), n / std::max(n - 1, 1.0));
  return OkStatus();
}

}  // namespace

void RegisterNorms(PlanRegistry& registry) {
  registry["layer_norm"] = {LayerNorm};
  registry["layer_norm_grad_input"] = {LayerNormGradInput};
  registry["layer_norm_grad_weight"] = {LayerNormGradWeight, 3};
  registry["rms_norm"] = {RmsNorm};
  registry["rms_norm_grad_input"] = {RmsNormGradInput};
  registry["rms_norm_grad_weight"] = {RmsNormGradWeight, 1};
  registry["batch_norm"] = {BatchNorm};
  registry["batch_norm_grad"] = {BatchNormGrad};
  registry["unbiased_var"] = {UnbiasedVar};
}

}  // namespace oc::opencl
