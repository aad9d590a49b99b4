// GELU (Hendrycks and Gimpel, 2016), exact and with tanh, and its derivative.
#pragma once

#include <cmath>

#include "openclaw/devices/device.h"

namespace oc::reference {

inline double Gelu(double x, bool tanh) {
  if (!tanh) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

inline double GeluSlope(double x, bool tanh) {
  if (!tanh) {
    return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  }
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// Of an op with the attribute "approximate".
inline bool IsTanh(const OpRequest& request) {
  return request.attrs.String("approximate", "none") == "tanh";
}

}  // namespace oc::reference
