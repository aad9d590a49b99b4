#include <algorithm>
#include <cmath>
#include <limits>

#include "openclaw/runtime/parity/compare.h"

namespace oc::parity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The root mean square of the finite elements of both.
double RootMeanSquare(const Tensor& a, const Tensor& b) {
  double sum = 0, count = 0;
  for (const Tensor* t : {&a, &b}) {
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const double x = t->at(i);
      if (!std::isfinite(x)) continue;
      sum += x * x;
      ++count;
    }
  }
  return count > 0 ? std::sqrt(sum / count) : 0;
}

double Relative(double a, double b, double scale) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
  // What underflows to zero on one side is no difference.
  const double difference = std::abs(a - b);
  if (difference <= 16 * std::numeric_limits<float>::min()) return 0;
  return difference / std::max({std::abs(a), std::abs(b), scale});
}

double OfAllowed(double value, double allowed) {
  if (value == 0) return 0;
  return allowed > 0 ? value / allowed : kInfinity;
}

}  // namespace

void Deviations::Add(const Tensor& a, const Tensor& b, double allowed, double allowed_largest,
                     const std::string& where) {
  if (!(a.type() == b.type())) {
    AddError(absl::StrCat("the types differ: ", a.type().ToString(), " and ", b.type().ToString()),
             where);
    return;
  }
  const int64_t n = a.num_elements();
  if (n == 0) return;
  const double scale = RootMeanSquare(a, b);
  double largest = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = Relative(a.at(i), b.at(i), scale);
    largest = std::max(largest, d);
    sum += d;
  }
  const double mean = sum / static_cast<double>(n);
  sum_ += sum;
  elements_ += static_cast<double>(n);
  worst_.largest = std::max(worst_.largest, largest);
  const double of_allowed = std::max(OfAllowed(largest, allowed_largest), OfAllowed(mean, allowed));
  if (of_allowed > worst_.of_allowed || worst_.where.empty()) {
    worst_.of_allowed = of_allowed;
    worst_.where = where;
  }
}

void Deviations::AddError(const std::string& error, const std::string& where) {
  if (!worst_.error.empty()) return;
  worst_.of_allowed = kInfinity;
  worst_.error = error;
  worst_.where = where;
}

Deviation Deviations::result() const {
  Deviation d = worst_;
  d.mean = elements_ > 0 ? sum_ / elements_ : 0;
  return d;
}

}  // namespace oc::parity
