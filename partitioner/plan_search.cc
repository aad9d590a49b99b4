#include "openclaw/partitioner/plan_search.h"

#include <absl/strings/match.h>

#include <algorithm>

#include "openclaw/graph/scopes.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/offload.h"
#include "openclaw/partitioner/shares.h"

namespace oc {
namespace {

constexpr double kShareLoss = 0.05;
constexpr int kMostPerReplica = 16;

// The least that a replica holds of parameters, gradients and optimizer state together: a quarter
// of them parameters, a quarter gradients, as Adam has them. Lowering counts what it is.
double StateShare(int shard, int replicas) {
  const double divided = shard == 0 ? 0 : shard == 1 ? 0.5 : shard == 2 ? 0.75 : 1;
  return 1 - divided + divided / replicas;
}

}  // namespace

std::vector<int> AllowedShards(const PartitionOptions& options, int replicas) {
  if (options.shard.has_value()) return {*options.shard};
  if (replicas <= 1) return {0};
  return {0, 1, 2, 3};
}

StatusOr<PlanSearch> PlanSearch::Create(const Graph& graph, const Graph* update,
                                        const ClusterSpec& cluster, const CostTable& costs,
                                        const PartitionOptions& options) {
  PlanSearch search(graph, cluster, options);
  TypedGraphs typed(graph);
  for (const VcuSpec& v : cluster.vcus) {
    if (search.costs_.count(v.kind) != 0) continue;
    OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graph, v));
    OC_ASSIGN_OR_RETURN(const Graph* own, typed.In(dtype));
    OC_ASSIGN_OR_RETURN(
        StageCosts c, StageCosts::Create(*own, update, v.kind, costs,
                                         StatesMayGoTo(options.offload, v) != StateHome::kDevice));
    search.costs_.emplace(v.kind, std::move(c));
  }
  search.alike_ = options.balance == Balance::kEven || search.costs_.size() == 1;
  if (options.balance == Balance::kEven) {
    std::vector<const StageCosts*> all;
    for (const VcuSpec& v : cluster.vcus) all.push_back(&search.costs_.at(v.kind));
    const StageCosts mean = StageCosts::Mean(all);
    for (auto& [kind, c] : search.costs_) c = mean;
  }
  OC_RETURN_IF_ERROR(search.CutAfterModules());
  return search;
}

Status PlanSearch::CutAfterModules() {
  const std::vector<int>& origins = costs_.begin()->second.origins();
  int before = kNone;
  for (const std::string& module : options_.stages) {
    int last = kNone;
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) continue;
      if (node.scope == module || absl::StartsWith(node.scope, module + ".")) {
        last = std::max(last, node.origin);
      }
    }
    if (last == kNone) return NoSuchModule(graph_, "parallel.stages", module);
    if (last <= before) {
      return InvalidArgument("parallel.stages: '", module, "' does not come after the one before");
    }
    before = last;
    const auto next = std::upper_bound(origins.begin(), origins.end(), last);
    if (next == origins.end()) {
      return InvalidArgument("parallel.stages: nothing comes after '", module, "'");
    }
    fixed_cuts_.push_back(static_cast<int>(next - origins.begin()));
  }
  return OkStatus();
}

BatchShape PlanSearch::Adjusted(const BatchShape& shape) const {
  if (alike_ || shape.data_parallel == 1 || options_.global_batch.has_value() ||
      options_.gradient_accumulation.has_value()) {
    return shape;
  }
  const Placement placement = Placements(cluster_, shape.pipeline_depth, shape.data_parallel)[0];
  std::vector<double> seconds;
  for (int r = 0; r < shape.data_parallel; ++r) {
    double rate = 0;
    for (const std::vector<int>& stage : placement) {
      rate += 1 / std::max(CostsOf(stage[r]).Seconds(0, units()), 1e-12);
    }
    seconds.push_back(1 / rate);
  }
  BatchShape adjusted = shape;
  adjusted.micro_batches =
      std::max(shape.micro_batches,
               MicroBatchesFor(seconds, kShareLoss, kMostPerReplica * shape.data_parallel));
  return adjusted;
}

