// A prepared op: its plan's steps, made ready.
#pragma once

#include "openclaw/devices/cuda/plan.h"
#include "openclaw/devices/cuda/queue.h"

namespace oc::cuda {

class CudaOp : public PreparedOp {
 public:
  static StatusOr<std::unique_ptr<PreparedOp>> Create(const CudaSlice& slice,
                                                      const OpRequest& request, OpPlan plan);

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  const char* implementation() const override { return implementation_; }
  bool deterministic() const override { return deterministic_; }
  // Null where the op checks no data.
  const std::shared_ptr<const DataCheck>& check() const { return check_; }
  // For messages.
  const std::string& where() const { return where_; }

  // Enqueues all steps. Any thread.
  Status Run(const Call& call) const;

 private:
  CudaOp() = default;
  std::string where_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::shared_ptr<const DataCheck> check_;
  int64_t workspace_bytes_ = 0;
  int64_t scratch_ = 0;  // where in the workspace the steps' own room begins
  const char* implementation_ = "cuda";
  bool deterministic_ = true;
};

}  // namespace oc::cuda
