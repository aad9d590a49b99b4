#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

// [a stack, rows, columns], where there is a stack.
View Stacked(const View& v) {
  if (v.rank() <= 3) return v;
  const size_t n = v.dims.size();
  const int64_t matrix = v.dims[n - 2] * v.dims[n - 1];
  int64_t stack = 1;
  for (size_t d = 0; d + 2 < n; ++d) stack *= v.dims[d];
  return matrix == 0 ? v.Shaped({stack, v.dims[n - 2], v.dims[n - 1]})
                     : v.Shaped({v.elements() / matrix, v.dims[n - 2], v.dims[n - 1]});
}

Status Matmul(const OpRequest& r, Plan& plan) {
  const bool ta = r.attrs.Bool("transpose_a"), tb = r.attrs.Bool("transpose_b");
  View a = Stacked(plan.In(0)), b = Stacked(plan.In(1)), y = Stacked(plan.Out(0));
  // A stack of a times one b is one tall product.
  if (!ta && b.rank() == 2 && a.rank() == 3) {
    a = a.Shaped({a.dims[0] * a.dims[1], a.dims[2]});
    y = y.Shaped({y.dims[0] * y.dims[1], y.dims[2]});
  }
  plan.Product(ta ? a.Transposed() : a, tb ? b.Transposed() : b, y);
  return OkStatus();
}

View Rows(const View& v) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < v.dims.size(); ++d) rows *= v.dims[d];
  return v.Shaped({rows, v.dims.back()});
}

Status Linear(const OpRequest& r, Plan& plan) {
  const View y = Rows(plan.Out(0));
  plan.Product(Rows(plan.In(0)), plan.In(1).Transposed(), y);
  if (r.inputs.size() > 2) plan.Add(y, plan.In(2), y);
  if (r.attrs.String("activation", "none") == "relu") plan.Call(Operator::kRelu, {y, y});
  return OkStatus();
}

Status LinearGradInput(const OpRequest&, Plan& plan) {
  plan.Product(Rows(plan.In(0)), plan.In(1), Rows(plan.Out(0)));
  return OkStatus();
}

Status LinearGradWeight(const OpRequest& r, Plan& plan) {
  // Of narrow activations a wide gradient may be wanted.
  const bool same = r.inputs[0].dtype == r.outputs[0].dtype;
  const View dy = Rows(same ? plan.In(0) : plan.InF32(0));
  const View x = Rows(same ? plan.In(1) : plan.InF32(1));
  plan.Product(dy.Transposed(), x, same ? plan.OutAccumulated(0) : plan.OutF32(0));
  return OkStatus();
}

}  // namespace

void RegisterProducts(PlanRegistry& registry) {
  registry["matmul"] = {Matmul};
  registry["linear"] = {Linear};
  registry["linear_grad_input"] = {LinearGradInput};
  registry["linear_grad_weight"] = {LinearGradWeight, 1};
}

}  // namespace oc::ascend
