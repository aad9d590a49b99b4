// Makes a plan fit its VCUs' memory: by computing activations again, of which it takes the fastest
// choice (recompute_choices.h) whose lowered arenas fit, and by taking out what the options let go
// (offload.h). Internal to partitioner/.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "openclaw/partitioner/partition.h"
#include "openclaw/partitioner/program/stage_analysis.h"
#include "openclaw/partitioner/recompute_choices.h"

namespace oc {

class MemoryFit {
 public:
  // All must outlive it.
  MemoryFit(const Graph& graph, const Graph* update, const ClusterSpec& cluster,
            const CostTable& costs, const PartitionOptions& options)
      : graph_(graph), update_(update), cluster_(cluster), costs_(costs), options_(options) {}

  // The plan as the policy has it (PartitionOptions::recompute), lowered and simulated, with the
  // choice in Plan::recomputed. kResourceExhausted: no choice fits; names each VCU that is short,
  // what it needs and, where `thorough`, the smallest budget that can: every choice is then
  // lowered. kInvalidArgument: an unknown module.
  StatusOr<PlannedProgram> Fit(Plan plan, bool thorough = true);

  // `plain`, which computes nothing again, with as much computed again as saves memory. Budgets are
  // not looked at.
  StatusOr<PlannedProgram> Fullest(const PlannedProgram& plain);

  // Of the last plan that did not fit, by how many bytes the VCU that lacks most misses its limits
  // at its best.
  int64_t short_by() const { return short_by_; }

  // Lowered and simulated as it is; unless `keep_budgets`, budgets are not looked at.
  StatusOr<PlannedProgram> Lowered(Plan plan, bool keep_budgets = false) const;

 private:
  // What a VCU may take, and what it takes without computing anything again.
  struct Limit {
    int64_t memory = 0;
    int64_t activations = 0;  // of VcuProgram::activation_bytes
  };
  // Choices of a stage and which of them is looked at.
  struct StageChoices {
    int stage = 0;
    std::vector<RecomputeChoice> choices;
    size_t at = 0;
  };

  // With what the plan takes out of the VCUs' memory.
  StatusOr<PlannedProgram> FitRecomputing(Plan plan, bool thorough);
  // Takes out what the options name, whatever fits.
  Status TakeOut(Plan& plan) const;
  // `least`, unless null, takes what each VCU takes at its best, where no choice fits.
  StatusOr<PlannedProgram> Choose(const PlannedProgram& plain, const std::vector<Limit>& limits,
                                  bool activations, std::vector<Limit>* least);
  StatusOr<PlannedProgram> Loosened(PlannedProgram planned, std::vector<StageChoices> stages,
                                    const std::vector<Limit>& limits) const;
  StatusOr<PlannedProgram> ByTryingAll(const PlannedProgram& plain,
                                       const std::vector<Limit>& limits,
                                       std::vector<StageChoices> stages,
                                       std::vector<Limit>& least) const;
  StatusOr<std::vector<StageChoices>> ChoicesFor(const PlannedProgram& plain,
                                                 const std::vector<int>& stages, bool activations);
  StatusOr<PlannedProgram> With(const Plan& plan, const std::vector<StageChoices>& stages) const;
  StatusOr<std::vector<Limit>> LimitsFor(const Plan& plain) const;
  bool Fits(const Plan& plan, const std::vector<Limit>& limits) const;
  // Bytes by which the VCUs of a stage exceed their limits, the largest; negative: what is left.
  int64_t Excess(const Plan& plan, int stage, const std::vector<Limit>& limits) const;
  // Why nothing fits.
  Status TooSmall(const Plan& plain, const std::vector<Limit>& limits,
                  const std::vector<Limit>& least);

  const Graph& graph_;
  const Graph* update_;
  const ClusterSpec& cluster_;
  const CostTable& costs_;
  const PartitionOptions& options_;
  int64_t short_by_ = 0;
  // By first and last origin, kind, micro-batches in flight, whether activations alone count.
  std::map<std::tuple<int, int, std::string, int, bool>, std::vector<RecomputeChoice>> known_;
};

// So many bytes, rounded up, in the largest unit in which `like` is a whole number: "1.25GiB".
std::string BytesLike(int64_t bytes, int64_t like);

}  // namespace oc
