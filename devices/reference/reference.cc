#include "openclaw/devices/reference/reference.h"

#include <sched.h>

#include <fstream>
#include <string>

#include "openclaw/devices/host/host_device.h"
#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/nn.h"

namespace oc {
namespace {

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

StatusOr<int64_t> AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return FailedPrecondition("discover reference: /proc/meminfo tells no MemAvailable");
}

}  // namespace

std::shared_ptr<const KernelRegistry> ReferenceKernels() {
  auto registry = std::make_shared<KernelRegistry>();
  reference::RegisterBasic(*registry);
  reference::RegisterNn(*registry);
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
