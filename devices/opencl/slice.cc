#include "openclaw/devices/opencl/slice.h"

#include <algorithm>

#include "openclaw/devices/opencl/op.h"

namespace oc::opencl {
namespace {

// What ops compute with. Elements of others are moved, and f64 is cast where the device has it.
constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32,
                             DType::kI64, DType::kU8,  DType::kBool};

}  // namespace

OpenClSlice::OpenClSlice(SliceParts parts) : parts_(std::move(parts)) {
  for (const auto add :
       {RegisterElementwise, RegisterMovement, RegisterReduce, RegisterSoftmax, RegisterNorms,
        RegisterSequence, RegisterImages, RegisterProducts, RegisterUpdates, RegisterOptimizers}) {
    add(plans_);
  }
}
OpenClSlice::~OpenClSlice() = default;

std::vector<DType> OpenClSlice::dtypes() const { return {std::begin(kDTypes), std::end(kDTypes)}; }

StatusOr<std::unique_ptr<Buffer>> OpenClSlice::Allocate(int64_t bytes) {
  const std::string what = absl::StrCat("allocate ", bytes, " bytes on ", where());
  if (bytes < 0) return InvalidArgument(what);
  if (bytes > parts_.allocation_bytes) {
    return ResourceExhausted(what, ": the device allows buffers of ", parts_.allocation_bytes);
  }
  const int64_t before = used_->fetch_add(bytes);
  const auto refuse = [&](Status status) {
    used_->fetch_sub(bytes);
    return status;
  };
  if (parts_.memory_bytes > 0 && before + bytes > parts_.memory_bytes) {
    return refuse(ResourceExhausted(what, ": the budget is ", parts_.memory_bytes, ", of which ",
                                    before, " are taken"));
  }
  const size_t capacity = static_cast<size_t>(std::max<int64_t>(64, (bytes + 63) / 64 * 64));
  cl_int code = CL_SUCCESS;
  ClMemory memory(clCreateBuffer(context(), CL_MEM_READ_WRITE, capacity, nullptr, &code));
  if (code != CL_SUCCESS) return refuse(ToStatus(code, "clCreateBuffer", what));
  const cl_int zero = 0;
  code = clEnqueueFillBuffer(parts_.setup.get(), memory.get(), &zero, sizeof(zero), 0, capacity, 0,
                             nullptr, nullptr);
  if (code == CL_SUCCESS) code = clFinish(parts_.setup.get());
  if (code != CL_SUCCESS) return refuse(ToStatus(code, "clEnqueueFillBuffer", what));
  return std::unique_ptr<Buffer>(
      std::make_unique<OpenClBuffer>(this, std::move(memory), bytes, used_));
}

StatusOr<std::unique_ptr<Queue>> OpenClSlice::CreateQueue(const std::string& name) {
  return OpenClQueue::Create(*this, name);
}

StatusOr<std::unique_ptr<Event>> OpenClSlice::CreateEvent() {
  return std::unique_ptr<Event>(std::make_unique<OpenClEvent>());
}

int64_t OpenClSlice::HighWater(const Buffer& buffer) const {
  return static_cast<const OpenClBuffer&>(buffer).high_water();
}

StatusOr<OpPlan> OpenClSlice::Plan(const OpRequest& request) const {
  const std::string what = absl::StrCat("op ", ToString(request), " on ", where());
  const auto entry = plans_.find(request.def->name);
  if (entry == plans_.end()) return Unimplemented(what, ": no kernel of that name");
  if ((request.accumulate & ~entry->second.accumulable) != 0) {
    return Unimplemented(what, ": the kernel does not add to its output");
  }
  if (WantsSumType(request)) {
    return Unimplemented(what, ": the kernel's sums have the type of its operands");
  }
  OpPlan plan(request, parts_.limits);
  OC_RETURN_IF_ERROR(Annotate(entry->second.plan(request, parts_.limits, plan), what));
  return plan;
}

StatusOr<std::unique_ptr<PreparedOp>> OpenClSlice::Prepare(const OpRequest& request) {
  OC_ASSIGN_OR_RETURN(OpPlan plan, Plan(request));
  return OpenClOp::Create(*this, request, std::move(plan));
}

StatusOr<OpSupport> OpenClSlice::Support(const OpRequest& request) {
  const auto plan = Plan(request);
  if (plan.ok()) return OpSupport{.supported = true};
  if (!absl::IsUnimplemented(plan.status())) return plan.status();
  return OpSupport{.reason = std::string(plan.status().message())};
}

}  // namespace oc::opencl
