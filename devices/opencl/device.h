// The opencl leaf: OpenCL devices (1.2 and later) of all installed drivers.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc::opencl {

// Accelerators first. kFailedPrecondition where no driver or no usable device is there.
StatusOr<std::vector<std::unique_ptr<Device>>> Discover();

}  // namespace oc::opencl
