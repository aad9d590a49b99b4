#include "leaves.h"
#include "openclaw/devices/plugin.h"

namespace oc::parity {

// The example of a plugin, in plain C.
std::vector<LeafUnderTest> LeavesUnderTest() {
  auto leaf = LoadPlugin(PLAIN_PLUGIN);
  OC_CHECK(leaf.ok(), leaf.status().ToString());
  return {{std::move(leaf).value(), {1}}};
}

}  // namespace oc::parity
