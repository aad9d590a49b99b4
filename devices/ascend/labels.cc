#include "openclaw/devices/ascend/labels.h"

namespace oc::ascend {

CheckedIndices CheckIndices(Plan& plan, const View& indices, int64_t count, const std::string& what,
                            std::optional<int64_t> ignored) {
  const std::vector<int64_t> dims = {indices.elements()};
  CheckedIndices result{plan.Reserve(DType::kI64, dims), plan.Reserve(DType::kI64, dims),
                        plan.Reserve(DType::kBool, dims)};
  plan.Call(Operator::kCast, {indices.Flat(), DType::kI64, result.values});
  const View below = plan.Reserve(DType::kBool, dims), beyond = plan.Reserve(DType::kBool, dims);
  plan.Call(Operator::kLtScalar, {result.values, Whole{0}, below});
  plan.Call(Operator::kGeScalar, {result.values, Whole{count}, beyond});
  const View outside = plan.Reserve(DType::kBool, dims);
  plan.Call(Operator::kLogicalOr, {below, beyond, outside});
  const View zero = plan.Constant(std::vector<int64_t>{0}, {1});
  plan.Call(Operator::kSWhere, {outside, zero, result.values, result.safe});
  std::string range = absl::StrCat("0..", count - 1);
  View bad = outside;
  if (ignored) {
    plan.Call(Operator::kNeScalar, {result.values, Whole{*ignored}, result.counts});
    bad = plan.Reserve(DType::kBool, dims);
    plan.Call(Operator::kLogicalAnd, {outside, result.counts, bad});
    absl::StrAppend(&range, " (and not ignore_index ", *ignored, ")");
  }
  plan.Report(bad, result.values, what, range);
  return result;
}

}  // namespace oc::ascend