std::vector<int> PlanSearch::SharesFor(const std::vector<double>& seconds, int micro_batches,
                                       int least) const {
  return alike_ ? EvenShares(static_cast<int>(seconds.size()), micro_batches)
                : FastestShares(seconds, micro_batches, least);
}

StatusOr<PlanCandidate> PlanSearch::CandidateOf(const BatchShape& shape,
                                                const std::string& schedule,
                                                const Placement& placement, int shard,
                                                std::optional<double> stash_share) const {
  const int depth = shape.pipeline_depth, replicas = shape.data_parallel;
  StageSplitOptions split{.state_share = StateShare(shard, replicas),
                          .stash_share = stash_share.value_or(0),
                          .micro_batches = shape.micro_batches,
                          .least_share = std::min(least_share(), shape.micro_batches / replicas)};
  for (int s = 0; s < depth; ++s) {
    std::vector<const StageCosts*> costs;
    std::vector<double> seconds;
    int64_t memory = INT64_MAX;
    for (int v : placement[s]) {
      costs.push_back(&CostsOf(v));
      seconds.push_back(costs.back()->Seconds(0, units()));
      if (stash_share.has_value()) memory = std::min(memory, cluster_.vcus[v].memory_bytes);
    }
    // The largest share, before the cut is known.
    const std::vector<int> shares = SharesFor(seconds, shape.micro_batches, split.least_share);
    const int per_replica = *std::max_element(shares.begin(), shares.end());
    split.costs.push_back(std::move(costs));
    split.memory_bytes.push_back(memory);
    split.in_flight.push_back(schedule == "gpipe" ? per_replica : std::min(per_replica, depth - s));
    if (s + 1 == depth) continue;
    const LinkCurve& link = cluster_.link(placement[s][0], placement[s + 1][0]);
    constexpr int64_t kLarge = int64_t{4} << 20;
    split.latency_seconds.push_back(link.Seconds(0));
    split.seconds_per_byte.push_back((link.Seconds(kLarge) - link.Seconds(0)) / kLarge);
  }
  PlanCandidate candidate{.schedule = schedule, .vcus = placement, .shard = shard};
  if (options_.stages.empty()) {
    OC_ASSIGN_OR_RETURN(StageSplit found, SplitStages(split));
    candidate.begins = std::move(found.begins);
  } else {
    if (static_cast<int>(fixed_cuts_.size()) != depth - 1) {
      return InvalidArgument("parallel.stages cuts into ", fixed_cuts_.size() + 1,
                             " stages, pipeline_depth is ", depth);
    }
    candidate.begins = {0};
    candidate.begins.insert(candidate.begins.end(), fixed_cuts_.begin(), fixed_cuts_.end());
  }
  double sum = 0, slowest = 0;
  for (int s = 0; s < depth; ++s) {
    const int end = s + 1 < depth ? candidate.begins[s + 1] : units();
    const std::vector<double> seconds = ReplicaSeconds(split, s, candidate.begins[s], end);
    candidate.shares.push_back(SharesFor(seconds, shape.micro_batches, split.least_share));
    const double stage = StageSeconds(split, s, candidate.begins[s], end);
    sum += stage;
    slowest = std::max(slowest, stage);
  }
  // The pipeline fills and drains once, its slowest stage takes every micro-batch.
  candidate.estimate = sum + slowest * (shape.micro_batches - 1);
  return candidate;
}

StatusOr<std::vector<PlanCandidate>> PlanSearch::Candidates(
    const BatchShape& shape, const std::string& schedule, int shard,
    std::optional<double> stash_share) const {
  std::vector<Placement> placements =
      Placements(cluster_, shape.pipeline_depth, shape.data_parallel);
  if (options_.balance == Balance::kEven) placements.resize(1);
  std::vector<PlanCandidate> candidates;
  Status reason;
  for (const Placement& placement : placements) {
    auto candidate = CandidateOf(shape, schedule, placement, shard, stash_share);
    if (candidate.ok()) {
      candidates.push_back(std::move(candidate).value());
    } else if (!absl::IsResourceExhausted(candidate.status())) {
      return candidate.status();
    } else {
      reason = candidate.status();
    }
  }
  if (candidates.empty()) return reason;
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const PlanCandidate& a, const PlanCandidate& b) { return a.estimate < b.estimate; });
  return candidates;
}

