#include "openclaw/comm/all_reduce.h"

#include <algorithm>
#include <cstring>

#include "openclaw/comm/collective.h"
#include "openclaw/comm/ring.h"

namespace oc {
namespace {

// Below this the number of messages counts, not their size.
constexpr int64_t kSmallBytes = 16 * 1024;

// Two members: both send all and reduce in the members' order.
Status Exchange(Group& group, const AllReduceOptions& options, std::span<std::byte> scratch) {
  const auto theirs = scratch.first(options.bytes.size());
  const int peer = 1 - group.rank();
  const int64_t count = static_cast<int64_t>(theirs.size()) / SizeInBytes(options.dtype);
  OC_RETURN_IF_ERROR(group.SendRecv(peer, options.bytes, peer, theirs, 0));
  if (group.rank() == 0) {
    Reduce(options.dtype, options.op, options.bytes.data(), theirs.data(), count);
  } else {
    Reduce(options.dtype, options.op, theirs.data(), options.bytes.data(), count);
    std::memcpy(options.bytes.data(), theirs.data(), theirs.size());
  }
  return OkStatus();
}

// Member 0 reduces what it receives, in the members' order, and sends the result.
Status GatherAndSpread(Group& group, const AllReduceOptions& options,
                       std::span<std::byte> scratch) {
  if (group.rank() != 0) {
    OC_RETURN_IF_ERROR(group.Send(0, 0, options.bytes));
    return group.Recv(0, 0, options.bytes);
  }
  const auto theirs = scratch.first(options.bytes.size());
  const int64_t count = static_cast<int64_t>(theirs.size()) / SizeInBytes(options.dtype);
  for (int i = 1; i < group.size(); ++i) {
    OC_RETURN_IF_ERROR(group.Recv(i, 0, theirs));
    Reduce(options.dtype, options.op, options.bytes.data(), theirs.data(), count);
  }
  for (int i = 1; i < group.size(); ++i) OC_RETURN_IF_ERROR(group.Send(i, 0, options.bytes));
  return OkStatus();
}

}  // namespace

int64_t AllReduceScratchBytes(int group_size, int64_t bytes, DType dtype,
                              std::span<const int64_t> pieces) {
  if (group_size < 2) return 0;
  if (pieces.empty() && bytes <= kSmallBytes) return bytes;
  return RingScratchBytes(group_size, bytes, dtype, pieces);
}

Status AllReduceInPlace(Group& group, const AllReduceOptions& options) {
  constexpr const char* kName = "all_reduce";
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
                   AllReduceScratchBytes(group.size(), bytes, options.dtype, options.pieces)));
  if (options.pieces.empty() && bytes <= kSmallBytes) {
    return group.size() == 2 ? Exchange(group, options, scratch.bytes())
                             : GatherAndSpread(group, options, scratch.bytes());
  }
  OC_RETURN_IF_ERROR(RingReduceScatter(group, options.bytes, options.dtype, options.op,
                                       scratch.bytes(), options.pieces));
  return RingAllGather(group, options.bytes, options.dtype, options.pieces);
}

}  // namespace oc
