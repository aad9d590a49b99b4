// Simulated units: real arithmetic with the kernels of a host, in memory that the host cannot
// touch, asynchronous, and as slow or as faulty as their options say (options.h). To test
// scheduling over unlike devices, lifetimes and faults without the hardware.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/devices/host/kernel.h"

namespace oc {

// One device, "sim:0", from which any number of units can be sliced: the threads that this process
// may use, not pinned, and the memory that is free now. `kernels` are asked in order.
StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverSim(KernelRegistries kernels);

}  // namespace oc
