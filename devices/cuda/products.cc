#include "openclaw/devices/cuda/blas.h"

namespace oc::cuda {
namespace {

Locate FromInput(int i) {
  return [i](const Call& c) { return c.In(i); };
}
LocateOut ToOutput(int i = 0) {
  return [i](const Call& c) { return c.Out(i); };
}

// What all products of an op have in common.
Product Common(const OpRequest& r, const Traits& traits) {
  return {.type = r.inputs[0].dtype,
          .out_type = r.outputs[0].dtype,
          .accumulate = r.accumulate != 0,
          .tf32 = traits.tf32,
          .deterministic = r.deterministic};
}

int64_t Rows(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d < shape.rank() - 1; ++d) rows *= shape[d].size();
  return rows;
}

Status Matmul(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  const Shape& a = r.inputs[0].shape;
  const Shape& b = r.inputs[1].shape;
  const Shape& y = r.outputs[0].shape;
  Product p = Common(r, traits);
  p.transpose_a = r.attrs.Bool("transpose_a");
  p.transpose_b = r.attrs.Bool("transpose_b");
  p.m = y[-2].size();
  p.n = y[-1].size();
  p.k = a[p.transpose_a ? -2 : -1].size();
  p.lda = a[-1].size();
  p.ldb = b[-1].size();
  p.ldd = p.n;
  for (int d = 0; d < y.rank() - 2; ++d) p.batch *= y[d].size();
  if (!p.transpose_a && b.rank() == 2) {
    // A stack of a times one b is one tall product.
    p.m *= p.batch;
    p.batch = 1;
  }
  p.stride_a = a.rank() == 2 ? 0 : p.m * p.k;
  p.stride_b = b.rank() == 2 ? 0 : p.k * p.n;
  p.stride_d = p.m * p.n;
  return AddProduct(plan, p, FromInput(0), FromInput(1), ToOutput());
}

Status Linear(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  Product p = Common(r, traits);
  p.transpose_b = true;
  p.m = Rows(r.inputs[0].shape);
  p.k = p.lda = p.ldb = r.inputs[0].shape[-1].size();
  p.n = p.ldd = r.inputs[1].shape[0].size();
  const bool relu = r.attrs.String("activation", "none") == "relu";
  const bool bias = r.inputs.size() > 2;
  if (bias) {
    p.epilogue = relu ? Epilogue::kReluBias : Epilogue::kBias;
  } else if (relu) {
    p.epilogue = Epilogue::kRelu;
  }
  return AddProduct(plan, p, FromInput(0), FromInput(1), ToOutput(),
                    bias ? FromInput(2) : Locate{});
}

// x, w, bias -> h, gelu(h).
Status LinearGelu(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  Product p = Common(r, traits);
  p.transpose_b = true;
  p.m = Rows(r.inputs[0].shape);
  p.k = p.lda = p.ldb = r.inputs[0].shape[-1].size();
  p.n = p.ldd = r.inputs[1].shape[0].size();
  return AddGeluProduct(plan, p, FromInput(0), FromInput(1), ToOutput(0), ToOutput(1), FromInput(2),
                        r.attrs.String("approximate", "none") == "tanh");
}

Status LinearGradInput(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  Product p = Common(r, traits);
  p.m = Rows(r.inputs[0].shape);
  p.k = p.lda = r.inputs[0].shape[-1].size();
  p.n = p.ldb = p.ldd = r.inputs[1].shape[1].size();
  return AddProduct(plan, p, FromInput(0), FromInput(1), ToOutput());
}

// dy, w, x.
Status LinearGradInputGelu(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  Product p = Common(r, traits);
  p.m = Rows(r.inputs[0].shape);
  p.k = p.lda = r.inputs[0].shape[-1].size();
  p.n = p.ldb = p.ldd = r.inputs[1].shape[1].size();
  return AddGeluGradProduct(plan, p, FromInput(0), FromInput(1), ToOutput(), FromInput(2),
                            r.attrs.String("approximate", "none") == "tanh");
}

Status LinearGradWeight(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  Product p = Common(r, traits);
  p.transpose_a = true;
  p.k = Rows(r.inputs[0].shape);
  p.m = p.lda = r.inputs[0].shape[-1].size();
  p.n = p.ldb = p.ldd = r.inputs[1].shape[-1].size();
  return AddProduct(plan, p, FromInput(0), FromInput(1), ToOutput());
}

}  // namespace

void RegisterProducts(PlanRegistry& registry) {
  registry["matmul"] = {Matmul};
  registry["linear"] = {Linear};
  registry["linear_gelu"] = {LinearGelu};
  registry["linear_grad_input"] = {LinearGradInput};
  registry["linear_grad_input_gelu"] = {LinearGradInputGelu};
  registry["linear_grad_weight"] = {LinearGradWeight, 1, true};
}

}  // namespace oc::cuda
