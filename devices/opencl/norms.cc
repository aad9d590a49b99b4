#include <algorithm>

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/walk.h"

namespace oc::opencl {
namespace {

double Eps(const OpRequest& r) { return r.attrs.Double("eps", 1e-5); }

bool IsCentred(const OpRequest& r) { return r.def->name.rfind("layer_norm", 0) == 0; }

// layer_norm and rms_norm, which has no mean.
Status Norm(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  const bool centred = IsCentred(r), gamma = r.inputs.size() > 1, beta = r.inputs.size() > 2;
  KernelStep& step = plan.Kernel("norms", "norm");
  if (centred) step.Define("CENTRED", "");
  if (gamma) step.Define("GAMMA", "");
  if (beta) step.Define("BETA", "");
  step.In(0)
      .Add(gamma ? In(1) : Operand{})
      .Add(beta ? In(2) : Operand{})
      .Out(0)
      .Add(centred ? Out(1) : Operand{})
      .Out(centred ? 2 : 1)
      .Int(rows.columns)
      .Float(Eps(r))
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status NormGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  const bool centred = IsCentred(r), gamma = !centred || r.inputs.size() == 5;
  const int rstd = static_cast<int>(r.inputs.size()) - 1;
  KernelStep& step = plan.Kernel("norms", "norm_grad");
  if (centred) step.Define("CENTRED", "");
  if (gamma) step.Define("GAMMA", "");
  step.In(0)
      .In(1)
      .Add(gamma ? In(2) : Operand{})
      .Add(centred ? In(rstd - 1) : Operand{})
      .In(rstd)
      .Out(0)
      .Int(rows.columns)
      .Groups(rows.count, kRow);
  return OkStatus();
}

Status LayerNormGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  AddColumnSums(plan, rows.count, rows.columns, {In(0), In(1), In(2), In(3)},
                {"GET(a, i) * (GET(b, i) - m[r]) * s[r]", "GET(a, i)"}, {Out(0), Out(1)}, "E", 1,
                r.accumulate);
  return OkStatus();
}

Status RmsNormGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  AddColumnSums(plan, rows.count, rows.columns, {In(0), In(1), {}, In(2)},
                {"GET(a, i) * GET(b, i) * s[r]"}, {Out(0)}, "E", 1, r.accumulate);
  return OkStatus();
}

bool HasRelu(const OpRequest& r) { return r.attrs.String("activation", "none") == "relu"; }

Status BatchNorm(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const int64_t n = r.inputs[0].shape.num_elements();
  const int64_t channels = r.inputs[1].shape.num_elements();
  const int64_t rows = n / std::max<int64_t>(channels, 1);
  if (r.attrs.Bool("training", true)) {
    const double scale = 1.0 / static_cast<double>(rows);
    AddColumnSums(plan, rows, channels, {In(0)}, {"GET(a, i)"}, {Out(1)}, "float", scale, 0);
    AddColumnSums(plan, rows, channels, {In(0), {}, Out(1)},
                  {"(GET(a, i) - m[c]) * (GET(a, i) - m[c])"}, {Out(2)}, "float", scale, 0);
  } else {
    AddConvert(plan, In(3), "float", Out(1), "float", channels);
    AddConvert(plan, In(4), "float", Out(2), "float", channels);
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
  OC_RETURN_IF_ERROR(WantFloats(r));
  const int64_t n = r.inputs[0].shape.num_elements();
  const int64_t channels = r.inputs[2].shape.num_elements();
  const int64_t rows = n / std::max<int64_t>(channels, 1);
  const std::string xhat =
      absl::StrCat("((GET(b, i) - m[c]) * (1.0f / sqrt(s[c] + ", Literal(Eps(r)), ")))");
  const std::string gated =
      HasRelu(r) ? absl::StrCat("(", xhat, " * GET(g, c) + GET(h, c) <= 0 ? 0 : GET(a, i))")
                 : "GET(a, i)";
  // dx is made of the sums as floats.
  const bool narrow = plan.element() != "float";
  const Operand dgamma = narrow ? plan.Reserve(channels) : Out(1);
  const Operand dbeta = narrow ? plan.Reserve(channels) : Out(2);
  AddColumnSums(plan, rows, channels, {In(0), In(1), In(4), In(5), In(2), In(3)},
                {absl::StrCat(gated, " * ", xhat), gated}, {dgamma, dbeta}, "float", 1, 0);
  plan.Kernel("norms", "batch_norm_grad")
      .In(0)
      .In(1)
      .In(2)
      .In(3)
      .In(4)
      .In(5)
      .Add(dgamma)
      .Add(dbeta)
      .Out(0)
      .Int(n)
      .Int(channels)
      .Float(Eps(r))
      .Float(static_cast<double>(rows))
      .Int(HasRelu(r) ? 1 : 0)
      .Items(n);
  if (narrow) {
    AddConvert(plan, dgamma, "float", Out(1), "E", channels);
    AddConvert(plan, dbeta, "float", Out(2), "E", channels);
  }
  return OkStatus();
}

Status UnbiasedVar(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const auto n = static_cast<double>(r.attrs.GetShape("rows").num_elements());
  AddConvert(plan, In(0), "E", Out(0), "E", r.inputs[0].shape.num_elements(),
             n / std::max(n - 1, 1.0));
  return OkStatus();
}

}  // namespace

void RegisterNorms(PlanRegistry& registry) {
  registry["layer_norm"] = {Norm};
  registry["layer_norm_grad_input"] = {NormGradInput};
  registry["layer_norm_grad_weight"] = {LayerNormGradWeight, 3};
  registry["rms_norm"] = {Norm};
  registry["rms_norm_grad_input"] = {NormGradInput};
  registry["rms_norm_grad_weight"] = {RmsNormGradWeight, 1};
  registry["batch_norm"] = {BatchNorm};
  registry["batch_norm_grad"] = {BatchNormGrad};
  registry["unbiased_var"] = {UnbiasedVar};
}

}  // namespace oc::opencl
