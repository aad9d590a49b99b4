#include "openclaw/devices/opencl/reduce.h"

#include <algorithm>

namespace oc::opencl {
namespace {

int64_t Elements(const Walk& walk) {
  int64_t n = 1;
  for (int64_t s : walk.sizes) n *= s;
  return n;
}

struct Stage {
  std::string type, result;
  std::string pre;
  double scale = 1;
  Operand x, y;
  Walk kept, inner;
  int64_t parts = 1;
  bool accumulate = false;
};

void AddStage(OpPlan& plan, const Reduction& what, const std::string& acc, Stage s) {
  const int64_t outputs = Elements(s.kept), inner = Elements(s.inner);
  KernelStep& step = plan.Kernel("reduce", "reduce");
  if (s.inner.sizes.size() <= 1) step.Define("LINE", "");
  s.kept.Fill();
  s.inner.Fill();
  step.Define("T", s.type)
      .Define("ACC", acc)
      .Define("R", s.result)
      .Define("START", what.start)
      .Define("COMBINE(a, b)", absl::StrCat("(", what.combine, ")"))
      .Define("PRE(x)", s.pre)
      .Add(s.x)
      .Add(s.y)
      .Int(inner)
      .Int(s.parts)
      .Ints(s.kept.sizes, 1)
      .Ints(s.kept.strides, 0)
      .Ints(s.inner.sizes, 1)
      .Ints(s.inner.strides, 0)
      .Int(s.accumulate ? 1 : 0)
      .Float(s.scale)
      .Groups(outputs * s.parts, kRow);
}

}  // namespace

Status AddReduction(OpPlan& plan, const Reduction& what, Operand x, Operand y, Walk kept,
                    Walk inner) {
  if (kept.sizes.size() > 8 || inner.sizes.size() > 8) {
    return Unimplemented("no kernel for more than 8 dimensions that do not lie together");
  }
  const bool whole = what.type == "int" || what.type == "long" || what.type == "uchar";
  const std::string acc = whole ? "long" : "float";
  const int64_t outputs = Elements(kept), n = Elements(inner);
  constexpr int64_t kFewOutputs = 64, kLong = 8192, kPart = 2048;
  if (outputs == 0) return OkStatus();
  if (outputs > kFewOutputs || n < kLong) {
    AddStage(plan, what, acc,
             {what.type, what.result, what.pre, what.scale, x, y, std::move(kept), std::move(inner),
              1, what.accumulate});
    return OkStatus();
  }
  const int64_t parts = std::min<int64_t>(64, n / kPart);
  const Operand partial = plan.Reserve(outputs * parts * (acc == "long" ? 2 : 1));
  AddStage(
      plan, what, acc,
      {what.type, acc, what.pre, 1, x, partial, std::move(kept), std::move(inner), parts, false});
  Walk parts_kept, parts_inner;
  parts_kept.Add(outputs, parts);
  parts_inner.Add(parts, 1);
  AddStage(plan, what, acc,
           {acc, what.result, "(x)", what.scale, partial, y, parts_kept, parts_inner, 1,
            what.accumulate});
  return OkStatus();
}

void AddSum(OpPlan& plan, Operand x, int64_t n, Operand y, bool accumulate, const std::string& type,
            const std::string& pre) {
  Reduction what;
  what.type = type;
  what.pre = pre;
  what.accumulate = accumulate;
  Walk inner;
  inner.Add(n, 1);
  const Status status = AddReduction(plan, what, x, y, {}, std::move(inner));
  OC_CHECK(status.ok());  // of one dimension
}

namespace {

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
  // Sums over leading dimensions, of elements whose last dimensions stay.
  bool columns() const {
    return kept.sizes.size() == 1 && kept.strides[0] == 1 && inner.sizes.size() == 1 &&
           inner.strides[0] == kept.sizes[0];
  }
  Walk kept, inner;
};

Status Sum(const OpRequest& r, OpPlan& plan, bool mean) {
  const Axes axes(r);
  const auto n = static_cast<double>(Elements(axes.inner));
  OC_ASSIGN_OR_RETURN(const std::string type, TypeName(r.inputs[0].dtype));
  if (IsFloat(r.inputs[0].dtype) && axes.columns()) {
    AddColumnSums(plan, axes.inner.sizes[0], axes.kept.sizes[0], {In(0)}, {"GET(a, i)"}, {Out(0)},
                  "E", mean ? 1 / n : 1, r.accumulate);
    return OkStatus();
  }
  Reduction what;
  what.type = what.result = type;
  if (mean) what.scale = 1 / n;
  what.accumulate = r.accumulate != 0;
  return AddReduction(plan, what, In(0), Out(0), axes.kept, axes.inner);
}

Status ReduceSum(const OpRequest& r, const Limits&, OpPlan& plan) { return Sum(r, plan, false); }
Status ReduceMean(const OpRequest& r, const Limits&, OpPlan& plan) { return Sum(r, plan, true); }

Status ReduceMax(const OpRequest& r, const Limits&, OpPlan& plan) {
  const Axes axes(r);
  Reduction what;
  OC_ASSIGN_OR_RETURN(what.type, TypeName(r.inputs[0].dtype));
  what.result = what.type;
  what.start = IsFloat(r.inputs[0].dtype) ? "(-INFINITY)" : "LONG_MIN";
  // What is no number is not hidden.
  what.combine = "(b) > (a) || (b) != (b) ? (b) : (a)";
  return AddReduction(plan, what, In(0), Out(0), axes.kept, axes.inner);
}

}  // namespace

void RegisterReduce(PlanRegistry& registry) {
  registry["reduce_sum"] = {ReduceSum, 1};
  registry["reduce_mean"] = {ReduceMean};
  registry["reduce_max"] = {ReduceMax};
}

}  // namespace oc::opencl
