// Planning what lies outside of the VCUs' memory.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/config.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/partitioner/plan.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

// What of each VCU the options take out of its memory whatever is planned; empty for none, and for
// auto, which waits for a plan that does not fit. `update` says where it is done only where the
// options do. kInvalidArgument names the key that asks for what cannot be, or gains nothing.
StatusOr<std::vector<VcuOffload>> AskedOffload(const OffloadConfig& options,
                                               const ClusterSpec& cluster);

// Whether the options let the states of VCU `vcu` leave its memory, and where they would go.
StateHome StatesMayGoTo(const OffloadConfig& options, const VcuSpec& vcu);

// The forward nodes, by origin, whose outputs the options take out of a VCU's memory between
// forward and backward: of the modules named, or, for auto, from the earliest on (which are idle
// longest) as many as can go while the rest of the forward is computed, by measured costs. `graph`:
// in the VCU's compute type; `plan` has its stages. kInvalidArgument: no such module.
StatusOr<std::vector<int>> ActivationsOf(const OffloadConfig& options, const Graph& graph,
                                         const Plan& plan, int vcu, const ClusterSpec& cluster,
                                         const CostTable& costs);

// What of a plan with predictions lies outside of its VCUs' memory, a line a VCU, for people.
std::vector<std::string> OffloadLines(const Plan& plan);

// auto: takes out the states of the VCUs whose arenas in `program` exceed their budgets. False
// where nothing more can be taken out.
bool OffloadWhatIsTooLarge(const OffloadConfig& options, const ClusterSpec& cluster,
                           const Program& program, Plan& plan);

}  // namespace oc
