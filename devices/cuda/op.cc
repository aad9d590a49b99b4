#include "openclaw/devices/cuda/op.h"

#include <algorithm>

#include "openclaw/devices/cuda/slice.h"

namespace oc::cuda {
namespace {
// Of the workspace, whose begin may be at any multiple of 64 bytes.
constexpr int64_t kAlign = 256;
}  // namespace

StatusOr<std::unique_ptr<PreparedOp>> CudaOp::Create(const CudaSlice& slice,
                                                     const OpRequest& request, OpPlan plan) {
  std::unique_ptr<CudaOp> op(new CudaOp);
  op->where_ = absl::StrCat("op ", ToString(request), " on ", slice.where());
  op->steps_ = plan.TakeSteps();
  op->implementation_ = plan.implementation();
  op->deterministic_ = plan.deterministic();
  op->scratch_ = plan.workspace_bytes();
  int64_t scratch_bytes = 0;
  OC_RETURN_IF_ERROR(slice.Use());
  for (const auto& step : op->steps_) {
    OC_ASSIGN_OR_RETURN(const int64_t bytes, step->Prepare(slice, op->where_));
    scratch_bytes = std::max(scratch_bytes, bytes);
    if (step->implementation() != nullptr) op->implementation_ = step->implementation();
    op->deterministic_ = op->deterministic_ && step->deterministic();
  }
  op->workspace_bytes_ = op->scratch_ + scratch_bytes;
  if (op->workspace_bytes_ > 0) op->workspace_bytes_ += kAlign;
  if (!plan.check_what().empty()) {
    op->check_ = std::make_shared<const DataCheck>(
        DataCheck{slice.NextCheckCode(), request.def->name, plan.check_what(), plan.check_range()});
  }
  return std::unique_ptr<PreparedOp>(std::move(op));
}

Status CudaOp::Run(const Call& given) const {
  Call call = given;
  if (workspace_bytes_ > 0) {
    const auto at = reinterpret_cast<uintptr_t>(call.workspace);
    call.workspace += static_cast<int64_t>((at + kAlign - 1) / kAlign * kAlign - at);
  }
  for (const auto& step : steps_) {
    OC_RETURN_IF_ERROR(step->Run(call, call.workspace + scratch_, where_));
  }
  return OkStatus();
}

}  // namespace oc::cuda
