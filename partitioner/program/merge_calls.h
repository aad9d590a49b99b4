// Multi-tensor updates: one call of an op that takes lists of tensors instead of one a tensor.
// Internal to partitioner/program.
#pragma once

#include <functional>
#include <vector>

#include "openclaw/partitioner/program/program.h"

namespace oc {

// A call that has no workspace slot yet.
struct SizedCall {
  Call call;
  int64_t workspace_bytes = 0;
};

// Joins calls of one op with equal attributes, dtypes, shared inputs and sums, where `takes_lists`
// holds of the first; the tensors keep their order. A call goes back to an earlier one only past
// what neither reads nor writes what it writes, and writes nothing that it reads: the results are
// those of the calls in their order. The workspace of a list is at most the sum of its tensors'
// own.
std::vector<SizedCall> MergeCalls(std::vector<SizedCall> calls,
                                  const std::function<bool(const Call&)>& takes_lists);

}  // namespace oc
