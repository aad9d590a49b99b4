// ElasticPipeline: which level of mixed precision a run takes, and what others would take.
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "openclaw/runtime/pipeline.h"
#include "openclaw/runtime/precision.h"
#include "openclaw/runtime/profiler.h"

namespace oc {

Status ElasticPipeline::ChooseLevel(const Graph& model) {
  if (!options_.plan_json.empty()) {  // the level that the plan was made at
    OC_ASSIGN_OR_RETURN(const Plan plan, Plan::FromJson(options_.plan_json));
    for (AmpLevel level : OpenLevels()) {
      options_.amp_level = level;
      OC_ASSIGN_OR_RETURN(const TrainingGraphs graphs,
                          BuildTrainingGraphs(model, optimizer_,
                                              TrainingGraphOptionsOf(options_, cluster_.spec())));
      if (GraphFingerprint(graphs.joint) == plan.graph_fingerprint) break;
    }
    return PlanAndProfile(model);
  }
  std::optional<AmpLevel> best;
  std::string plan;
  double rate = 0;
  Status reason;
  std::vector<std::string> tried;
  for (AmpLevel level : OpenLevels()) {
    options_.amp_level = level;
    const Status planned = PlanAndProfile(model);
    if (absl::IsAborted(planned) || absl::IsDeadlineExceeded(planned)) return planned;
    if (!planned.ok()) {  // the same on every process: no VCU has the type, or memory is short
      if (reason.ok()) reason = planned;
      const bool memory = absl::IsResourceExhausted(planned);
      tried.push_back(absl::StrCat(Name(level), memory ? " does not fit" : " cannot be"));
      continue;
    }
    const double own = SamplesPerSecond(planned_.plan);
    tried.push_back(
        absl::StrFormat("%s %.3f ms", Name(level), planned_.plan.predicted_step_seconds * 1e3));
    if (best.has_value() && !IsFasterLevel(own, rate)) continue;
    best = level;
    rate = own;
    plan = planned_.plan.ToJson();
  }
  if (!best.has_value()) return reason;
  options_.amp_level = best;
  options_.plan_json = std::move(plan);
  const Status planned = PlanAndProfile(model);
  options_.plan_json.clear();
  OC_RETURN_IF_ERROR(planned);
  planned_.plan.advice.push_back(
      absl::StrCat("precision.amp_level auto is ", Name(*best),
                   ", the fastest that fits (a step: ", absl::StrJoin(tried, ", "), ")"));
  return OkStatus();
}

StatusOr<std::vector<PlanAlternative>> ElasticPipeline::CompareLevels() {
  std::vector<PlanAlternative> rows;
  for (AmpLevel level : ComparedLevels()) {
    if (level == amp_level()) {
      rows.push_back(AlternativeOf("amp_level", absl::StrCat("amp_level ", Name(level)), plan(),
                                   cluster_.spec()));
      rows.back().chosen = true;
      continue;
    }
    PipelineOptions options = options_;
    options.amp_level = level;
    const auto graphs =
        BuildTrainingGraphs(model_, optimizer_, TrainingGraphOptionsOf(options, cluster_.spec()));
    if (!graphs.ok() || !CheckComputeTypes(graphs->joint, cluster_.spec()).ok()) continue;
    OC_RETURN_IF_ERROR(
        ProfileGraphs(cluster_, graphs->joint, &graphs->update, costs_, PlanningCosts()));
    if (cluster_.job().rank() != 0) continue;
    OC_ASSIGN_OR_RETURN(PlanAlternative row, LevelRow(level, *graphs, cluster_.spec(), costs_,
                                                      PartitionOptionsOf(options_)));
    rows.push_back(std::move(row));
  }
  Explain("precision.amp_level", level_is_open_, rows);
  return rows;
}

}  // namespace oc
