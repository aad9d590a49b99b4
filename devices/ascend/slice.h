// A slice: memory with a budget, queues and prepared ops of one device. Its compute is shared: the
// runtime divides no device.
#pragma once

#include "openclaw/devices/ascend/plan.h"
#include "openclaw/devices/ascend/queue.h"

namespace oc::ascend {

struct SliceParts {
  std::shared_ptr<const Api> api;
  int device = 0;
  std::string kind;
  int64_t memory_bytes = 0;  // budget; 0: none
};

class AscendSlice : public Slice {
 public:
  explicit AscendSlice(SliceParts parts);

  std::string kind() const override { return parts_.kind; }
  Enforcement enforcement() const override { return Enforcement::kSoft; }
  std::vector<DType> dtypes() const override;
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override;
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override;
  StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override;
  // Asks every operator whether it takes its arguments, as Prepare does.
  StatusOr<OpSupport> Support(const OpRequest& request) override;
  std::span<std::byte> HostView(BufferRange) override { return {}; }
  int64_t HighWater(const Buffer& buffer) const override;

  Status UseDevice() const { return parts_.api->UseDevice(parts_.device); }
  const Api& api() const { return *parts_.api; }
  const std::shared_ptr<const Api>& shared_api() const { return parts_.api; }
  int device() const { return parts_.device; }
  const std::shared_ptr<Budget>& budget() const { return budget_; }
  Staging& staging() const { return *staging_; }
  EventPool& events() const { return *events_; }
  // "ascend:0, ascend/MODEL/24u", for messages.
  const std::string& where() const { return where_; }

 private:
  Status FillPlan(const OpRequest& request, Plan& plan) const;

  const SliceParts parts_;
  const std::string where_;
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<Staging> staging_;
  const std::shared_ptr<EventPool> events_;
  PlanRegistry plans_;
};

}  // namespace oc::ascend
