#include "openclaw/devices/cuda/kernels/batch_norm.h"

#include "openclaw/devices/cuda/kernels/elementwise.h"
#include "openclaw/devices/cuda/kernels/reduce.h"
#include "openclaw/devices/cuda/plan.h"

namespace oc::cuda {
namespace {

kernels::BatchNormShape ShapeOf(const OpRequest& r, const Traits& traits) {
  const RowSplit split(r.inputs[0].shape);
  return {.type = TypeOf(r.inputs[0].dtype),
          .rows = split.count,
          .columns = split.columns,
          .eps = static_cast<float>(r.attrs.Double("eps", 1e-5)),
          .relu = r.attrs.String("activation", "none") == "relu",
          .chunks = kernels::ColumnChunks(split.count, split.columns, traits.units)};
}

Status BatchNorm(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const kernels::BatchNormShape shape = ShapeOf(r, traits);
  const int64_t work = plan.Reserve(kernels::BatchNormWork(shape) * 8);
  if (!r.attrs.Bool("training", true)) {
    plan.Launch([=](const Call& c) {
      return kernels::BatchNormFixed(shape, c.In(0), c.In(1), c.In(2), c.In<float>(3),
                                     c.In<float>(4), c.Out(0), c.Out<float>(1), c.Out<float>(2),
                                     c.Work<double>(work), c.stream);
    });
    return OkStatus();
  }
  if (shape.rows == 0) return Unimplemented("no kernel for the statistics of no rows");
  plan.Launch([=](const Call& c) {
    return kernels::BatchNorm(shape, c.In(0), c.In(1), c.In(2), c.Out(0), c.Out<float>(1),
                              c.Out<float>(2), c.Work<double>(work), c.stream);
  });
  return OkStatus();
}

Status BatchNormGrad(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const kernels::BatchNormShape shape = ShapeOf(r, traits);
  const int64_t work = plan.Reserve(kernels::BatchNormWork(shape) * 8);
  plan.Launch([=, sums = TypeOf(r.outputs[1].dtype)](const Call& c) {
    return kernels::BatchNormGrad(shape, c.In(0), c.In(1), c.In(2), c.In(3), c.In<float>(4),
                                  c.In<float>(5), c.Out(0), sums, c.Out(1), c.Out(2),
                                  c.Work<double>(work), c.stream);
  });
  return OkStatus();
}

// var * n / max(n - 1, 1).
Status UnbiasedVar(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const auto rows = static_cast<double>(r.attrs.GetShape("rows").num_elements());
  const auto factor = static_cast<float>(rows / std::max(rows - 1, 1.0));
  plan.Launch(
      [=, type = TypeOf(r.inputs[0].dtype), n = r.outputs[0].shape.num_elements()](const Call& c) {
        return kernels::Unary(type, kernels::UnaryOp::kScale, factor, 0, c.In(0), c.Out(0), n,
                              c.stream);
      });
  return OkStatus();
}

}  // namespace

void RegisterBatchNorm(PlanRegistry& registry) {
  registry["batch_norm"] = {BatchNorm};
  registry["batch_norm_grad"] = {BatchNormGrad, 0, true};
  registry["unbiased_var"] = {UnbiasedVar};
}

}  // namespace oc::cuda
