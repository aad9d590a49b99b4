// One member's bytes, copied to all members of a group.
#pragma once

#include <span>

#include "openclaw/comm/group.h"

namespace oc {

struct BroadcastOptions {
  std::span<std::byte> bytes;
  int root = 0;  // position in the group
};

// Every member calls it with the same size and root; a binomial tree. Errors: those of Group::Begin
// and Transport; kInvalidArgument for bad options.
Status Broadcast(Group& group, const BroadcastOptions& options);

}  // namespace oc
