#include "openclaw/devices/ascend/slice.h"

#include "openclaw/devices/ascend/op.h"

namespace oc::ascend {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI32,
                             DType::kI64, DType::kU8,   DType::kBool};

Status CheckDTypes(const OpRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& t : *types) {
      if (t.dtype == DType::kF64) {
        return Unimplemented("no kernel for f64; there are f32, bf16, f16, i32, i64, u8, bool");
      }
    }
  }
  return OkStatus();
}

}  // namespace

AscendSlice::AscendSlice(SliceParts parts)
    : parts_(std::move(parts)),
      where_(absl::StrCat("ascend:", parts_.device, ", ", parts_.kind)),
      budget_(std::make_shared<Budget>(parts_.memory_bytes)),
      staging_(std::make_shared<Staging>(parts_.api, parts_.device)),
      events_(std::make_shared<EventPool>(parts_.api, parts_.device)) {
  for (const auto add :
       {RegisterElementwise, RegisterMovement, RegisterReduce, RegisterProducts, RegisterSoftmax,
        RegisterNorms, RegisterBatchNorm, RegisterImages, RegisterEmbedding, RegisterAttention,
        RegisterRope, RegisterUpdates, RegisterDropout}) {
    add(plans_);
  }
}

std::vector<DType> AscendSlice::dtypes() const { return {std::begin(kDTypes), std::end(kDTypes)}; }

StatusOr<std::unique_ptr<Buffer>> AscendSlice::Allocate(int64_t bytes) {
  const std::string what = absl::StrCat("allocate ", bytes, " bytes on ", where_);
  if (bytes < 0) return InvalidArgument(what);
  OC_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                      DeviceMemory::Create(parts_.api, parts_.device, budget_, bytes, what));
  return std::unique_ptr<Buffer>(std::make_unique<AscendBuffer>(this, std::move(memory), bytes));
}

StatusOr<std::unique_ptr<Queue>> AscendSlice::CreateQueue(const std::string& name) {
  return AscendQueue::Create(*this, name);
}

StatusOr<std::unique_ptr<Event>> AscendSlice::CreateEvent() {
  return std::unique_ptr<Event>(std::make_unique<AscendEvent>());
}

int64_t AscendSlice::HighWater(const Buffer& buffer) const {
  return static_cast<const AscendBuffer&>(buffer).high_water();
}

Status AscendSlice::FillPlan(const OpRequest& request, Plan& plan) const {
  const std::string what = absl::StrCat("op ", ToString(request), " on ", where_);
  const auto entry = plans_.find(request.def->name);
  if (entry == plans_.end()) return Unimplemented(what, ": no kernel of that name");
  OC_RETURN_IF_ERROR(Annotate(CheckDTypes(request), what));
  if ((request.accumulate & ~entry->second.accumulable) != 0) {
    return Unimplemented(what, ": the kernel does not add to its output");
  }
  if (WantsSumType(request)) {
    return Unimplemented(what, ": the kernel's sums have the type of its operands");
  }
  OC_RETURN_IF_ERROR(Annotate(entry->second.plan(request, plan), what));
  plan.Finish();
  return OkStatus();
}

StatusOr<std::unique_ptr<PreparedOp>> AscendSlice::Prepare(const OpRequest& request) {
  Plan plan(request);
  OC_RETURN_IF_ERROR(FillPlan(request, plan));
  return AscendOp::Create(*this, request, plan);
}

StatusOr<OpSupport> AscendSlice::Support(const OpRequest& request) {
  Plan plan(request);
  Status status = FillPlan(request, plan);
  if (status.ok()) status = AscendOp::Check(*this, request, plan);
  if (status.ok()) return OpSupport{.supported = true};
  if (!absl::IsUnimplemented(status)) return status;
  return OpSupport{.reason = std::string(status.message())};
}

}  // namespace oc::ascend
