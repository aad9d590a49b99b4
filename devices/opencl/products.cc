#include "openclaw/devices/opencl/products.h"

namespace oc::opencl {

namespace {
bool IsNarrow(const TensorType& type) { return type.dtype != DType::kF32; }
}  // namespace

Operand AsFloats(OpPlan& plan, const TensorType& type, Operand operand) {
  if (!IsNarrow(type)) return operand;
  const int64_t n = type.shape.num_elements();
  const Operand floats = plan.Reserve(n);
  AddConvert(plan, operand, "E", floats, "float", n);
  return floats;
}

Operand ProductOf(OpPlan& plan, const OpRequest& r) {
  return IsNarrow(r.outputs[0]) ? plan.Reserve(r.outputs[0].shape.num_elements()) : Out(0);
}

float BetaOf(const OpRequest& r) {
  return r.accumulate != 0 && !IsNarrow(r.outputs[0]) ? 1.0f : 0.0f;
}

void AddFinish(OpPlan& plan, const OpRequest& r, Operand c, int64_t columns, Operand bias,
               bool relu) {
  const bool narrow = IsNarrow(r.outputs[0]), has_bias = bias.kind != Operand::kNone;
  if (!narrow && !has_bias && !relu) return;
  const int64_t n = r.outputs[0].shape.num_elements();
  plan.Kernel("products", "finish")
      .Define("R", "E")
      .Add(c)
      .Add(bias)
      .Out(0)
      .Int(n)
      .Int(columns)
      .Int(has_bias ? 1 : 0)
      .Int(relu ? 1 : 0)
      .Int(narrow && r.accumulate != 0 ? 1 : 0)
      .Items(n);
}

namespace {

Status Matmul(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
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
  const Operand all_a = AsFloats(plan, r.inputs[0], In(0));
  const Operand all_b = AsFloats(plan, r.inputs[1], In(1));
  const Operand all_c = ProductOf(plan, r);
  for (int64_t s = 0; s < stack; ++s) {
    p.a = Further(all_a, a.rank() == 2 ? 0 : s * m * k);
    p.b = Further(all_b, b.rank() == 2 ? 0 : s * k * n);
    p.c = Further(all_c, s * m * n);
    plan.Product(p);
  }
  AddFinish(plan, r, all_c, n, {}, false);
  return OkStatus();
}

int64_t Rows(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d < shape.rank() - 1; ++d) rows *= shape[d].size();
  return rows;
}

Status Linear(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const Shape& x = r.inputs[0].shape;
  const int64_t in = x[-1].size(), out = r.inputs[1].shape[0].size(), rows = Rows(x);
  const Operand c = ProductOf(plan, r);
  plan.Product({.transpose_b = true,
                .m = rows,
                .n = out,
                .k = in,
                .a = AsFloats(plan, r.inputs[0], In(0)),
                .b = AsFloats(plan, r.inputs[1], In(1)),
                .c = c,
                .lda = in,
                .ldb = in,
                .ldc = out});
  AddFinish(plan, r, c, out, r.inputs.size() > 2 ? In(2) : Operand{},
            r.attrs.String("activation", "none") == "relu");
  return OkStatus();
}

Status LinearGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const Shape& dy = r.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = r.inputs[1].shape[1].size();
  const Operand c = ProductOf(plan, r);
  plan.Product({.m = Rows(dy),
                .n = in,
                .k = out,
                .a = AsFloats(plan, r.inputs[0], In(0)),
                .b = AsFloats(plan, r.inputs[1], In(1)),
                .c = c,
                .lda = out,
                .ldb = in,
                .ldc = in});
  AddFinish(plan, r, c, in, {}, false);
  return OkStatus();
}

Status LinearGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const Shape& dy = r.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = r.inputs[1].shape[-1].size();
  const Operand c = ProductOf(plan, r);
  plan.Product({.transpose_a = true,
                .m = out,
                .n = in,
                .k = Rows(dy),
                .a = AsFloats(plan, r.inputs[0], In(0)),
                .b = AsFloats(plan, r.inputs[1], In(1)),
                .c = c,
                .lda = out,
                .ldb = in,
                .ldc = in,
                .beta = BetaOf(r)});
  AddFinish(plan, r, c, in, {}, false);
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
