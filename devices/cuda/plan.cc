#include "openclaw/devices/cuda/plan.h"

#include <algorithm>

namespace oc::cuda {
namespace {

class LaunchStep : public Step {
 public:
  explicit LaunchStep(OpPlan::Function function) : function_(std::move(function)) {}
  Status Run(const Call& call, char*, const std::string& where) const override {
    const cudaError_t code = function_(call);
    return code == cudaSuccess ? OkStatus() : ToStatus(code, "launch a kernel", where);
  }

 private:
  const OpPlan::Function function_;
};

}  // namespace

void OpPlan::Launch(Function function) {
  steps_.push_back(std::make_unique<LaunchStep>(std::move(function)));
}

int64_t OpPlan::Reserve(int64_t bytes) {
  constexpr int64_t kAlign = 256;
  const int64_t at = workspace_;
  workspace_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return at;
}

void OpPlan::Check(const std::string& what, const std::string& range) {
  what_ = what;
  range_ = range;
}

Status OpPlan::NotDeterministic() {
  if (request_.deterministic) {
    return Unimplemented("the kernel does not repeat its results bit by bit");
  }
  deterministic_ = false;
  return OkStatus();
}

const PlanRegistry& Plans() {
  static const PlanRegistry plans = [] {
    PlanRegistry all;
    for (const auto add :
         {RegisterElementwise, RegisterMovement, RegisterReduce, RegisterProducts,
          RegisterConvolutions, RegisterBatchNorm, RegisterRowNorms, RegisterSoftmax,
          RegisterSequence, RegisterAttention, RegisterPools, RegisterUpdates}) {
      add(all);
    }
    return all;
  }();
  return plans;
}

kernels::Type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kernels::Type::kF32;
    case DType::kBF16:
      return kernels::Type::kBF16;
    case DType::kF16:
      return kernels::Type::kF16;
    case DType::kF64:
      return kernels::Type::kF64;
    case DType::kI32:
      return kernels::Type::kI32;
    case DType::kI64:
      return kernels::Type::kI64;
    case DType::kU8:
      return kernels::Type::kU8;
    case DType::kBool:
      return kernels::Type::kBool;
  }
  OC_CHECK(false, "a type without a name");
  return kernels::Type::kF32;
}

Status WantFloat(const TensorType& type) {
  if (IsFloat(type.dtype) && type.dtype != DType::kF64) return OkStatus();
  return Unimplemented("no kernel for ", Name(type.dtype), "; there are f32, bf16, f16");
}

Status WantFloats(const OpRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& t : *types) {
      if (IsFloat(t.dtype)) OC_RETURN_IF_ERROR(WantFloat(t));
    }
  }
  return OkStatus();
}

RowSplit::RowSplit(const Shape& shape)
    : columns(shape[-1].size()), count(shape.num_elements() / std::max<int64_t>(columns, 1)) {}

}  // namespace oc::cuda
