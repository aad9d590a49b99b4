// What this process has of the host, for leaves that describe it without a library.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

// The logical processors that this process may run on.
std::vector<int> AllowedCores();
// Bytes that the system could hand out now. kFailedPrecondition where it does not tell.
StatusOr<int64_t> AvailableMemory();

}  // namespace oc
