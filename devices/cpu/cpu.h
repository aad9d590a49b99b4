// The leaf of processors: oneDNN where it is fast, own vectorised kernels elsewhere.
#pragma once

#include <memory>
#include <string>

#include "openclaw/devices/device.h"
#include "openclaw/devices/host/kernel.h"

namespace oc {

// One device, "cpu:0", "cpu:1", ..., a NUMA node with cores that this process may use (affinity,
// cpusets). Memory: the node's share of what is available now, or of what is left of the control
// group's limit where that is less. Model: the widest instruction set that the kernels use:
// "amx_bf16", "avx512_bf16", "avx512", "avx2" or "baseline".
//
// `own` (may be null) holds kernels of the user's, asked first. `fallback` (may be null) is asked
// for what neither has, op by op.
// Discovery is kFailedPrecondition where hwloc or oneDNN cannot start.
StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverCpus(
    const std::shared_ptr<const KernelRegistry>& fallback,
    const std::shared_ptr<const KernelRegistry>& own = nullptr);

// The libraries that the leaf computes with, as they were loaded: "oneDNN 3.1.0".
std::string CpuLibraries();

}  // namespace oc
