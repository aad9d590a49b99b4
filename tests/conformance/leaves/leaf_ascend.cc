#include <cstdlib>

#include "leaves.h"
#include "openclaw/devices/plugin.h"

namespace oc::parity {

// On the emulated libraries (tests/devices/ascend/emulator), whatever is installed.
std::vector<LeafUnderTest> LeavesUnderTest() {
  setenv("ASCEND_HOME_PATH", ASCEND_EMULATOR, 1);
  auto leaf = LoadPlugin(ASCEND_MODULE);
  OC_CHECK(leaf.ok(), leaf.status().ToString());
  return {{std::move(leaf).value(), {1}, /*asynchronous=*/true}};
}

}  // namespace oc::parity
