#include "openclaw/devices/cuda/kernels/reduce.h"

#include "openclaw/devices/cuda/plan.h"
#include "openclaw/devices/cuda/walk.h"

namespace oc::cuda {
namespace {

using kernels::ReduceOp;

// The walks over what stays and what is summed away.
struct Axes {
  explicit Axes(const OpRequest& r) {
    const Shape& x = r.inputs[0].shape;
    const std::vector<int64_t> strides = Strides(x);
    const std::vector<int64_t> axes = r.attrs.Ints("axes");
    std::vector<bool> away(static_cast<size_t>(x.rank()), axes.empty());
    for (int64_t a : axes) away[static_cast<size_t>(a < 0 ? a + x.rank() : a)] = true;
    for (size_t d = 0; d < strides.size(); ++d) {
      (away[d] ? inner : kept).Add(x[static_cast<int>(d)].size(), strides[d]);
    }
  }
  // Over leading dimensions, of elements whose last dimensions stay.
  bool columns() const {
    return kept.sizes().size() == 1 && kept.strides()[0] == 1 && inner.sizes().size() == 1 &&
           inner.strides()[0] == kept.sizes()[0];
  }
  WalkBuilder kept, inner;
};

Status Columns(const OpRequest& r, const Traits& traits, OpPlan& plan, const Axes& axes,
               bool mean) {
  const int64_t rows = axes.inner.elements(), columns = axes.kept.elements();
  const int chunks = kernels::ColumnChunks(rows, columns, traits.units);
  const int64_t partial = plan.Reserve(chunks * columns * 8);
  const double scale = mean ? 1.0 / static_cast<double>(rows) : 1.0;
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), out = TypeOf(r.outputs[0].dtype),
               add = r.accumulate != 0](const Call& c) {
    return kernels::ColumnSums(type, out, c.In(0), rows, columns, chunks, c.Work<double>(partial),
                               scale, add, c.Out(0), c.stream);
  });
  return OkStatus();
}

Status Reduce(const OpRequest& r, const Traits& traits, OpPlan& plan, ReduceOp op) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  if (r.inputs[0].dtype == DType::kBool) return Unimplemented("no kernel for bool");
  const Axes axes(r);
  if (op != ReduceOp::kMax && IsFloat(r.inputs[0].dtype) && axes.columns()) {
    return Columns(r, traits, plan, axes, op == ReduceOp::kMean);
  }
  OC_ASSIGN_OR_RETURN(const kernels::Walk kept, axes.kept.Build());
  OC_ASSIGN_OR_RETURN(const kernels::Walk inner, axes.inner.Build());
  const int parts = kernels::ReduceParts(axes.kept.elements(), axes.inner.elements());
  const int64_t partial = plan.Reserve(parts > 1 ? axes.kept.elements() * parts * 8 : 0);
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), out = TypeOf(r.outputs[0].dtype),
               add = r.accumulate != 0](const Call& c) {
    return kernels::Reduce(type, out, op, c.In(0), kept, inner, parts, c.Work(partial), add,
                           c.Out(0), c.stream);
  });
  return OkStatus();
}

template <ReduceOp op>
Status PlanReduce(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  return Reduce(r, traits, plan, op);
}

}  // namespace

void RegisterReduce(PlanRegistry& registry) {
  registry["reduce_sum"] = {PlanReduce<ReduceOp::kSum>, 1, true};
  registry["reduce_mean"] = {PlanReduce<ReduceOp::kMean>};
  registry["reduce_max"] = {PlanReduce<ReduceOp::kMax>};
}

}  // namespace oc::cuda
