// The resident memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

#include "openclaw/core/status.h"

namespace oc {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;  // highest since the start, or since ResetPeakMemory
};

// kFailedPrecondition where /proc cannot be read.
StatusOr<ProcessMemory> ReadProcessMemory();

// Begins the peak anew at the present resident size. kFailedPrecondition where the kernel refuses;
// the peak then still counts from the start.
Status ResetPeakMemory();

}  // namespace oc
