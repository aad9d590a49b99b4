// The optional tables of the C interface that the leaf fills: links, profile.
#pragma once

#include "openclaw/devices/openclaw_device.h"

namespace oc::cuda {

const oc_link_api* LinkTable();
const oc_profile_api* ProfileTable();

}  // namespace oc::cuda
