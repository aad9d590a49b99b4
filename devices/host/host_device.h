// A device whose memory is the host's: what the leaves reference and cpu are made of. Work
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
  KernelRegistries kernels;
};

std::unique_ptr<Device> MakeHostDevice(HostDeviceOptions options);

}  // namespace oc
