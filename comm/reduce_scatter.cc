#include "openclaw/comm/reduce_scatter.h"

#include "openclaw/comm/collective.h"

namespace oc {

int64_t ReduceScatterScratchBytes(int group_size, int64_t bytes, DType dtype,
                                  std::span<const int64_t> pieces) {
  return RingScratchBytes(group_size, bytes, dtype, pieces);
}

Status ReduceScatter(Group& group, const ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  OC_RETURN_IF_ERROR(CheckWholeElements(group, kName, options.bytes, options.dtype));
  OC_RETURN_IF_ERROR(CheckReducible(group, kName, options.dtype));
  const int64_t bytes = static_cast<int64_t>(options.bytes.size());
  OC_RETURN_IF_ERROR(CheckPieces(group, kName, options.pieces, bytes / SizeInBytes(options.dtype)));
  OC_RETURN_IF_ERROR(group.Begin(kName, bytes, options.dtype,
                                 AgreedDetail(static_cast<int64_t>(options.op), options.pieces)));
  if (group.size() == 1 || bytes == 0) return OkStatus();
  Scratch scratch;
  OC_RETURN_IF_ERROR(
      scratch.Take(group, kName, options.scratch,
                   ReduceScatterScratchBytes(group.size(), bytes, options.dtype, options.pieces)));
  return RingReduceScatter(group, options.bytes, options.dtype, options.op, scratch.bytes(),
                           options.pieces);
}

}  // namespace oc
