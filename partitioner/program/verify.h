// Checks a Program before anything runs, without knowing how it was made. Each rule is a function
// of its own in verify.cc.
#pragma once

#include "openclaw/core/cluster.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

// The rules, in order; the first that fails gives kInvalidArgument naming rule, VCU and commands:
//   structure   lanes, waits, slots, peers and groups are in range, waits point backwards
//   arenas      devices compute and send on their own memory, the host on its own; copies between
//               them run on the lane of their direction
//   bounds      every range lies inside its arena
//   footprint   what a Compute reads and writes is what its calls' slots say
//   memory      the arenas fit the VCU's budget (kResourceExhausted)
//   messages    the n-th send of a directed pair has the n-th receive, of the same tag and size
//   collectives the n-th of a group is the same operation on the same division on all members
//   deadlock    with unbuffered sends, every command comes to run
//   races       two commands that share a byte, one of them writing, are ordered by lanes and waits
//   defined     every byte that is read and does not outlive the step was written before, in order
//   reductions  each gradient byte with several holders is reduced exactly once, or once in each
//               round and then taken up, by the group of its holders, after its last addition and
//               before its first use; nobody reads what a reduction left to others, and each
//               element is some holder's
//   gathers     a parameter that a step changes is new, behind it, on all who hold it
//   offload     state that is brought to the device and changed there goes back once, after its
//               last change; a parameter that the host updates comes back after it
Status Verify(const Program& program, const ClusterSpec& cluster);

}  // namespace oc
