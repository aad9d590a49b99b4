// cuDNN's fused attention, forward and backward, as graphs of its backend API: products, a causal
// mask by comparing indices, softmax with its log-sum-exp saved. Heads of up to 256 elements, a
// multiple of 8, in bf16 or f16; what cuDNN has no engine for is kUnimplemented, and own kernels
// take it (kernels/attention.h). Of large shapes cuDNN's plans are measured and the fastest is
// taken; where results are to repeat from one process to the next, its first.
#pragma once

#include "openclaw/devices/cuda/cudnn_graph.h"
#include "openclaw/devices/cuda/kernels/attention.h"
#include "openclaw/devices/cuda/slice.h"

namespace oc::cuda {

// kUnimplemented, before anything is loaded, for what no version takes.
Status WantDnnAttention(const kernels::AttentionShape& shape);

class DnnAttention {
 public:
  static StatusOr<DnnAttention> Create(const CudaSlice& slice, const kernels::AttentionShape& shape,
                                       bool deterministic, const std::string& where);
  int64_t workspace_bytes() const { return plan_->workspace_bytes(); }
  Status Run(const kernels::Attention& attention, void* workspace, cudaStream_t stream) const;

 private:
  static Status RunPlan(const DnnPlan& plan, const kernels::Attention& attention, void* workspace,
                        cudaStream_t stream);
  std::shared_ptr<const DnnPlan> plan_;
};

// Gradients of queries are added up by atomics: they do not repeat bit by bit.
class DnnAttentionGrad {
 public:
  static StatusOr<DnnAttentionGrad> Create(const CudaSlice& slice,
                                           const kernels::AttentionShape& shape,
                                           const std::string& where);
  int64_t workspace_bytes() const;
  // delta of `attention` is not used.
  Status Run(const kernels::AttentionGrad& attention, void* workspace, cudaStream_t stream) const;

 private:
  static Status RunPlan(const DnnPlan& plan, const kernels::AttentionGrad& attention,
                        void* workspace, cudaStream_t stream);
  std::shared_ptr<const DnnPlan> plan_;
  int64_t own_bytes_ = 0;  // of the workspace's begin
};

}  // namespace oc::cuda
