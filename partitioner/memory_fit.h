// Makes a plan fit its VCUs' memory: by computing activations again, by letting them wait with the
// host, and by taking optimizer states out, as far as the options let it; of what fits it takes the
// fastest.
//
// The search is over, for each stage that is short, sets of activations that wait with the host
// (offload.h, AwayLevels) and, for each set, what is computed again of the rest
// (recompute_choices.h): the fastest of it whose lowered arenas fit. From the best of these it goes
// on by sets that differ by one node, as long as the simulator says that a step gets faster.
// Bounds: 16 sets and kChanges of the changes a plan, and none once PartitionOptions::
// search_seconds are over and something fits. Internal to partitioner/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "openclaw/core/clock.h"
#include "openclaw/partitioner/offload.h"
#include "openclaw/partitioner/partition.h"
#include "openclaw/partitioner/program/stage_analysis.h"
#include "openclaw/partitioner/recompute_choices.h"

namespace oc {

class MemoryFit {
 public:
  // All must outlive it.
  MemoryFit(const Graph& graph, const Graph* update, const ClusterSpec& cluster,
            const CostTable& costs, const PartitionOptions& options)
      : graph_(graph),
        update_(update),
        cluster_(cluster),
        costs_(costs),
        options_(options),
        deadline_(NowSeconds() + options.search_seconds) {}

  // The plan as the options have it, lowered and simulated, with the choices in Plan::recomputed
  // and Plan::offload. kResourceExhausted: no choice fits; names each VCU that is short, what it
  // needs and, where `thorough`, the smallest budget that can: every choice is then lowered.
  // kInvalidArgument: an unknown module.
  StatusOr<PlannedProgram> Fit(Plan plan, bool thorough = true);

  // `plain`, which computes nothing again, with as much computed again as saves memory. Budgets are
  // not looked at.
  StatusOr<PlannedProgram> Fullest(const PlannedProgram& plain);

  // Of the last plan that did not fit, by how many bytes the VCU that lacks most misses its limits
  // at its best.
  int64_t short_by() const { return short_by_; }

  // Whether a plan with predictions keeps to the VCUs' memory and the activations' budget.
  StatusOr<bool> Fits(const Plan& planned) const;

  // Lowered and simulated as it is; unless `keep_budgets`, budgets are not looked at.
  StatusOr<PlannedProgram> Lowered(Plan plan, bool keep_budgets = false) const;

 private:
  // What a VCU may take.
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
  // What of a stage's activations may wait with the host.
  struct WaysOut {
    std::vector<AwayItem> items;
    std::vector<std::vector<int>> levels = {{}};
  };
  // A set of origins for each of some stages.
  using Aways = std::vector<std::vector<int>>;
  // What is looked for, over some stages of a plan that takes nothing of what is open.
  struct Search {
    const PlannedProgram& plain;
    const std::vector<Limit>& limits;
    bool activations = false;  // their budget is what is short
    std::vector<int> stages;
    std::vector<WaysOut> ways;  // of each
    Aways aways;                // of the best so far
    std::optional<PlannedProgram> best;
  };

  // With what the plan takes out of the VCUs' memory.
  StatusOr<PlannedProgram> FitActivations(Plan plan, bool thorough);
  // Takes out what the options name, whatever fits.
  Status TakeOut(Plan& plan) const;
  // `least`, unless null, takes what each VCU takes at its best, where no choice fits.
  StatusOr<PlannedProgram> Choose(const PlannedProgram& plain, const std::vector<Limit>& limits,
                                  bool activations, std::vector<Limit>* least);
  StatusOr<WaysOut> WaysOutOf(const Plan& plan, int stage) const;
  // Takes the fastest choices with these sets that fit, if they are faster than the best so far.
  Status TryAways(Search& search, const Aways& aways);
  Status ChangeAways(Search& search);
  StatusOr<PlannedProgram> Within(const PlannedProgram& plain, const std::vector<Limit>& limits,
                                  std::vector<StageChoices> stages) const;
  StatusOr<PlannedProgram> Loosened(PlannedProgram planned, std::vector<StageChoices> stages,
                                    const std::vector<Limit>& limits) const;
  StatusOr<PlannedProgram> ByTryingAll(Search& search, std::vector<Limit>& least);
  // What the policy lets a stage compute again, the fastest first.
  StatusOr<std::vector<RecomputeChoice>> ChoicesOf(const PlannedProgram& plain, int stage,
                                                   bool activations, const std::vector<int>& away);
  // Whatever the policy is.
  StatusOr<std::vector<RecomputeChoice>> AllChoicesOf(const PlannedProgram& plain, int stage,
                                                      bool activations,
                                                      const std::vector<int>& away);
  // The forward nodes that the policies marked and modules repeat.
  StatusOr<std::vector<bool>> AskedNodes() const;
  StatusOr<PlannedProgram> With(const Plan& plan, const std::vector<StageChoices>& stages) const;
  StatusOr<std::vector<Limit>> LimitsFor(const Plan& plain) const;
  bool FitsIn(const Plan& plan, const std::vector<Limit>& limits) const;
  // Bytes by which the VCUs of a stage exceed their limits, the largest; negative: what is left.
  int64_t Excess(const Plan& plan, int stage, const std::vector<Limit>& limits) const;
  // Why nothing fits.
  Status TooSmall(const Plan& plain, const std::vector<Limit>& limits,
                  const std::vector<Limit>& least);
  bool late() const { return NowSeconds() > deadline_; }

  const Graph& graph_;
  const Graph* update_;
  const ClusterSpec& cluster_;
  const CostTable& costs_;
  const PartitionOptions& options_;
  double deadline_;
  int64_t short_by_ = 0;
  // By first and last origin, kind, micro-batches in flight, whether activations alone count, what
  // is away.
  std::map<std::tuple<int, int, std::string, int, bool, std::vector<int>>,
           std::vector<RecomputeChoice>>
      known_;
};

// So many bytes, rounded up, in the largest unit in which `like` is a whole number: "1.25GiB".
std::string BytesLike(int64_t bytes, int64_t like);

}  // namespace oc
