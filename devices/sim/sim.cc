#include "openclaw/devices/sim/sim.h"

#include <algorithm>
#include <atomic>

#include "openclaw/devices/host/host_info.h"
#include "openclaw/devices/sim/memory.h"
#include "openclaw/devices/sim/options.h"
#include "openclaw/devices/sim/queue.h"

namespace oc {
namespace sim {
namespace {

class SimSlice : public Slice {
 public:
  SimSlice(const DeviceInfo& device, const std::vector<DType>& dtypes,
           const KernelRegistries& kernels, const SimOptions& knobs, const SliceOptions& options)
      : kernels_(kernels),
        options_(options),
        dtypes_(knobs.dtypes.empty() ? dtypes : knobs.dtypes),
        kind_(absl::StrCat(device.leaf, "/", CostName(knobs), "/", options.threads, "t")),
        unit_(std::make_shared<Unit>(device.name, knobs, options)) {}

  std::string kind() const override { return kind_; }
  Enforcement enforcement() const override { return Enforcement::kSoft; }
  std::vector<DType> dtypes() const override { return dtypes_; }

  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    OC_RETURN_IF_ERROR(unit_->lost());
    if (bytes < 0) return InvalidArgument("allocate ", bytes, " bytes on ", unit_->device);
    const int64_t before = used_->fetch_add(bytes);
    const int64_t fault = unit_->options.out_of_memory_at;
    Status status;
    if (options_.memory_bytes > 0 && before + bytes > options_.memory_bytes) {
      status =
          ResourceExhausted("allocate ", bytes, " bytes on ", unit_->device, ": the budget is ",
                            options_.memory_bytes, ", of which ", before, " are taken");
    } else if (fault > 0 && before + bytes > fault) {
      status =
          ResourceExhausted("allocate ", bytes, " bytes on ", unit_->device, ": out of memory, ",
                            before, " bytes are taken and ", "out_of_memory_at is ", fault);
    }
    if (status.ok()) {
      auto memory = SimMemory::Create(bytes, used_);
      if (memory.ok()) {
        return std::unique_ptr<Buffer>(std::make_unique<SimBuffer>(*std::move(memory)));
      }
      status = memory.status();
    }
    used_->fetch_sub(bytes);
    return status;
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override {
    return std::unique_ptr<Queue>(std::make_unique<SimQueue>(unit_, name));
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::unique_ptr<Event>(std::make_unique<SimEvent>());
  }

  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override {
    const std::string lacking = WhatIsLacking(request);
    if (!lacking.empty()) return Unimplemented(lacking);
    auto kernel = std::make_shared<SimKernel>();
    OC_ASSIGN_OR_RETURN(kernel->kernel, CreateKernel(kernels_, request, options_.threads, kind_));
    kernel->name = ToString(request);
    kernel->deterministic = kernel->kernel->deterministic() && !MayDiffer(request);
    kernel->seconds = ModelledSeconds(request);
    return std::unique_ptr<PreparedOp>(std::make_unique<SimOp>(std::move(kernel)));
  }
  StatusOr<OpSupport> Support(const OpRequest& request) override {
    std::string lacking = WhatIsLacking(request);
    if (!lacking.empty()) return OpSupport{.reason = std::move(lacking)};
    OC_ASSIGN_OR_RETURN(OpSupport support,
                        KernelSupport(kernels_, request, options_.threads, kind_));
    if (support.supported && unit_->options.speed > 0) support.seconds = ModelledSeconds(request);
    return support;
  }
  std::span<std::byte> HostView(BufferRange) override { return {}; }
  int64_t HighWater(const Buffer& buffer) const override {
    return static_cast<const SimBuffer&>(buffer).memory()->high_water();
  }

 private:
  // Empty, or which op or dtype of the request the unit is told not to have.
  std::string WhatIsLacking(const OpRequest& request) const {
    const std::vector<std::string>& lacks = unit_->options.lacks;
    if (std::find(lacks.begin(), lacks.end(), request.def->name) != lacks.end()) {
      return absl::StrCat("op ", ToString(request), " on ", kind_,
                          ": no kernel, as the unit's option 'lacks' has it");
    }
    for (const auto* types : {&request.inputs, &request.outputs}) {
      for (const TensorType& t : *types) {
        if (std::find(dtypes_.begin(), dtypes_.end(), t.dtype) != dtypes_.end()) continue;
        return absl::StrCat("op ", ToString(request), " on ", kind_, ": no kernel for ",
                            Name(t.dtype), ", which is not among the unit's dtypes");
      }
    }
    if (request.deterministic && MayDiffer(request)) {
      return absl::StrCat("op ", ToString(request), " on ", kind_,
                          ": its results may not repeat bit by bit, as the unit's option "
                          "'not_deterministic' has it");
    }
    return "";
  }
  bool MayDiffer(const OpRequest& request) const {
    const std::vector<std::string>& ops = unit_->options.not_deterministic;
    return std::find(ops.begin(), ops.end(), request.def->name) != ops.end();
  }
  double ModelledSeconds(const OpRequest& request) const {
    const SimOptions& o = unit_->options;
    if (o.speed == 0) return 0;
    const OpCost cost = DefaultCost(*request.def, {request.inputs, request.attrs}, request.outputs);
    return std::max(cost.flops / o.flops, cost.bytes / (o.memory_gbps * 1e9)) / o.speed;
  }

  const KernelRegistries& kernels_;
  const SliceOptions options_;
  const std::vector<DType> dtypes_;
  const std::string kind_;
  const std::shared_ptr<Unit> unit_;
  const std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

class SimDevice : public Device {
 public:
  SimDevice(DeviceInfo info, KernelRegistries kernels)
      : info_(std::move(info)), kernels_(std::move(kernels)) {}
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (options.threads < 1) {
      return InvalidArgument("slice of ", info_.name, ": ", options.threads, " threads");
    }
    auto knobs = ParseOptions(options.options);
    if (!knobs.ok()) return Annotate(knobs.status(), absl::StrCat("slice of ", info_.name));
    return std::unique_ptr<Slice>(
        std::make_unique<SimSlice>(info_, dtypes_, kernels_, *knobs, options));
  }

 private:
  const DeviceInfo info_;
  const std::vector<DType> dtypes_ = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                      DType::kI32, DType::kI64, DType::kU8,   DType::kBool};
  const KernelRegistries kernels_;
};

}  // namespace
}  // namespace sim

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverSim(KernelRegistries kernels) {
  DeviceInfo info = {.name = "sim:0", .leaf = "sim", .model = "simulated"};
  info.threads = static_cast<int>(AllowedCores().size());
  OC_ASSIGN_OR_RETURN(info.memory_bytes, AvailableMemory());
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<sim::SimDevice>(std::move(info), std::move(kernels)));
  return devices;
}

}  // namespace oc
