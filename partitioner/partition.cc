#include "openclaw/partitioner/partition.h"

#include <absl/strings/match.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "openclaw/core/clock.h"
#include "openclaw/graph/amp.h"
#include "openclaw/partitioner/memory_fit.h"
#include "openclaw/partitioner/plan_search.h"
#include "openclaw/partitioner/program/verify.h"
#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {
namespace {

// Micro-batches of a step, or an error that names the numbers.
StatusOr<int> MicroBatches(const PartitionOptions& o, int depth, int replicas) {
  if (o.global_batch.has_value()) {
    // Shares need not be equal, so that any number of micro-batches will do that gives each replica
    // one.
    const int64_t micro_batches = *o.global_batch / o.micro_batch;
    if (*o.global_batch % o.micro_batch != 0 || micro_batches < replicas) {
      return InvalidArgument("plan: a global batch of ", *o.global_batch,
                             " does not divide into micro-batches of ", o.micro_batch,
                             ", at least one for each of ", replicas, " replicas");
    }
    if (o.gradient_accumulation.has_value() &&
        *o.gradient_accumulation * replicas != micro_batches) {
      return InvalidArgument("plan: global_batch ", *o.global_batch, " is not micro_batch ",
                             o.micro_batch, " x gradient_accumulation ", *o.gradient_accumulation,
                             " x data_parallel ", replicas);
    }
    return static_cast<int>(micro_batches);
  }
  // A pipeline needs several micro-batches to fill: four a stage keep its bubble under a fifth.
  const int64_t accumulation = o.gradient_accumulation.value_or(depth > 1 ? 4 * depth : 1);
  return static_cast<int>(accumulation * replicas);
}

}  // namespace

StatusOr<std::vector<BatchShape>> BatchShapes(const PartitionOptions& o, int vcus) {
  if (o.micro_batch < 1)
    return InvalidArgument("plan: micro_batch ", o.micro_batch, " is not positive");
  std::vector<BatchShape> shapes;
  Status reason;
  for (int depth = 1; depth <= vcus; ++depth) {
    if (o.pipeline_depth.has_value() && depth != *o.pipeline_depth) continue;
    for (int replicas = 1; replicas * depth <= vcus; ++replicas) {
      if (o.data_parallel.has_value() ? replicas != *o.data_parallel : replicas != vcus / depth) {
        continue;
      }
      // Open numbers are to use every VCU.
      if (!o.pipeline_depth.has_value() && depth != vcus / replicas) continue;
      auto micro_batches = MicroBatches(o, depth, replicas);
      if (micro_batches.ok()) {
        shapes.push_back({depth, replicas, *micro_batches});
      } else {
        reason = micro_batches.status();
      }
    }
  }
  if (!shapes.empty()) return shapes;
  OC_RETURN_IF_ERROR(reason);
  return InvalidArgument(
      "plan: pipeline_depth ", o.pipeline_depth ? absl::StrCat(*o.pipeline_depth) : "auto",
      " x data_parallel ", o.data_parallel ? absl::StrCat(*o.data_parallel) : "auto",
      " does not fit ", vcus, " VCUs");
}

StatusOr<PlannedProgram> DynamicGraphPartitioner::Realize(Plan plan,
                                                          const PartitionOptions& options) const {
  OC_ASSIGN_OR_RETURN(PlannedProgram planned, Try(std::move(plan), options));
  OC_RETURN_IF_ERROR(Verify(planned.program, cluster_));
  return planned;
}

StatusOr<PlannedProgram> DynamicGraphPartitioner::Try(Plan plan,
                                                      const PartitionOptions& options) const {
  return MemoryFit(graph_, update_, cluster_, costs_, options)
      .Lowered(std::move(plan), options.lower.keep_budgets);
}

Status DynamicGraphPartitioner::ChooseUpdates(const PartitionOptions& options,
                                              PlannedProgram& planned) const {
  for (int v = 0; v < cluster_.size(); ++v) {
    if (planned.plan.offload_of(v).states != StateHome::kHost) continue;
    const std::string& name = cluster_.vcus[v].name;
    if (options.offload.update != "auto") continue;
    Plan other = planned.plan;
    other.offload[v].update_on_host = true;
    auto there = Try(std::move(other), options);
    if (!there.ok()) {  // such as an op that the host lacks
      if (!absl::IsFailedPrecondition(there.status()) && !absl::IsUnimplemented(there.status())) {
        return there.status();
      }
      planned.plan.advice.push_back(
          absl::StrCat(name, " updates its states itself: ", there.status().message()));
      continue;
    }
    const double here_ms = planned.plan.predicted_step_seconds * 1e3;
    const double there_ms = there->plan.predicted_step_seconds * 1e3;
    if (there_ms < here_ms) planned = *std::move(there);
    planned.plan.advice.push_back(absl::StrCat(
        name,
        there_ms < here_ms ? " is updated on its host" : " updates the states that its host keeps",
        ": the step takes ", std::min(here_ms, there_ms), " ms so, ", std::max(here_ms, there_ms),
        " ms ",
        there_ms < here_ms ? "with the states brought to it" : "with the update on the host"));
  }
  return OkStatus();
}

