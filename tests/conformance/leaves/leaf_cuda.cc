#include <algorithm>
#include <cstdio>

#include "leaves.h"
#include "openclaw/devices/modules.h"

namespace oc::parity {

// The whole device, and a share of it, of the module as a cluster would find it: the program may
// have been moved to another machine. Where there is no driver or no GPU nothing is under test.
std::vector<LeafUnderTest> LeavesUnderTest() {
  for (DeviceLeaf& leaf : FindDeviceModules()) {
    if (leaf.name != "cuda") continue;
    auto devices = leaf.discover();
    if (!devices.ok()) {
      std::printf("skipped: %s\n", devices.status().ToString().c_str());
      return {};
    }
    const int all = (*devices)[0]->info().threads;
    return {{std::move(leaf), {all, std::max(1, all / 4)}, /*asynchronous=*/true}};
  }
  std::printf("skipped: no module openclaw_cuda.so beside the libraries\n");
  return {};
}

}  // namespace oc::parity
