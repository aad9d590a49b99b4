// Rotary positions on views of the packed rows: the lower halves of all queries and keys, and the
// upper ones.
#include <cmath>

#include "openclaw/devices/ascend/plan.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::ascend {
namespace {

// Cosines or sines of every position and pair: [time, 1, pairs].
View Table(Plan& plan, int64_t time, int64_t pairs, double base, bool sine, double sign) {
  std::vector<float> values;
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(pairs);
      const double angle = static_cast<double>(t) * std::pow(base, exponent);
      values.push_back(static_cast<float>(sine ? sign * std::sin(angle) : std::cos(angle)));
    }
  }
  return plan.Constant(values, {time, 1, pairs});
}

Status Rope(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(r.inputs[0], r.attrs));
  const int64_t time = r.inputs[0].shape[1].size(), pairs = layout.width / 2;
  const int64_t turning = layout.heads + layout.kv_heads, row = layout.packed();
  const View x = plan.InF32(0), y = plan.OutF32(0);
  const std::vector<int64_t> dims = {x.dims[0], time, turning, pairs};
  const auto half = [&](const View& rows, bool upper) {
    View v = rows;
    v.dims = dims;
    v.strides = {time * row, row, layout.width, 1};
    v.offset += upper ? pairs : 0;
    return v;
  };
  const double base = r.attrs.Double("base", 10000.0);
  const double sign = r.attrs.Bool("inverse", false) ? -1 : 1;
  const View cosines = Table(plan, time, pairs, base, false, 1);
  const View sines = Table(plan, time, pairs, base, true, sign);
  const View lower = plan.Reserve(DType::kF32, dims), upper = plan.Reserve(DType::kF32, dims);
  const View product = plan.Reserve(DType::kF32, dims);
  // y may be the memory of x: both halves are there before one is written.
  plan.Mul(half(x, false), cosines, lower);
  plan.Mul(half(x, true), sines, product);
  plan.Add(lower, product, lower, -1);
  plan.Mul(half(x, true), cosines, upper);
  plan.Mul(half(x, false), sines, product);
  plan.Add(upper, product, upper);
  plan.Copy(lower, half(y, false));
  plan.Copy(upper, half(y, true));
  const int64_t values = layout.Value(0), rest = row - values;
  plan.Copy(AsRows(x).Sliced(1, values, rest), AsRows(y).Sliced(1, values, rest));
  return OkStatus();
}

}  // namespace

void RegisterRope(PlanRegistry& registry) { registry["rope"] = {Rope}; }

}  // namespace oc::ascend