namespace {

// What of the parameters stays whole on every replica though it was to be divided.
std::vector<std::string> ShardAdvice(const Plan& plan, const Program& program) {
  std::vector<std::string> whole;
  for (const ProgramBucket& bucket : program.buckets) {
    const bool state = !bucket.sums.empty() && !absl::StartsWith(bucket.sums[0], "grad.");
    if (bucket.group == kNone || bucket.divided || state) continue;
    whole.insert(whole.end(), bucket.names.begin(), bucket.names.end());
  }
  if (plan.shard < 3 || whole.empty()) return {};
  return {absl::StrCat(whole.size(), whole.size() == 1 ? " parameter stays" : " parameters stay",
                       " whole on each replica (", whole[0], whole.size() > 1 ? ", ..." : "",
                       "): read on several stages, or as more than one cast of it")};
}

std::vector<std::string> Advice(const Graph& graph, const PlannedProgram& planned,
                                const PlanCandidate& candidate, const ClusterSpec& cluster) {
  const Plan& plan = planned.plan;
  std::set<int> used, placed;
  for (const StagePlan& s : plan.stages) used.insert(s.vcus.begin(), s.vcus.end());
  for (const std::vector<int>& stage : candidate.vcus) placed.insert(stage.begin(), stage.end());
  std::vector<std::string> outside, slow;
  for (int v = 0; v < cluster.size(); ++v) {
    if (used.count(v) == 0) (placed.count(v) == 0 ? outside : slow).push_back(cluster.vcus[v].name);
  }
  const auto who = [](const std::vector<std::string>& names) {
    return absl::StrCat(absl::StrJoin(names, ", "), names.size() == 1 ? " has" : " have",
                        " no part in it: ");
  };
  std::vector<std::string> advice = ShardAdvice(plan, planned.program);
  const std::optional<DType> half = HalfTypeOf(graph);
  for (int v = 0; half.has_value() && v < cluster.size(); ++v) {
    if (plan.compute_types[v] == *half || used.count(v) == 0) continue;
    advice.push_back(absl::StrCat(cluster.vcus[v].name, " computes in ",
                                  Name(plan.compute_types[v]), ": its device has no ",
                                  Name(*half)));
  }
  if (!outside.empty()) {
    advice.push_back(
        absl::StrCat(who(outside), candidate.vcus.size(), " stages x ", candidate.vcus[0].size(),
                     " replicas take ", placed.size(), " of ", cluster.size(),
                     " VCUs; choose pipeline_depth and data_parallel so that their product is ",
                     cluster.size()));
  }
  if (!slow.empty()) {
    advice.push_back(absl::StrCat(
        who(slow), "with a micro-batch there the step would take longer (", plan.micro_batches,
        " micro-batches a step; more of them, or smaller ones, may "
        "change that)"));
  }
  return advice;
}

// How many candidates of a shape and schedule are simulated, and how many neighbours of the best.
constexpr size_t kTried = 3;
constexpr int kClimbs = 64;
// A neighbour must be this much faster, and so must a higher shard: less is within what the costs
// are known to.
constexpr double kGain = 0.002;

// Cuts are looked for as if so much of the activations had to be kept: where some may be computed
// again, stages may be cut that would not fit otherwise. None: as if memory had no end.
std::vector<std::optional<double>> StashShares(const PartitionOptions& options) {
  if (options.recompute.policy == "none") return {1.0, std::nullopt};
  return {1.0, 0.3, std::nullopt};
}

struct Best {
  PlanCandidate candidate;
  PlannedProgram planned;
  double rate = 0;  // samples a second (WorthOf)
};

// Samples a second that a plan is worth (PartitionOptions::cost_error).
StatusOr<double> WorthOf(const PlannedProgram& planned, const ClusterSpec& cluster,
                         const CostTable& costs, const PartitionOptions& options) {
  std::set<std::string> kinds;
  for (const VcuSpec& v : cluster.vcus) kinds.insert(v.kind);
  double seconds = planned.plan.predicted_step_seconds;
  if (kinds.size() > 1 && options.cost_error > 0) {
    SimulateOptions slower = options.simulate;
    slower.slow_factor = 1 + options.cost_error;
    for (const std::string& kind : kinds) {
      slower.slow_kind = kind;
      OC_ASSIGN_OR_RETURN(const Simulation s, Simulate(planned.program, cluster, costs, slower));
      seconds += s.step_seconds;
    }
    seconds /= 1 + static_cast<double>(kinds.size());
  }
  return static_cast<double>(planned.plan.micro_batch) * planned.plan.micro_batches / seconds;
}

}  // namespace

