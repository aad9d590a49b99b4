#include "openclaw/devices/cuda/kernels/pools.h"

#include "openclaw/devices/cuda/plan.h"
#include "openclaw/graph/ops/window.h"

namespace oc::cuda {
namespace {

using What = kernels::Pool::What;

kernels::PoolAxis AxisOf(const ops::WindowAxis& axis, int64_t size, int64_t outputs) {
  return {.size = static_cast<int>(size),
          .outputs = static_cast<int>(outputs),
          .kernel = static_cast<int>(axis.kernel),
          .stride = static_cast<int>(axis.stride),
          .before = static_cast<int>(axis.before),
          .by_stride = kernels::Quotient(axis.stride)};
}

Status AddPool(const OpRequest& r, OpPlan& plan, What what) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  const bool gradient = what == What::kMaxGrad || what == What::kMeanGrad;
  const bool max = what == What::kMax || what == What::kMaxGrad;
  const Shape& image = gradient ? r.outputs[0].shape : r.inputs[0].shape;
  const Shape& pooled = gradient ? r.inputs[0].shape : r.outputs[0].shape;
  kernels::Pool pool{.what = what,
                     .type = TypeOf(r.inputs[0].dtype),
                     .batch = image[0].size(),
                     .channels = image[3].size(),
                     .h = AxisOf(window.h, image[1].size(), pooled[1].size()),
                     .w = AxisOf(window.w, image[2].size(), pooled[2].size()),
                     .count_padding = r.attrs.Bool("count_include_pad", true)};
  plan.Launch([=](const Call& c) {
    kernels::Pool p = pool;
    p.from = c.In(0);
    p.to = c.Out(0);
    if (max) p.index = gradient ? const_cast<uint8_t*>(c.In<uint8_t>(1)) : c.Out<uint8_t>(1);
    return kernels::Launch(p, c.stream);
  });
  return OkStatus();
}

Status MaxPool(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddPool(r, plan, What::kMax);
}
Status MaxPoolGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddPool(r, plan, What::kMaxGrad);
}
Status AvgPool(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddPool(r, plan, What::kMean);
}
Status AvgPoolGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddPool(r, plan, What::kMeanGrad);
}

}  // namespace

void RegisterPools(PlanRegistry& registry) {
  registry["max_pool2d"] = {MaxPool};
  registry["max_pool2d_grad"] = {MaxPoolGrad};
  registry["avg_pool2d"] = {AvgPool};
  registry["avg_pool2d_grad"] = {AvgPoolGrad};
}

}  // namespace oc::cuda
