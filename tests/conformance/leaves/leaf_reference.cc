#include "leaves.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"

namespace oc::parity {

std::vector<LeafUnderTest> LeavesUnderTest() {
  return {{ThroughTable<&DiscoverReference>("reference"), {1}}};
}

}  // namespace oc::parity
