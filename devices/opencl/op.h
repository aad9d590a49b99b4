// A prepared op: its plan with compiled kernels.
#pragma once

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/queue.h"

namespace oc::opencl {

class OpenClOp : public PreparedOp {
 public:
  // One call: a queue and the memory of the operands.
  struct Call {
    OpenClQueue& queue;
    std::span<const BufferRange> inputs, outputs;
    BufferRange workspace;
  };

  // Compiles what the plan needs and was not compiled yet.
  static StatusOr<std::unique_ptr<PreparedOp>> Create(const OpenClSlice& slice,
                                                      const OpRequest& request, OpPlan plan);

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  const char* implementation() const override { return plan_.products() ? "clblast" : "opencl"; }
  // No kernel adds with atomics; products are tiled by their shape.
  bool deterministic() const override { return true; }
  // Null where the op checks no data.
  const std::shared_ptr<const DataCheck>& check() const { return check_; }

  // Enqueues all steps. Any thread; of several calls at once each is whole.
  Status Run(const Call& call);

 private:
  OpenClOp(const OpenClSlice& slice, const OpRequest& request, OpPlan plan);
  Status SetArgs(const KernelStep& step, cl_kernel kernel, const Call& call) const;
  Status RunKernel(const KernelStep& step, cl_kernel kernel, const Call& call) const;
  Status RunProduct(const ProductStep& step, const Call& call) const;
  Status SizeScratch(const ProductStep& step);

  const OpenClSlice& slice_;
  const std::string where_;
  const OpPlan plan_;
  std::shared_ptr<const DataCheck> check_;
  std::vector<ClKernel> kernels_;  // one a step; none for products
  int64_t workspace_bytes_ = 0;
  int64_t scratch_bytes_ = 0;  // of the largest product, at the end of the workspace
  std::mutex mutex_;           // a kernel's arguments are set, then it is enqueued
};

}  // namespace oc::opencl
