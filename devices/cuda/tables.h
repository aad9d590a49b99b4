// The optional tables of the C interface that the leaf fills: links, profile, capture.
#pragma once

#include "openclaw/devices/openclaw_device.h"

namespace oc::cuda {

const oc_link_api* LinkTable();
const oc_profile_api* ProfileTable();
const oc_capture_api* CaptureTable();

}  // namespace oc::cuda
