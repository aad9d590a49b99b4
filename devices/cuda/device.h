// The cuda leaf: NVIDIA GPUs of compute capability 8.0 and later, and MIG instances, each a device.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc::cuda {

// In the driver's order, as CUDA_VISIBLE_DEVICES says. kFailedPrecondition where no driver, or an
// old one, or no usable GPU is there.
StatusOr<std::vector<std::unique_ptr<Device>>> Discover();

// The number by which CUDA knows a device of the leaf.
int OrdinalOf(const Device& device);

}  // namespace oc::cuda