StatusOr<PlannedProgram> DynamicGraphPartitioner::Partition(const PartitionOptions& options) const {
  OC_ASSIGN_OR_RETURN(const std::vector<BatchShape> shapes, BatchShapes(options, cluster_.size()));
  OC_ASSIGN_OR_RETURN(const PlanSearch search,
                      PlanSearch::Create(graph_, update_, cluster_, costs_, options));
  MemoryFit fit(graph_, update_, cluster_, costs_, options);
  const double begin = NowSeconds();
  const auto late = [&] { return NowSeconds() - begin > options.search_seconds; };
  std::optional<Best> best;
  std::set<std::tuple<std::string, Placement, std::vector<int>, std::vector<std::vector<int>>, int,
                      bool>>
      seen;
  const auto try_candidate = [&](const PlanCandidate& candidate, double gain,
                                 bool thorough) -> Status {
    OC_ASSIGN_OR_RETURN(PlannedProgram planned, fit.Fit(search.ToPlan(candidate), thorough));
    OC_ASSIGN_OR_RETURN(const double rate, WorthOf(planned, cluster_, costs_, options));
    if (best.has_value()) {
      const int shards = candidate.shard - best->candidate.shard;
      gain = shards == 0 ? gain : shards > 0 ? kGain : -kGain;
    }
    if (!best.has_value() || rate > best->rate * (1 + gain)) {
      best = Best{candidate, std::move(planned), rate};
    }
    return OkStatus();
  };
  Status reason;
  int64_t short_by = INT64_MAX;  // of the plan that is nearest to fitting
  for (const BatchShape& shape : shapes) {
    for (const ScheduleEntry& schedule : Schedules()) {
      if (options.schedule != "auto" && options.schedule != schedule.name) continue;
      if (options.schedule == "auto" && shape.pipeline_depth == 1 && best.has_value()) continue;
      const BatchShape adjusted = search.Adjusted(shape);
      for (const std::optional<double>& share : StashShares(options)) {
        // The last looks at no budget: it is for what computes most again, and for the error.
        if (!share.has_value() && best.has_value()) continue;
        for (int shard : AllowedShards(options, shape.data_parallel)) {
          auto candidates = search.Candidates(adjusted, schedule.name, shard, share);
          if (!candidates.ok()) {
            // Another shape may fit the memory; other errors are the same for all.
            const bool memory = absl::IsResourceExhausted(candidates.status());
            if (!memory && shapes.size() == 1) return candidates.status();
            if (short_by == INT64_MAX) reason = candidates.status();
            continue;
          }
          size_t tried = 0;
          for (const PlanCandidate& candidate : *candidates) {
            if (tried == kTried || (best.has_value() && late())) break;
            if (!seen.insert({schedule.name, candidate.vcus, candidate.begins, candidate.shares,
                              shard, share.has_value()})
                     .second) {
              continue;
            }
            const Status status = try_candidate(candidate, 0, !share.has_value());
            // One whose memory is short, or whose cut is none, says nothing about the next.
            if (!absl::IsResourceExhausted(status)) {
              ++tried;
              // What a shard lacks is no reason where others were looked at.
              const bool counts = options.shard.has_value() || reason.ok();
              if (!status.ok() && short_by == INT64_MAX && counts) reason = status;
            } else if (share.has_value()) {
              if (short_by == INT64_MAX) reason = status;
            } else {
              if (fit.short_by() < short_by) reason = status;  // the one that is nearest
              short_by = std::min(short_by, fit.short_by());
              break;
            }
          }
        }
      }
    }
  }
  if (!best.has_value()) {
    if (options.schedule != "auto") OC_RETURN_IF_ERROR(FindSchedule(options.schedule).status());
    return reason;
  }
  // A plan that takes unlike VCUs to be alike must not learn better from the simulator.
  const int climbs = options.balance == Balance::kEven ? 0 : kClimbs;
  for (int tried = 0; tried < climbs && !late();) {
    const double rate = best->rate;
    for (const PlanCandidate& neighbour : search.Neighbours(best->candidate)) {
      if (tried++ == climbs || late()) break;
      // One that does not fit, or that its schedule cannot run, is passed by.
      try_candidate(neighbour, kGain, /*thorough=*/false).IgnoreError();
      if (best->rate > rate) break;
    }
    if (best->rate == rate) break;
  }
  OC_RETURN_IF_ERROR(ChooseUpdates(options, best->planned));
  OC_RETURN_IF_ERROR(Verify(best->planned.program, cluster_));
  for (std::string& line : Advice(graph_, best->planned, best->candidate, cluster_)) {
    best->planned.plan.advice.push_back(std::move(line));
  }
  return std::move(best->planned);
}

}  // namespace oc
