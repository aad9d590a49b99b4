// Layer norm and RMS norm, also with the residual sums around them.
#include "openclaw/devices/cuda/kernels/norms.h"
#include "openclaw/devices/cuda/plan.h"

namespace oc::cuda {
namespace {

bool IsCentred(const OpRequest& r) { return r.def->name.find("layer_norm") != std::string::npos; }

Status Norm(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  const kernels::NormForward norm_of{.type = TypeOf(r.inputs[0].dtype),
                                     .centred = IsCentred(r),
                                     .rows = rows.count,
                                     .columns = rows.columns,
                                     .eps = r.attrs.Double("eps", 1e-5)};
  const bool gamma = r.inputs.size() > 1, beta = r.inputs.size() > 2;
  plan.Launch([=](const Call& c) {
    kernels::NormForward norm = norm_of;
    norm.x = c.In(0);
    norm.gamma = gamma ? c.In(1) : nullptr;
    norm.beta = beta ? c.In(2) : nullptr;
    norm.y = c.Out(0);
    norm.mean = norm.centred ? c.Out<float>(1) : nullptr;
    norm.rstd = c.Out<float>(norm.centred ? 2 : 1);
    return kernels::Launch(norm, c.stream);
  });
  return OkStatus();
}

kernels::NormBackward BackwardOf(const OpRequest& r) {
  const RowSplit rows(r.inputs[0].shape);
  return {.type = TypeOf(r.inputs[0].dtype),
          .centred = IsCentred(r),
          .rows = rows.count,
          .columns = rows.columns};
}

// dy, x, gamma?, mean (of layer norm), rstd.
Status NormGradInput(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const bool gamma = !IsCentred(r) || r.inputs.size() == 5;
  const int rstd = static_cast<int>(r.inputs.size()) - 1;
  plan.Launch([=, norm_of = BackwardOf(r)](const Call& c) {
    kernels::NormBackward norm = norm_of;
    norm.dy = c.In(0);
    norm.x = c.In(1);
    norm.gamma = gamma ? c.In(2) : nullptr;
    norm.mean = norm.centred ? c.In<float>(rstd - 1) : nullptr;
    norm.rstd = c.In<float>(rstd);
    norm.dx = c.Out(0);
    return kernels::Launch(norm, c.stream);
  });
  return OkStatus();
}

// dy, x, mean (of layer norm), rstd.
Status NormGradWeight(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  kernels::NormBackward norm_of = BackwardOf(r);
  norm_of.weight_type = TypeOf(r.outputs[0].dtype);
  norm_of.add_dgamma = (r.accumulate & 1) != 0;
  norm_of.add_dbeta = (r.accumulate & 2) != 0;
  const int64_t floats = kernels::NormWorkspace(norm_of.rows, norm_of.columns);
  const int64_t room = plan.Reserve(floats * static_cast<int64_t>(sizeof(float)));
  plan.Launch([=](const Call& c) {
    kernels::NormBackward norm = norm_of;
    norm.dy = c.In(0);
    norm.x = c.In(1);
    norm.mean = norm.centred ? c.In<float>(2) : nullptr;
    norm.rstd = c.In<float>(norm.centred ? 3 : 2);
    norm.dgamma = c.Out(0);
    norm.dbeta = norm.centred ? c.Out(1) : nullptr;
    norm.workspace = c.Work<float>(room);
    return kernels::Launch(norm, c.stream);
  });
  return OkStatus();
}

// a, b, gamma, beta -> a + b, y, mean, rstd.
Status AddNorm(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  const kernels::NormForward norm_of{.type = TypeOf(r.inputs[0].dtype),
                                     .rows = rows.count,
                                     .columns = rows.columns,
                                     .eps = r.attrs.Double("eps", 1e-5)};
  plan.Launch([=](const Call& c) {
    kernels::NormForward norm = norm_of;
    norm.x = c.In(0);
    norm.residual = c.In(1);
    norm.gamma = c.In(2);
    norm.beta = c.In(3);
    norm.sum = c.Out(0);
    norm.y = c.Out(1);
    norm.mean = c.Out<float>(2);
    norm.rstd = c.Out<float>(3);
    return kernels::Launch(norm, c.stream);
  });
  return OkStatus();
}

// dy, x, gamma, mean, rstd, other? -> dx, dgamma, dbeta.
Status NormGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  kernels::NormBackward norm_of = BackwardOf(r);
  norm_of.weight_type = TypeOf(r.outputs[1].dtype);
  norm_of.add_dgamma = (r.accumulate & 2) != 0;
  norm_of.add_dbeta = (r.accumulate & 4) != 0;
  const bool other = r.inputs.size() > 5;
  const int64_t floats = kernels::NormWorkspace(norm_of.rows, norm_of.columns);
  const int64_t room = plan.Reserve(floats * static_cast<int64_t>(sizeof(float)));
  plan.Launch([=](const Call& c) {
    kernels::NormBackward norm = norm_of;
    norm.dy = c.In(0);
    norm.x = c.In(1);
    norm.gamma = c.In(2);
    norm.mean = c.In<float>(3);
    norm.rstd = c.In<float>(4);
    norm.residual = other ? c.In(5) : nullptr;
    norm.dx = c.Out(0);
    norm.dgamma = c.Out(1);
    norm.dbeta = c.Out(2);
    norm.workspace = c.Work<float>(room);
    return kernels::Launch(norm, c.stream);
  });
  return OkStatus();
}

}  // namespace

void RegisterRowNorms(PlanRegistry& registry) {
  registry["layer_norm"] = {Norm};
  registry["layer_norm_grad_input"] = {NormGradInput};
  registry["layer_norm_grad_weight"] = {NormGradWeight, 3, true};
  registry["add_layer_norm"] = {AddNorm};
  registry["layer_norm_grad"] = {NormGrad, 0b110, true};
  registry["rms_norm"] = {Norm};
  registry["rms_norm_grad_input"] = {NormGradInput};
  registry["rms_norm_grad_weight"] = {NormGradWeight, 1, true};
}

}  // namespace oc::cuda
