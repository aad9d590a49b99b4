#include "openclaw/devices/opencl/products.h"

namespace oc::opencl {

void AddFinish(OpPlan& plan, Operand y, int64_t rows, int64_t columns, bool has_bias, Operand bias,
               bool relu) {
  if (!has_bias && !relu) return;
  plan.Kernel("products", "finish")
      .Add(y)
      .Add(has_bias ? bias : Operand{})
      .Int(rows * columns)
      .Int(columns)
      .Int(has_bias ? 1 : 0)
      .Int(relu ? 1 : 0)
      .Items(rows * columns);
}

namespace {

constexpr int64_t kSize = sizeof(float);

Status Matmul(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantF32(r.inputs[0]));
  const Shape& a = r.inputs[0].shape;
  const Shape& b = r.inputs[1].shape;
  const Shape& y = r.outputs[0].shape;
  const bool ta = r.attrs.Bool("transpose_a"), tb = r.attrs.Bool("transpose_b");
  const int64_t m = y[-2].size(), n = y[-1].size(), k = a[ta ? -2 : -1].size();
  int64_t stack = 1;
  for (int d = 0; d < y.rank() - 2; ++d) stack *= y[d].size();
  ProductStep p{.transpose_a = ta,
                .transpose_b = tb,
                .m = m,
                .n = n,
                .k = k,
                .lda = a[-1].size(),
                .ldb = b[-1].size(),
                .ldc = n};
  // A stack of a times one b is one tall product.
  if (!ta && b.rank() == 2) {
    p.m = stack * m;
    stack = 1;
  }
  for (int64_t s = 0; s < stack; ++s) {
    p.a = In(0, a.rank() == 2 ? 0 : s * m * k * kSize);
    p.b = In(1, b.rank() == 2 ? 0 : s * k * n * kSize);
    p.c = Out(0, s * m * n * kSize);
    plan.Product(p);
  }
  return OkStatus();
}

int64_t Rows(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d < shape.rank() - 1; ++d) rows *= shape[d].size();
  return rows;
}

Status Linear(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantF32(r.inputs[0]));
  const Shape& x = r.inputs[0].shape;
  const int64_t in = x[-1].size(), out = r.inputs[1].shape[0].size(), rows = Rows(x);
  plan.Product({.transpose_b = true,
                .m = rows,
                .n = out,
                .k = in,
                .a = In(0),
                .b = In(1),
                .c = Out(0),
                .lda = in,
                .ldb = in,
                .ldc = out});
  const bool has_bias = r.inputs.size() > 2;
  AddFinish(plan, Out(0), rows, out, has_bias, In(2),
            r.attrs.String("activation", "none") == "relu");
  return OkStatus();
}

Status LinearGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantF32(r.inputs[0]));
  const Shape& dy = r.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = r.inputs[1].shape[1].size();
  plan.Product({.m = Rows(dy),
                .n = in,
                .k = out,
                .a = In(0),
                .b = In(1),
                .c = Out(0),
                .lda = out,
                .ldb = in,
                .ldc = in});
  return OkStatus();
}

Status LinearGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantF32(r.inputs[0]));
  const Shape& dy = r.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = r.inputs[1].shape[-1].size();
  plan.Product({.transpose_a = true,
                .m = out,
                .n = in,
                .k = Rows(dy),
                .a = In(0),
                .b = In(1),
                .c = Out(0),
                .lda = out,
                .ldb = in,
                .ldc = in,
                .beta = r.accumulate != 0 ? 1.0f : 0.0f});
  return OkStatus();
}

}  // namespace

void RegisterProducts(PlanRegistry& registry) {
  registry["matmul"] = {Matmul};
  registry["linear"] = {Linear};
  registry["linear_grad_input"] = {LinearGradInput};
  registry["linear_grad_weight"] = {LinearGradWeight, 1};
}

}  // namespace oc::opencl
