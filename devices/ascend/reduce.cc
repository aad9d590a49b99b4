#include <cmath>
#include <limits>

#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

// What goes, and the shape with a 1 for each.
struct Axes {
  Axes(const OpRequest& r, const View& x) : kept(x.dims) {
    std::vector<bool> away(x.dims.size(), r.attrs.Ints("axes").empty());
    for (int64_t a : r.attrs.Ints("axes")) {
      away[static_cast<size_t>(a < 0 ? a + r.inputs[0].shape.rank() : a)] = true;
    }
    for (size_t d = 0; d < away.size(); ++d) {
      if (!away[d]) continue;
      gone.push_back(static_cast<int64_t>(d));
      elements *= x.dims[d];
      kept[d] = 1;
    }
  }
  std::vector<int64_t> gone, kept;
  int64_t elements = 1;  // of one sum
};

Status ReduceSum(const OpRequest& r, Plan& plan) {
  const bool floats = IsFloat(plan.In(0).dtype);
  const View x = floats ? plan.InF32(0) : plan.In(0);
  const Axes axes(r, x);
  const View y = floats ? plan.OutF32(0) : plan.OutAccumulated(0);
  plan.Sum(x, axes.gone, y.Shaped(axes.kept));
  return OkStatus();
}

Status ReduceMean(const OpRequest& r, Plan& plan) {
  const View x = plan.InF32(0);
  const Axes axes(r, x);
  const View sum = plan.Reserve(DType::kF32, axes.kept);
  plan.Sum(x, axes.gone, sum);
  plan.Scale(sum, 1.0 / static_cast<double>(axes.elements), plan.OutF32(0).Shaped(axes.kept));
  return OkStatus();
}

Status ReduceMax(const OpRequest& r, Plan& plan) {
  const View x = plan.In(0);
  const Axes axes(r, x);
  const View y = plan.Out(0).Shaped(axes.kept);
  if (x.elements() > 0) {
    plan.Call(Operator::kAmax, {x, Ints{axes.gone}, Flag{true}, y});
  } else if (IsFloat(x.dtype)) {
    plan.Call(Operator::kInplaceFillScalar, {y, Number{-INFINITY}});
  } else {
    const int64_t lowest = x.dtype == DType::kU8    ? 0
                           : x.dtype == DType::kI32 ? std::numeric_limits<int32_t>::lowest()
                                                    : std::numeric_limits<int64_t>::lowest();
    plan.Call(Operator::kInplaceFillScalar, {y, Whole{lowest}});
  }
  return OkStatus();
}

}  // namespace

void RegisterReduce(PlanRegistry& registry) {
  registry["reduce_sum"] = {ReduceSum, 1};
  registry["reduce_mean"] = {ReduceMean};
  registry["reduce_max"] = {ReduceMax};
}

}  // namespace oc::ascend
