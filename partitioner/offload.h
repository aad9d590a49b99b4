// Planning what lies outside of the VCUs' memory.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/config.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/partitioner/plan.h"
#include "openclaw/partitioner/program/program.h"
#include "openclaw/partitioner/program/stage_analysis.h"

namespace oc {

// What of each VCU the options take out of its memory whatever is planned; empty for none, and for
// auto, which waits for a plan that does not fit. `update` says where it is done only where the
// options do. kInvalidArgument names the key that asks for what cannot be, or gains nothing.
StatusOr<std::vector<VcuOffload>> AskedOffload(const OffloadConfig& options,
                                               const ClusterSpec& cluster);

// Whether the options let the states of VCU `vcu` leave its memory, and where they would go.
StateHome StatesMayGoTo(const OffloadConfig& options, const VcuSpec& vcu);

// Whether the options leave it to a plan which activations wait outside of the VCUs' memory.
bool ActivationsAreOpen(const OffloadConfig& options);

// The forward nodes of the modules that the options name, by origin, whose outputs wait outside of
// a VCU's memory between forward and backward. kInvalidArgument: no such module.
StatusOr<std::vector<int>> AskedActivations(const OffloadConfig& options, const Graph& graph);

// What a stage's saved values of one origin (saved_values.h) take.
struct AwayItem {
  int origin = 0;
  int64_t bytes = 0;
  double copy_seconds = 0;   // out and back, a micro-batch
  double again_seconds = 0;  // to compute them again instead, by themselves
  int last_forward = 0;      // SavedValue::last_forward, of the first
};
// By last_forward: the first are idle longest. `graph`: in the VCU's compute type.
// kFailedPrecondition: a cost is missing.
StatusOr<std::vector<AwayItem>> AwayItems(const Graph& graph, const StageAnalysis& analysis,
                                          int stage, const VcuSpec& vcu, const CostTable& costs);

// Sets of origins to begin a search with, each ascending; the first is empty. By growing bytes,
// those whose copies save most time of computing again for each second of the link, and those that
// are idle longest.
std::vector<std::vector<int>> AwayLevels(const std::vector<AwayItem>& items);

// What of a plan with predictions lies outside of its VCUs' memory, a line a VCU, for people.
std::vector<std::string> OffloadLines(const Plan& plan);

// auto: takes out the states of the VCUs whose arenas in `program` exceed their budgets. False
// where nothing more can be taken out.
bool OffloadWhatIsTooLarge(const OffloadConfig& options, const ClusterSpec& cluster,
                           const Program& program, Plan& plan);

}  // namespace oc
