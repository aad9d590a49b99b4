// Lowering: a bound graph and a plan become a Program. Memory is planned here, byte by byte, and
// every wait is derived from the ranges, so that a Program is free of races by construction;
// verify.h checks it without knowing how it was made.
//
//   OC_ASSIGN_OR_RETURN(Program program, Lower({joint, &update, plan, cluster, costs}, options));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/partitioner/plan.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

struct LowerInput {
  const Graph& graph;             // bound: joint (training) or forward (inference)
  const Graph* update = nullptr;  // training: what is done once a step
  const Plan& plan;
  const ClusterSpec& cluster;
  const CostTable& costs;  // workspaces, opaque sizes, which variants exist
};

struct LowerOptions {
  // Outputs of the graph that are taken by a snapshot, for each micro-batch.
  std::vector<std::string> fetch;
  // Forward-only Programs share the state arena of a training Program: entries are placed as there.
  const Program* state_of = nullptr;
  // Scratch of a collective of so many bytes over so many members with such pieces (Command).
  std::function<int64_t(int members, int64_t bytes, DType dtype,
                        const std::vector<int64_t>& pieces)>
      scratch_bytes = [](int members, int64_t bytes, DType, const std::vector<int64_t>&) {
        return members > 1 ? bytes : int64_t{0};
      };
  // Gradients are reduced in buckets of at most this (buckets.h).
  int64_t bucket_bytes = int64_t{32} << 20;
  // false: gradients that are reduced once a step are so behind all work, not beside the last
  // backward: to see what that gains.
  bool overlap_reductions = true;
  // false: arenas larger than a VCU's budget are no error.
  bool keep_budgets = true;
  // States that lie outside of a VCU's memory are updated in pieces of at most this; a larger
  // parameter's alone.
  int64_t offload_bucket_bytes = int64_t{32} << 20;
  int64_t epoch = 0;
};

// kInvalidArgument: the plan does not fit the graph. kResourceExhausted: a VCU's memory budget does
// not hold its arenas (says by how much). kFailedPrecondition: a cost is missing (named).
StatusOr<Program> Lower(const LowerInput& input, const LowerOptions& options = {});

}  // namespace oc
