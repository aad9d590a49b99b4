#include "openclaw/devices/reference/reference.h"

#include "openclaw/devices/host/host_device.h"
#include "openclaw/devices/host/host_info.h"
#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/nn.h"

namespace oc {
std::shared_ptr<const KernelRegistry> ReferenceKernels() {
  auto registry = std::make_shared<KernelRegistry>();
  reference::RegisterBasic(*registry);
  reference::RegisterNn(*registry);
  registry->Deterministic();
  return registry;
}

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverReference() {
  HostDeviceOptions options;
  options.info = {.name = "reference:0", .leaf = "reference", .model = "plain"};
  options.info.cores = AllowedCores();
  options.info.threads = static_cast<int>(options.info.cores.size());
  OC_ASSIGN_OR_RETURN(options.info.memory_bytes, AvailableMemory());
  options.dtypes = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                    DType::kI32, DType::kI64, DType::kU8,   DType::kBool};
  options.kernels = {ReferenceKernels()};
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(MakeHostDevice(std::move(options)));
  return devices;
}

}  // namespace oc
