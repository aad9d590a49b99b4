// A slice: a share of a device's multiprocessors and memory.
#pragma once

#include <optional>

#include "openclaw/devices/cuda/cudnn_graph.h"
#include "openclaw/devices/cuda/partition.h"
#include "openclaw/devices/cuda/plan.h"
#include "openclaw/devices/cuda/queue.h"

namespace oc::cuda {

struct SliceParts {
  Traits traits;
  std::string kind, where;
  Enforcement enforcement = Enforcement::kSoft;
  int64_t memory_bytes = 0;      // budget; 0: none
  std::unique_ptr<Share> share;  // null: the whole device
};

class CudaSlice : public Slice {
 public:
  static StatusOr<std::unique_ptr<Slice>> Create(SliceParts parts);
  ~CudaSlice() override;

  std::string kind() const override { return parts_.kind; }
  Enforcement enforcement() const override { return parts_.enforcement; }
  std::vector<DType> dtypes() const override;
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override;
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override;
  StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  // Pinned, as seen from every device.
  StatusOr<std::unique_ptr<HostMemory>> AllocateHost(int64_t bytes) override;
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override;
  // Loads and measures nothing.
  StatusOr<OpSupport> Support(const OpRequest& request) override;
  std::span<std::byte> HostView(BufferRange) override { return {}; }
  int64_t HighWater(const Buffer& buffer) const override;

  const Traits& traits() const { return parts_.traits; }
  // Not a share of its multiprocessors.
  bool whole_device() const { return parts_.share == nullptr; }
  // "cuda/MODEL/132sm on gpu:0", for messages.
  const std::string& where() const { return parts_.where; }
  Status Use() const { return UseDevice(parts_.traits.ordinal, parts_.where); }
  StatusOr<cudaStream_t> CreateStream(const std::string& where) const;
  const std::shared_ptr<EventPool>& events() const { return events_; }
  Spares<Staging>& staging() const { return staging_; }
  const std::shared_ptr<Spares<DataFlags>>& flags() const { return flags_; }
  // One stream for what prepares and clears. Hold its mutex while using it.
  cudaStream_t setup_stream() const { return setup_; }
  std::mutex& setup_mutex() const { return setup_mutex_; }
  // cuDNN for the slice's device, loaded when it is first wanted; the same error each time where it
  // is not to be had.
  StatusOr<std::shared_ptr<Dnn>> dnn() const;
  // Unique in the process.
  int32_t NextCheckCode() const;

 private:
  explicit CudaSlice(SliceParts parts);
  StatusOr<OpPlan> Plan(const OpRequest& request) const;

  SliceParts parts_;
  std::shared_ptr<EventPool> events_;
  mutable Spares<Staging> staging_;
  std::shared_ptr<Spares<DataFlags>> flags_ = std::make_shared<Spares<DataFlags>>();
  cudaStream_t setup_ = nullptr;
  mutable std::mutex setup_mutex_;
  mutable std::mutex dnn_mutex_;
  mutable std::optional<StatusOr<std::shared_ptr<Dnn>>> dnn_;
  std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace oc::cuda
