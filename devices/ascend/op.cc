#include "openclaw/devices/ascend/op.h"

#include <algorithm>

#include "openclaw/devices/ascend/slice.h"

namespace oc::ascend {

Status AscendOp::MakeCalls(const AscendSlice& slice, const OpRequest& request, const Plan& plan) {
  OC_RETURN_IF_ERROR(slice.UseDevice());
  where_ = absl::StrCat("op ", ToString(request), " on ", slice.where());
  // The operators of an op follow each other: they share the room.
  int64_t scratch_bytes = 0;
  for (const CallStep& step : plan.calls()) {
    OC_ASSIGN_OR_RETURN(std::unique_ptr<ReadyCall> call,
                        ReadyCall::Create(slice.api(), step, where_));
    scratch_bytes = std::max(scratch_bytes, call->workspace_bytes());
    calls_.push_back(std::move(call));
  }
  scratch_ = plan.workspace_bytes();
  workspace_bytes_ = scratch_ + (scratch_bytes == 0 ? 0 : RoomFor(scratch_bytes));
  return OkStatus();
}

Status AscendOp::Check(const AscendSlice& slice, const OpRequest& request, const Plan& plan) {
  AscendOp op;
  return op.MakeCalls(slice, request, plan);
}

StatusOr<std::unique_ptr<PreparedOp>> AscendOp::Create(const AscendSlice& slice,
                                                       const OpRequest& request, const Plan& plan) {
  std::unique_ptr<AscendOp> op(new AscendOp);
  OC_RETURN_IF_ERROR(op->MakeCalls(slice, request, plan));
  if (const auto& constants = plan.constants(); !constants.empty()) {
    const auto bytes = static_cast<int64_t>(constants.size());
    OC_ASSIGN_OR_RETURN(
        op->constants_,
        DeviceMemory::Create(slice.shared_api(), slice.device(), slice.budget(), bytes,
                             absl::StrCat("keep ", bytes, " bytes of constants of ", op->where_)));
    OC_RETURN_IF_ERROR(slice.api().ToStatus(
        slice.api().aclrtMemcpy(op->constants_->data(), constants.size(), constants.data(),
                                constants.size(), kMemcpyHostToDevice),
        "aclrtMemcpy", op->where_));
  }
  for (const oc::ascend::Check& c : plan.checks()) {
    op->checks_.emplace_back(
        c.place.offset, std::make_shared<DataCheck>(DataCheck{request.def->name, c.what, c.range}));
  }
  return std::unique_ptr<PreparedOp>(std::move(op));
}

char* AscendOp::AddressOf(const Place& place, const Call& call) const {
  char* base = nullptr;
  switch (place.kind) {
    case Place::kInput:
      base = call.inputs[static_cast<size_t>(place.index)];
      break;
    case Place::kOutput:
      base = call.outputs[static_cast<size_t>(place.index)];
      break;
    case Place::kWorkspace:
      base = call.workspace;
      break;
    case Place::kConstant:
      base = constants_->data();
      break;
  }
  return base + place.offset;
}

Status AscendOp::Run(const Call& call) {
  if (workspace_bytes_ > 0 && reinterpret_cast<uintptr_t>(call.workspace) % 32 != 0) {
    return InvalidArgument("a workspace that is not 32-byte aligned (", where_, ")");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& ready : calls_) {
    addresses_.clear();
    for (const Place& place : ready->places()) addresses_.push_back(AddressOf(place, call));
    OC_RETURN_IF_ERROR(ready->Launch(addresses_, call.workspace + scratch_, call.stream));
  }
  return OkStatus();
}

}  // namespace oc::ascend
