// The pieces of all members of a group, put together on each.
#pragma once

#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/ring.h"

namespace oc {

struct AllGatherOptions {
  // In place: before, its own piece is valid on each member; afterwards all is.
  std::span<std::byte> bytes;
  DType dtype = DType::kF32;        // any
  std::span<const int64_t> pieces;  // bounds in elements (ring.h); empty: PieceOf
};

// Every member calls it with the same size, dtype and pieces. Errors: those of Group::Begin and
// Transport; kInvalidArgument for bad options.
Status AllGather(Group& group, const AllGatherOptions& options);

}  // namespace oc
