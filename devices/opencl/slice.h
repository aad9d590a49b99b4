// A slice: a share of a context with a memory budget and a queue of its own.
#pragma once

#include "openclaw/devices/opencl/context.h"
#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/queue.h"

namespace oc::opencl {

struct SliceParts {
  std::shared_ptr<const OpenClContext> context;
  ClQueue setup;  // clears new memory
  std::string kind, where;
  Enforcement enforcement = Enforcement::kSoft;
  int64_t memory_bytes = 0;      // budget; 0: none
  int64_t allocation_bytes = 0;  // the device's limit of one buffer
  int64_t scratch_align = 128;   // of a sub-buffer
  Limits limits;
  std::shared_ptr<void> units;  // gives the compute units back
};

class OpenClSlice : public Slice {
 public:
  explicit OpenClSlice(SliceParts parts);
  ~OpenClSlice() override;

  std::string kind() const override { return parts_.kind; }
  Enforcement enforcement() const override { return parts_.enforcement; }
  std::vector<DType> dtypes() const override;
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override;
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override;
  StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override;
  // Compiles nothing.
  StatusOr<OpSupport> Support(const OpRequest& request) override;
  // The device's memory is not the host's, even where it is: only transfers order them.
  std::span<std::byte> HostView(BufferRange) override { return {}; }
  int64_t HighWater(const Buffer& buffer) const override;

  cl_context context() const { return parts_.context->get(); }
  cl_device_id device() const { return parts_.context->device(); }
  cl_command_queue setup_queue() const { return parts_.setup.get(); }
  int64_t scratch_align() const { return parts_.scratch_align; }
  // "opencl/MODEL/2u", for messages.
  const std::string& where() const { return parts_.where; }
  StatusOr<ClKernel> MakeKernel(const KernelStep& step) const {
    return parts_.context->MakeKernel(step);
  }
  cl_int NextCheckCode() const { return next_check_.fetch_add(1); }

 private:
  StatusOr<OpPlan> Plan(const OpRequest& request) const;

  SliceParts parts_;
  std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
  PlanRegistry plans_;
  mutable std::atomic<cl_int> next_check_{1};
};

}  // namespace oc::opencl
