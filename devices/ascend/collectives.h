// The leaf's table of collectives (devices/openclaw_device.h).
#pragma once

#include "openclaw/devices/openclaw_device.h"

namespace oc::ascend {

const oc_collective_api* CollectiveTable();

}  // namespace oc::ascend
