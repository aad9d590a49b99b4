// The pieces of all members of a group, put together on each.
#pragma once

#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/ring.h"

namespace oc {

struct AllGatherOptions {
  // In place: before, PieceOf(count, size, rank) is valid on each member; afterwards all is.
  std::span<std::byte> bytes;
  DType dtype = DType::kF32;  // any
};

// Every member calls it with the same size and dtype. Errors: those of Group::Begin and Transport;
// kInvalidArgument for bad options.
Status AllGather(Group& group, const AllGatherOptions& options);

}  // namespace oc
