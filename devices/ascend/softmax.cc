#include <numeric>

#include "openclaw/devices/ascend/labels.h"

namespace oc::ascend {
namespace {

Status Softmax(const OpRequest&, Plan& plan) {
  plan.Call(Operator::kSoftmax, {plan.In(0), Int{-1}, plan.Out(0)});
  return OkStatus();
}

Status SoftmaxGrad(const OpRequest&, Plan& plan) {
  plan.Call(Operator::kSoftmaxBackward, {plan.In(0), plan.In(1), Int{-1}, plan.Out(0)});
  return OkStatus();
}

int64_t Ignored(const OpRequest& r) { return r.attrs.Int("ignore_index", -1); }

View Column(const View& values) { return values.Shaped({values.elements(), 1}); }

// The sum of ones where the bools hold.
void Count(Plan& plan, const View& bools, const View& to) {
  const View ones = plan.Reserve(DType::kF32, {bools.elements()});
  plan.Call(Operator::kCast, {bools.Flat(), DType::kF32, ones});
  plan.Sum(ones, {0}, to);
}

Status CrossEntropy(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(0));
  const CheckedIndices labels = CheckIndices(plan, plan.In(1), x.dims[1], "label", Ignored(r));
  const View largest = plan.Reserve(DType::kF32, {x.dims[0], 1});
  const View column = plan.Reserve(DType::kF32, {x.dims[0], 1});
  const View shifted = plan.Reserve(DType::kF32, x.dims);
  plan.Call(Operator::kAmax, {x, Ints{{1}}, Flag{true}, largest});
  plan.Add(x, largest, shifted, -1);
  plan.Call(Operator::kExp, {shifted, shifted});
  plan.Sum(shifted, {1}, column);
  plan.Call(Operator::kLog, {column, column});
  const View lse = Column(plan.Out(1));
  plan.Add(column, largest, lse);
  // lse - logit of the label, where there is one.
  const View picked = plan.Reserve(DType::kF32, {x.dims[0], 1});
  plan.Call(Operator::kGather, {x, Int{1}, Column(labels.safe), picked});
  plan.Add(lse, picked, picked, -1);
  const View zero = plan.Constant(std::vector<float>{0}, {1});
  plan.Call(Operator::kSWhere, {Column(labels.counts), picked, zero, picked});
  plan.Sum(picked, {0, 1}, plan.Out(0).Shaped({1, 1}));
  return OkStatus();
}

Status CrossEntropyGrad(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(1));
  const int64_t classes = x.dims[1];
  const CheckedIndices labels = CheckIndices(plan, plan.In(2), classes, "label", Ignored(r));
  const View p = plan.Reserve(DType::kF32, x.dims), target = plan.Reserve(DType::kF32, x.dims);
  plan.Add(x, Column(plan.In(3)), p, -1);
  plan.Call(Operator::kExp, {p, p});
  std::vector<int64_t> numbers(static_cast<size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), 0);
  const View is_label = plan.Reserve(DType::kBool, x.dims);
  plan.Call(Operator::kEqTensor,
            {Column(labels.safe), plan.Constant(numbers, {1, classes}), is_label});
  plan.Call(Operator::kCast, {is_label, DType::kF32, target});
  plan.Add(p, target, p, -1);
  plan.Mul(p, plan.InF32(0), p);
  const View zero = plan.Constant(std::vector<float>{0}, {1});
  plan.Call(Operator::kSWhere, {Column(labels.counts), p, zero, AsRows(plan.OutF32(0))});
  return OkStatus();
}

Status CountValid(const OpRequest& r, Plan& plan) {
  const View labels = plan.In(0).Flat(), valid = plan.Reserve(DType::kBool, labels.dims);
  plan.Call(Operator::kNeScalar, {labels, Whole{Ignored(r)}, valid});
  Count(plan, valid, plan.Out(0));
  return OkStatus();
}

Status CountCorrect(const OpRequest& r, Plan& plan) {
  const View x = AsRows(plan.InF32(0));
  const CheckedIndices labels = CheckIndices(plan, plan.In(1), x.dims[1], "label", Ignored(r));
  const View best = plan.Reserve(DType::kI64, {x.dims[0], 1});
  const View hits = plan.Reserve(DType::kBool, {x.dims[0], 1});
  plan.Call(Operator::kArgMax, {x, Int{1}, Flag{true}, best});
  plan.Call(Operator::kEqTensor, {best, Column(labels.values), hits});
  plan.Call(Operator::kLogicalAnd, {hits, Column(labels.counts), hits});
  Count(plan, hits, plan.Out(0));
  return OkStatus();
}

}  // namespace

void RegisterSoftmax(PlanRegistry& registry) {
  registry["softmax"] = {Softmax};
  registry["softmax_grad"] = {SoftmaxGrad};
  registry["cross_entropy"] = {CrossEntropy};
  registry["cross_entropy_grad"] = {CrossEntropyGrad};
  registry["count_valid"] = {CountValid};
  registry["count_correct"] = {CountCorrect};
}

}  // namespace oc::ascend
