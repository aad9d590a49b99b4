// Attention: by cuDNN where it is there and has an engine, else by own kernels; those also where
// results are to repeat bit by bit, which cuDNN's gradients of queries do not.
#include <optional>

#include "openclaw/devices/cuda/cudnn_attention.h"
#include "openclaw/devices/cuda/plan.h"
#include "openclaw/devices/cuda/slice.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::cuda {
namespace {

using kernels::AttentionShape;

bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

StatusOr<AttentionShape> ShapeOf(const OpRequest& r, int qkv) {
  const TensorType& type = r.inputs[static_cast<size_t>(qkv)];
  OC_RETURN_IF_ERROR(WantFloats(r));
  OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(type, r.attrs));
  if (layout.width > kernels::kWidestHead) {
    return Unimplemented("no kernel for heads of ", layout.width,
                         " elements; there are those up to ", kernels::kWidestHead);
  }
  return AttentionShape{.type = TypeOf(type.dtype),
                        .batch = type.shape[0].size(),
                        .time = type.shape[1].size(),
                        .heads = layout.heads,
                        .kv_heads = layout.kv_heads,
                        .width = layout.width,
                        .scale = static_cast<float>(ops::AttentionScale(layout, r.attrs)),
                        .causal = r.attrs.Bool("causal", true)};
}

// What cuDNN makes of a shape; none where it cannot, or is not to be had: own kernels take it.
template <typename Fused>
std::optional<Fused> Made(StatusOr<Fused> fused) {
  if (!fused.ok()) return std::nullopt;
  return std::move(fused).value();
}

class AttentionStep : public Step {
 public:
  AttentionStep(const AttentionShape& shape, bool deterministic)
      : shape_(shape), deterministic_(deterministic) {}

  StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) override {
    if (shape_.batch > 0) fused_ = Made(DnnAttention::Create(slice, shape_, deterministic_, where));
    return fused_ ? fused_->workspace_bytes() : 0;
  }
  const char* implementation() const override { return fused_ ? "cudnn" : "cuda"; }
  Status Run(const Call& c, char* scratch, const std::string& where) const override {
    const kernels::Attention attention{shape_, c.In(0), c.Out(0), c.Out<float>(1)};
    if (fused_ && IsAligned(c.In(0)) && IsAligned(c.Out(0)) && IsAligned(c.Out(1))) {
      return Annotate(fused_->Run(attention, scratch, c.stream), where);
    }
    return ToStatus(kernels::Launch(attention, c.stream), "launch a kernel", where);
  }

 private:
  const AttentionShape shape_;
  const bool deterministic_;
  std::optional<DnnAttention> fused_;
};

class AttentionGradStep : public Step {
 public:
  AttentionGradStep(const AttentionShape& shape, bool deterministic)
      : shape_(shape), deterministic_(deterministic) {}

  StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) override {
    if (!deterministic_ && shape_.batch > 0) {
      fused_ = Made(DnnAttentionGrad::Create(slice, shape_, where));
    }
    const int64_t deltas =
        shape_.batch * shape_.heads * shape_.time * static_cast<int64_t>(sizeof(float));
    return std::max(deltas, fused_ ? fused_->workspace_bytes() : 0);
  }
  const char* implementation() const override { return fused_ ? "cudnn" : "cuda"; }
  bool deterministic() const override { return !fused_; }
  Status Run(const Call& c, char* scratch, const std::string& where) const override {
    const kernels::AttentionGrad attention{.shape = shape_,
                                           .dy = c.In(0),
                                           .qkv = c.In(1),
                                           .y = c.In(2),
                                           .lse = c.In<float>(3),
                                           .dqkv = c.Out(0),
                                           .delta = reinterpret_cast<float*>(scratch)};
    if (fused_ && IsAligned(c.In(0)) && IsAligned(c.In(1)) && IsAligned(c.In(2)) &&
        IsAligned(c.In(3)) && IsAligned(c.Out(0))) {
      return Annotate(fused_->Run(attention, scratch, c.stream), where);
    }
    return ToStatus(kernels::Launch(attention, c.stream), "launch a kernel", where);
  }

 private:
  const AttentionShape shape_;
  const bool deterministic_;
  std::optional<DnnAttentionGrad> fused_;
};

Status Attention(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const AttentionShape shape, ShapeOf(r, 0));
  plan.Add(std::make_unique<AttentionStep>(shape, r.deterministic));
  return OkStatus();
}

Status AttentionGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const AttentionShape shape, ShapeOf(r, 1));
  plan.Add(std::make_unique<AttentionGradStep>(shape, r.deterministic));
  return OkStatus();
}

}  // namespace

void RegisterAttention(PlanRegistry& registry) {
  registry["attention"] = {Attention};
  registry["attention_grad"] = {AttentionGrad};
}

}  // namespace oc::cuda
