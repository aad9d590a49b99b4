#include "leaves.h"

#include "openclaw/devices/reference/reference.h"

namespace oc::conformance {

std::vector<LeafUnderTest> LeavesUnderTest() { return {{ReferenceLeaf(), {1}}}; }

}  // namespace oc::conformance
