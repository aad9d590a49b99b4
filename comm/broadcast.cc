#include "openclaw/comm/broadcast.h"

namespace oc {

Status Broadcast(Group& group, const BroadcastOptions& options) {
  const int n = group.size();
  if (options.root < 0 || options.root >= n) {
    return InvalidArgument("broadcast: root ", options.root, " in a group of ", n, " (group ",
                           group.options().id, ")");
  }
  OC_RETURN_IF_ERROR(group.Begin("broadcast", static_cast<int64_t>(options.bytes.size()),
                                 DType::kU8, options.root));
  if (n == 1 || options.bytes.empty()) return OkStatus();
  // Positions are counted from the root. Position p receives from p without its lowest set bit, and
  // serves those that set one lower bit of p.
  const int position = (group.rank() - options.root + n) % n;
  int bit = 1;
  while (bit < n && (position & bit) == 0) bit <<= 1;
  if (position != 0) {
    OC_RETURN_IF_ERROR(group.Recv((position - bit + options.root) % n, 0, options.bytes));
  }
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (position + bit < n) {
      OC_RETURN_IF_ERROR(group.Send((position + bit + options.root) % n, 0, options.bytes));
    }
  }
  return OkStatus();
}

}  // namespace oc
