// Monotonic time.
#pragma once

#include <cstdint>

namespace oc {

// Nanoseconds of the machine's monotonic clock.
int64_t NowNanos();
inline double NowSeconds() { return static_cast<double>(NowNanos()) * 1e-9; }

}  // namespace oc
