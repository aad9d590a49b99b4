#include "openclaw/comm/all_gather.h"

#include "openclaw/comm/collective.h"

namespace oc {

Status AllGather(Group& group, const AllGatherOptions& options) {
  constexpr const char* kName = "all_gather";
  OC_RETURN_IF_ERROR(CheckWholeElements(group, kName, options.bytes, options.dtype));
  const int64_t bytes = static_cast<int64_t>(options.bytes.size());
  OC_RETURN_IF_ERROR(CheckPieces(group, kName, options.pieces, bytes / SizeInBytes(options.dtype)));
  OC_RETURN_IF_ERROR(group.Begin(kName, bytes, options.dtype, AgreedDetail(0, options.pieces)));
  if (group.size() == 1 || bytes == 0) return OkStatus();
  return RingAllGather(group, options.bytes, options.dtype, options.pieces);
}

}  // namespace oc
