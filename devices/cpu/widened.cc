#include "openclaw/devices/cpu/widened.h"

#include <algorithm>
#include <utility>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kMostOperands = 8;

void Convert(DType from, const std::byte* source, DType to, std::byte* target, int64_t n,
             WorkerPool& pool) {
  const auto all = [&](int64_t begin, int64_t end) {
    const std::byte* const x = source + begin * SizeInBytes(from);
    std::byte* const y = target + begin * SizeInBytes(to);
    if (ActiveIsa() == Isa::kNone) {
      ConvertFloats(from, x, to, y, end - begin);
    } else {
      const auto kind = [](DType d) { return d == DType::kF16 ? kCastF16 : kCastF32; };
      GetElementwiseLoops().cast[kind(from)][kind(to)](x, y, end - begin);
    }
  };
  Split(pool, n, 1, 64, all);
}

class WidenedKernel : public HostKernel {
 public:
  static StatusOr<std::unique_ptr<HostKernel>> Create(const KernelFactory& factory,
                                                      const OpRequest& request, int threads) {
    if (std::max(request.inputs.size(), request.outputs.size()) > kMostOperands) {
      return Unimplemented("f16 with more than ", kMostOperands, " operands");
    }
    std::unique_ptr<WidenedKernel> kernel(new WidenedKernel());
    OpRequest wide = request;
    const auto widen = [&](std::vector<TensorType>& types, std::vector<Operand>& operands) {
      for (TensorType& t : types) {
        Operand operand{.elements = t.shape.num_elements()};
        if (t.dtype == DType::kF16) {
          operand.offset = kernel->Reserve(operand.elements * 4);
          t.dtype = DType::kF32;
        }
        operands.push_back(operand);
      }
    };
    widen(wide.inputs, kernel->inputs_);
    widen(wide.outputs, kernel->outputs_);
    kernel->accumulate_ = request.accumulate;
    OC_ASSIGN_OR_RETURN(kernel->inner_, factory(wide, threads));
    kernel->scratch_ = kernel->Reserve(kernel->inner_->workspace_bytes());
    return std::unique_ptr<HostKernel>(std::move(kernel));
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  const char* implementation() const override { return inner_->implementation(); }

  Status Run(const KernelArgs& args) override {
    const std::byte* in[kMostOperands];
    std::byte* out[kMostOperands];
    for (size_t i = 0; i < inputs_.size(); ++i) {
      in[i] = args.inputs[i];
      if (inputs_[i].offset < 0) continue;
      std::byte* const wide = args.workspace + inputs_[i].offset;
      Convert(DType::kF16, args.inputs[i], DType::kF32, wide, inputs_[i].elements, args.pool);
      in[i] = wide;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      out[i] = args.outputs[i];
      if (outputs_[i].offset < 0) continue;
      out[i] = args.workspace + outputs_[i].offset;
      if (!HasOutput(accumulate_, i)) continue;
      Convert(DType::kF16, args.outputs[i], DType::kF32, out[i], outputs_[i].elements, args.pool);
    }
    OC_RETURN_IF_ERROR(inner_->Run({in, out, args.workspace + scratch_, args.pool}));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].offset < 0) continue;
      Convert(DType::kF32, out[i], DType::kF16, args.outputs[i], outputs_[i].elements, args.pool);
    }
    return OkStatus();
  }

 private:
  struct Operand {
    int64_t elements = 0;
    int64_t offset = -1;  // of the f32 copy in the workspace; below 0: it is used as it is
  };
  WidenedKernel() = default;
  int64_t Reserve(int64_t bytes) {
    const int64_t offset = workspace_bytes_;
    workspace_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  std::unique_ptr<HostKernel> inner_;
  std::vector<Operand> inputs_, outputs_;
  uint32_t accumulate_ = 0;
  int64_t workspace_bytes_ = 0, scratch_ = 0;
};

}  // namespace

KernelFactory WithF16(KernelFactory factory) {
  return [factory = std::move(factory)](const OpRequest& request,
                                        int threads) -> StatusOr<std::unique_ptr<HostKernel>> {
    for (const TensorType& t : request.inputs) {
      if (t.dtype == DType::kF16) return WidenedKernel::Create(factory, request, threads);
    }
    return factory(request, threads);
  };
}

}  // namespace oc::cpu
