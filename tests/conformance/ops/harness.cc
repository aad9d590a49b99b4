#include "harness.h"

#include <cmath>
#include <limits>

namespace oc::parity {

std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (!(actual.type() == expected.type())) {
    return absl::StrCat("is ", actual.type().ToString(), ", not ", expected.type().ToString());
  }
  const int64_t n = expected.num_elements();
  const auto at = [&](int64_t i) {
    return absl::StrCat("element ", i, " of ", expected.type().ToString(), " is ", actual.at(i),
                        ", the reference ", expected.at(i));
  };
  double error = 0, norm = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = actual.at(i), e = expected.at(i);
    if (!std::isfinite(e) || !std::isfinite(a) || tolerance == 0) {
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      return at(i);
    }
    error += (a - e) * (a - e);
    norm += e * e;
    ++finite;
  }
  if (finite == 0) return "";
  const double tiny = std::numeric_limits<float>::min() * 16;
  if (std::sqrt(error) > tolerance * std::sqrt(norm) + tiny) {
    return absl::StrCat("relative error ", std::sqrt(error / std::max(norm, 1e-300)), " of ",
                        expected.type().ToString(), ", allowed ", tolerance);
  }
  const double rms = std::sqrt(norm / static_cast<double>(finite));
  for (int64_t i = 0; i < n; ++i) {
    const double a = actual.at(i), e = expected.at(i);
    if (!std::isfinite(e)) continue;
    if (std::abs(a - e) > 30 * tolerance * (std::abs(e) + rms) + tiny) {
      return absl::StrCat(at(i), " (root mean square ", rms, ")");
    }
  }
  return "";
}

}  // namespace oc::parity
