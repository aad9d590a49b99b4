#include <cmath>

#include "openclaw/devices/ascend/plan.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::ascend {
namespace {

Status Accumulate(const OpRequest&, Plan& plan) {
  plan.Add(plan.InF32(0), plan.InF32(1), plan.OutF32(0));
  return OkStatus();
}

Status Lerp(const OpRequest& r, Plan& plan) {
  const View state = plan.InF32(0), x = plan.InF32(1);
  const View difference = plan.Reserve(DType::kF32, state.dims);
  plan.Add(x, state, difference, -1);
  plan.Add(state, difference, plan.OutF32(0), r.attrs.Double("rate"));
  return OkStatus();
}

// The sums of whole chunks, then that of the rest.
Status SumSquares(const OpRequest& r, Plan& plan) {
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const View x = plan.InF32(static_cast<int>(i)).Flat(), sums = plan.OutF32(static_cast<int>(i));
    const View squares = plan.Reserve(DType::kF32, x.dims);
    plan.Mul(x, x, squares);
    const int64_t n = x.elements(), whole = n / kSumChunk;
    if (n == 0) continue;
    if (whole > 0) {
      const View rows = squares.Sliced(0, 0, whole * kSumChunk).Shaped({whole, kSumChunk});
      plan.Sum(rows, {1}, sums.Sliced(0, 0, whole).Shaped({whole, 1}));
    }
    if (n > whole * kSumChunk) {
      plan.Sum(squares.Sliced(0, whole * kSumChunk, n - whole * kSumChunk), {0},
               sums.Sliced(0, whole, 1));
    }
  }
  return OkStatus();
}

Status SumPartials(const OpRequest& r, Plan& plan) {
  const View total = plan.OutF32(0);
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const View sum = i == 0 ? total : plan.Reserve(DType::kF32, {1});
    plan.Sum(plan.InF32(static_cast<int>(i)).Flat(), {0}, sum);
    if (i > 0) plan.Add(total, sum, total);
  }
  return OkStatus();
}

Status ClipFactor(const OpRequest& r, Plan& plan) {
  const View sum = plan.InF32(0), factor = plan.OutF32(0);
  const double limit = r.attrs.Double("max_norm");
  if (std::isinf(limit)) {
    plan.Call(Operator::kInplaceFillScalar, {factor, Number{1}});
    return OkStatus();
  }
  const View norm = plan.Reserve(DType::kF32, {1});
  plan.Call(Operator::kSqrt, {sum, norm});
  plan.Call(Operator::kAdds, {norm, Number{1e-6}, Number{1}, norm});
  plan.Call(Operator::kReciprocal, {norm, norm});
  plan.Scale(norm, limit, norm);
  plan.Call(Operator::kClampMax, {norm, Number{1}, factor});
  return OkStatus();
}

// One tensor, and no limit of its elements: what is asked beyond that is decomposed, and lists are
// not made.
Status WantPlainStep(const OpRequest& r) {
  if (ListOf(*r.def, r.attrs, r.inputs.size()).tensors > 1) {
    return Unimplemented("no kernel of ", r.def->name, " for lists of tensors");
  }
  if (r.attrs.Has("clip_value")) {
    return Unimplemented("no kernel of ", r.def->name, " with clip_value");
  }
  return OkStatus();
}

View Rate(const OpRequest& r, Plan& plan, int input) {
  const View lr = plan.InF32(input);
  const double scale = r.attrs.Double("lr_scale", 1.0);
  if (scale == 1) return lr;
  const View scaled = plan.Reserve(DType::kF32, {1});
  plan.Scale(lr, scale, scaled);
  return scaled;
}

Status Sgd(const OpRequest& r, Plan& plan) {
  OC_RETURN_IF_ERROR(WantPlainStep(r));
  const double momentum = r.attrs.Double("momentum"), decay = r.attrs.Double("weight_decay");
  const int shared = momentum != 0 ? 3 : 2;
  const View p = plan.InF32(0), g = plan.InF32(1), clip = plan.InF32(shared + 1);
  View step = plan.Reserve(DType::kF32, p.dims);
  plan.Mul(g, clip, step);
  if (decay != 0) plan.Add(step, p, step, decay);
  if (momentum != 0) {
    const View scaled = plan.Reserve(DType::kF32, p.dims), kept = plan.OutF32(1);
    plan.Scale(plan.InF32(2), momentum, scaled);
    plan.Add(scaled, step, kept);
    if (r.attrs.Bool("nesterov")) {
      plan.Add(step, kept, step, momentum);
    } else {
      step = kept;
    }
  }
  const View change = plan.Reserve(DType::kF32, p.dims);
  plan.Mul(step, Rate(r, plan, shared), change);
  plan.Add(p, change, plan.OutF32(0), -1);
  return OkStatus();
}

// kept = beta * state + (1 - beta) * x.
void Average(Plan& plan, const View& state, const View& x, double beta, const View& kept) {
  const View scaled = plan.Reserve(DType::kF32, state.dims);
  plan.Scale(state, beta, scaled);
  plan.Add(scaled, x, kept, 1 - beta);
}

// 1 - beta^step; of a difference that cancels nothing.
View Correction(Plan& plan, const View& step, double beta) {
  const View result = plan.Reserve(DType::kF32, {1});
  plan.Scale(step, std::log(beta), result);
  plan.Call(Operator::kExpm1, {result, result});
  plan.Scale(result, -1, result);
  return result;
}

Status AdamW(const OpRequest& r, Plan& plan) {
  OC_RETURN_IF_ERROR(WantPlainStep(r));
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  const double decay = r.attrs.Double("weight_decay");
  const View p = plan.InF32(0), lr = Rate(r, plan, 4), step = plan.InF32(5);
  const View mean = plan.OutF32(1), square = plan.OutF32(2);
  const View g = plan.Reserve(DType::kF32, p.dims), g2 = plan.Reserve(DType::kF32, p.dims);
  plan.Mul(plan.InF32(1), plan.InF32(6), g);
  plan.Mul(g, g, g2);
  Average(plan, plan.InF32(2), g, beta1, mean);
  Average(plan, plan.InF32(3), g2, beta2, square);
  const View root = plan.Reserve(DType::kF32, p.dims), update = plan.Reserve(DType::kF32, p.dims);
  plan.Call(Operator::kDiv, {square, Correction(plan, step, beta2), root});
  plan.Call(Operator::kSqrt, {root, root});
  plan.Call(Operator::kAdds, {root, Number{r.attrs.Double("eps", 1e-8)}, Number{1}, root});
  plan.Call(Operator::kDiv, {mean, Correction(plan, step, beta1), update});
  plan.Call(Operator::kDiv, {update, root, update});
  if (decay != 0) plan.Add(update, p, update, decay);
  plan.Mul(update, lr, update);
  plan.Add(p, update, plan.OutF32(0), -1);
  return OkStatus();
}

}  // namespace

void RegisterUpdates(PlanRegistry& registry) {
  registry["accumulate"] = {Accumulate};
  registry["lerp"] = {Lerp};
  registry["sum_squares"] = {SumSquares};
  registry["sum_partials"] = {SumPartials, 1};
  registry["clip_factor"] = {ClipFactor};
  registry["sgd"] = {Sgd};
  registry["adamw"] = {AdamW};
}

}  // namespace oc::ascend
