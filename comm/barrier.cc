#include "openclaw/comm/barrier.h"

namespace oc {

// Dissemination (Hensgen, Finkel and Manber, 1988): after round k each has heard, directly or not,
// of 2^(k+1) members.
Status Barrier(Group& group) {
  OC_RETURN_IF_ERROR(group.Begin("barrier", 0, DType::kU8, 0));
  const int n = group.size();
  std::byte out{1}, in{0};
  for (int distance = 1; distance < n; distance *= 2) {
    OC_RETURN_IF_ERROR(group.SendRecv((group.rank() + distance) % n, std::span(&out, 1),
                                      (group.rank() - distance + n) % n, std::span(&in, 1), 0));
  }
  return OkStatus();
}

}  // namespace oc
