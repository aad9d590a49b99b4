// A device whose memory is the host's: what the leaves reference, cpu and sim are made of. Work
// runs on the thread that enqueues it (and the slice's pool), so a queue is always drained.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/devices/host/kernel.h"

namespace oc {

struct HostDeviceOptions {
  DeviceInfo info;
  std::vector<DType> dtypes;
  // Asked in order; an op that the first lacks falls to the next. They must outlive the device.
  std::vector<std::shared_ptr<const KernelRegistry>> kernels;
};

std::unique_ptr<Device> MakeHostDevice(HostDeviceOptions options);

}  // namespace oc
