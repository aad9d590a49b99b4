#include <cstdio>

#include "leaves.h"
#include "openclaw/devices/plugin.h"

namespace oc::parity {

// The module is opened as a cluster would open it. Where there is no driver nothing is under test.
std::vector<LeafUnderTest> LeavesUnderTest() {
  auto leaf = LoadPlugin(OPENCL_MODULE);
  if (!leaf.ok()) {
    std::printf("skipped: %s\n", leaf.status().ToString().c_str());
    return {};
  }
  return {{std::move(leaf).value(), {1}, /*asynchronous=*/true}};
}

}  // namespace oc::parity
