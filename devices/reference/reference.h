// The reference device: plain loops that compute in double, for every op. It is the oracle that
// other devices are compared with, and what runs where nothing faster exists.
#pragma once

#include <memory>

#include "openclaw/devices/host/kernel.h"

namespace oc {

// All its kernels; other host devices may ask it last.
std::shared_ptr<const KernelRegistry> ReferenceKernels();
// One device, "reference:0": the cores that this process may use and the memory that is free now.
StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverReference();

}  // namespace oc
