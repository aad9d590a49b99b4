// Huawei NPUs, through the libraries of the CANN toolkit, which are opened at run time.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc::ascend {

// kFailedPrecondition where the libraries or a device are missing: says what to install or set.
StatusOr<std::vector<std::unique_ptr<Device>>> Discover();

}  // namespace oc::ascend