std::vector<PlanCandidate> PlanSearch::Neighbours(const PlanCandidate& candidate) const {
  std::vector<PlanCandidate> result;
  const int depth = static_cast<int>(candidate.begins.size());
  if (options_.stages.empty()) {
    const StageCosts& any = costs_.begin()->second;
    std::vector<int> places;  // where a stage may begin, ascending
    for (int at = 1; at < any.units(); ++at) {
      if (any.MayCut(at)) places.push_back(at);
    }
    for (int s = 1; s < depth; ++s) {
      const int at = static_cast<int>(
          std::lower_bound(places.begin(), places.end(), candidate.begins[s]) - places.begin());
      const int end = s + 1 < depth ? candidate.begins[s + 1] : any.units();
      for (int step : {-1, 1, -2, 2, -4, 4}) {
        const int to = at + step;
        if (to < 0 || to >= static_cast<int>(places.size())) continue;
        if (places[to] <= candidate.begins[s - 1] || places[to] >= end) continue;
        result.push_back(candidate);
        result.back().begins[s] = places[to];
      }
    }
  }
  for (int shard : AllowedShards(options_, static_cast<int>(candidate.vcus[0].size()))) {
    if (std::abs(shard - candidate.shard) != 1) continue;
    result.push_back(candidate);
    result.back().shard = shard;
  }
  if (alike_) return result;
  for (int s = 0; s < depth; ++s) {
    const int replicas = static_cast<int>(candidate.shares[s].size());
    for (int from = 0; from < replicas; ++from) {
      if (candidate.shares[s][from] <= least_share()) continue;
      for (int to = 0; to < replicas; ++to) {
        if (to == from) continue;
        result.push_back(candidate);
        --result.back().shares[s][from];
        ++result.back().shares[s][to];
      }
    }
  }
  if (depth > 1 && candidate.vcus[0].size() > 1) {
    result.push_back(candidate);
    result.back().alternating = !candidate.alternating;
  }
  return result;
}

std::vector<double> PlanSearch::StageSecondsOf(const PlanCandidate& candidate, int s) const {
  const int end =
      s + 1 < static_cast<int>(candidate.begins.size()) ? candidate.begins[s + 1] : units();
  std::vector<double> seconds;
  for (int v : candidate.vcus[s]) {
    seconds.push_back(CostsOf(v).Seconds(candidate.begins[s], end));
  }
  return seconds;
}

std::vector<double> PlanSearch::ShardWeights() const {
  std::vector<double> weights;
  if (options_.shard_by == ShardBy::kEqual) return weights;
  for (int v = 0; v < cluster_.size(); ++v) {
    weights.push_back(options_.shard_by == ShardBy::kMemory
                          ? static_cast<double>(cluster_.vcus[v].memory_bytes)
                          : 1 / std::max(1e-9, CostsOf(v).Seconds(0, units())));
  }
  return weights;
}

Plan PlanSearch::ToPlan(const PlanCandidate& candidate) const {
  const std::vector<int>& origins = costs_.begin()->second.origins();
  Plan plan;
  plan.micro_batch = options_.micro_batch;
  plan.schedule = candidate.schedule;
  plan.graph_fingerprint = GraphFingerprint(graph_);
  plan.shard = candidate.shard;
  plan.shard_weights = ShardWeights();
  const int depth = static_cast<int>(candidate.begins.size());
  for (int s = 0, first = 0; s < depth; ++s) {
    const std::vector<int>& shares = candidate.shares[s];
    StagePlan stage{.first_origin = first};
    stage.last_origin = s + 1 < depth ? origins[candidate.begins[s + 1]] - 1 : origins.back();
    stage.owner = candidate.alternating
                      ? AlternatingOwners(candidate.vcus[s], shares, StageSecondsOf(candidate, s))
                      : ConsecutiveOwners(candidate.vcus[s], shares);
    // Who takes no micro-batch need not hold the weights.
    for (size_t r = 0; r < shares.size(); ++r) {
      if (shares[r] > 0) stage.vcus.push_back(candidate.vcus[s][r]);
    }
    first = stage.last_origin + 1;
    plan.micro_batches = static_cast<int>(stage.owner.size());
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace oc
