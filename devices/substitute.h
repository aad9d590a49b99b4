// What stands in for an op that a device has no kernel for: first its decomposition, where the
// device has all the simpler ops; else the op runs on another slice, the host's, and its operands
// are copied there and back. PreparedOp::substitute says which, costs are measured with it, and so
// plans account for it and list it.
#pragma once

#include <functional>
#include <memory>

#include "openclaw/devices/device.h"

namespace oc {

// The slice that ops without a decomposition run on: one whose memory the host can touch. Asked for
// when it is first needed, from any thread; must outlive the slices that use it.
using SubstituteHost = std::function<StatusOr<Slice*>()>;

struct SubstituteOptions {
  double timeout_seconds = 60;  // of each copy of an op on the host
  // An op of which the device does not say that it repeats its results bit by bit
  // (PreparedOp::deterministic) counts as one that the device lacks.
  bool deterministic = false;
};

// `slice` with the ops that it lacks. Everything else is passed through, errors included: an op
// that cannot be made up for is the error of `slice`, and why the others cannot. A host of null:
// only decompositions. Variants that add to their outputs (OpRequest::accumulate) are not made up
// for: lowering adds by an op of its own. An op on the host blocks the queue's thread.
std::unique_ptr<Slice> WithSubstitutes(std::unique_ptr<Slice> slice, SubstituteHost host,
                                       const SubstituteOptions& options = {});

}  // namespace oc
