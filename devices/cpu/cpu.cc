#include "openclaw/devices/cpu/cpu.h"

#include <utility>

#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/devices/cpu/onednn/shim.h"
#include "openclaw/devices/cpu/topology.h"
#include "openclaw/devices/host/host_device.h"
#include "openclaw/graph/fuse.h"

namespace oc {
namespace {

std::shared_ptr<const KernelRegistry> WithoutFused(const KernelRegistry& all) {
  auto rest = std::make_shared<KernelRegistry>();
  bool deterministic = true;
  for (const auto& [op, entry] : all.entries()) {
    deterministic &= entry.deterministic;
    if (IsFused(op)) continue;
    rest->Add(op, entry.create, entry.accumulable, entry.sum_types);
  }
  if (deterministic) rest->Deterministic();
  return rest;
}

}  // namespace

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverCpus(
    const std::shared_ptr<const KernelRegistry>& fallback,
    const std::shared_ptr<const KernelRegistry>& own) {
  auto kernels = std::make_shared<KernelRegistry>();
  OC_RETURN_IF_ERROR(cpu::RegisterOneDnn(*kernels));
  cpu::RegisterNative(*kernels);
  kernels->Deterministic();
  OC_ASSIGN_OR_RETURN(const std::vector<cpu::NumaNode> nodes, cpu::UsableNodes());
  const std::string model = cpu::InstructionSet();
  std::vector<std::unique_ptr<Device>> devices;
  for (const cpu::NumaNode& node : nodes) {
    HostDeviceOptions options;
    options.info = {.name = absl::StrCat("cpu:", devices.size()), .leaf = "cpu", .model = model};
    options.info.cores = node.cores;
    options.info.threads = static_cast<int>(node.cores.size());
    options.info.memory_bytes = node.memory_bytes;
    options.dtypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kI32,
                      DType::kI64, DType::kU8,   DType::kBool};
    if (own != nullptr) options.kernels.push_back(own);
    options.kernels.push_back(kernels);
    if (fallback != nullptr) {
      options.dtypes.push_back(DType::kF64);
      // Fused ops are taken for their speed.
      options.kernels.push_back(WithoutFused(*fallback));
    }
    devices.push_back(MakeHostDevice(std::move(options)));
  }
  return devices;
}

std::string CpuLibraries() { return absl::StrCat("oneDNN ", onednn::Version()); }

}  // namespace oc
