// Deadlines from timeouts in seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace oc {

// Now plus `seconds`, which is clamped to [0, one year]: infinity does not overflow the clock.
inline std::chrono::steady_clock::time_point DeadlineAfter(double seconds) {
  constexpr double kYear = 3.2e7;
  const double clamped = seconds > 0 ? std::min(seconds, kYear) : 0;
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(static_cast<int64_t>(clamped * 1e9));
}

inline double SecondsUntil(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
}

}  // namespace oc
