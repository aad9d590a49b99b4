// Predicts a step from the costs of single ops and the link curves: what each VCU does when.
//
//   OC_ASSIGN_OR_RETURN(Simulation s, Simulate(program, cluster, costs));
//   s.vcus[0].step_seconds, s.vcus[0].bubble_fraction
#pragma once

#include "openclaw/core/cluster.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/partitioner/plan.h"
#include "openclaw/partitioner/program/walk.h"

namespace oc {

struct SimulateOptions {
  double call_overhead_seconds = 0.15e-6;  // of each op of a segment, beside its own cost
  double command_overhead_seconds = 4e-6;  // hand-over between lanes
  double host_bytes_per_second = 8e9;      // feeds and snapshots
  // What the computations on one kind of VCU take longer than their costs say: a factor.
  std::string slow_kind;
  double slow_factor = 1;
};

struct SimulatedVcu {
  double step_seconds = 0;  // from its first command's start to its last one's end
  double compute_seconds = 0;
  double bubble_fraction = 0;  // 1 - compute / step
};

struct Simulation {
  double step_seconds = 0;  // of the slowest VCU, from the common start
  std::vector<SimulatedVcu> vcus;
  Walk walk;  // when each command runs
};

// kFailedPrecondition: a cost is missing; kInvalidArgument: the Program cannot run to its end.
StatusOr<Simulation> Simulate(const Program& program, const ClusterSpec& cluster,
                              const CostTable& costs, const SimulateOptions& options = {});

// Puts the prediction into the plan, and what stands in for ops that devices lack.
void Predict(const Simulation& simulation, const Program& program, const ClusterSpec& cluster,
             const CostTable& costs, Plan& plan);

}  // namespace oc
