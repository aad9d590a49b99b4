#include "openclaw/core/cluster.h"

#include <algorithm>
#include <set>

namespace oc {

const char* Name(Enforcement enforcement) {
  switch (enforcement) {
    case Enforcement::kNone:
      return "none";
    case Enforcement::kSoft:
      return "soft";
    case Enforcement::kHard:
      return "hard";
  }
  return "?";
}

double LinkCurve::Seconds(int64_t bytes) const {
  if (points.empty()) return 0;
  if (bytes <= points.front().bytes) return points.front().seconds;
  for (size_t i = 1; i < points.size(); ++i) {
    if (bytes > points[i].bytes && i + 1 < points.size()) continue;
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (b.bytes == a.bytes) return b.seconds;
    const double slope = (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes);
    return std::max(a.seconds, a.seconds + slope * static_cast<double>(bytes - a.bytes));
  }
  const Point& only = points.front();
  return only.bytes <= 0
             ? only.seconds
             : only.seconds * static_cast<double>(bytes) / static_cast<double>(only.bytes);
}

LinkCurve LinkCurve::Of(double latency_seconds, double bytes_per_second) {
  constexpr int64_t kFar = int64_t{1} << 40;
  return {{{0, latency_seconds}, {kFar, latency_seconds + kFar / bytes_per_second}}};
}

Status ClusterSpec::Validate() const {
  if (vcus.empty()) return InvalidArgument("cluster: no VCU");
  std::set<std::string> names;
  for (const VcuSpec& v : vcus) {
    if (!names.insert(v.name).second) return InvalidArgument("cluster: two VCUs named ", v.name);
    if (v.memory_bytes <= 0)
      return InvalidArgument("cluster: VCU ", v.name, " has no memory budget");
  }
  if (links.size() != vcus.size() * vcus.size()) {
    return InvalidArgument("cluster: ", links.size(), " links for ", vcus.size(), " VCUs");
  }
  return OkStatus();
}

}  // namespace oc
