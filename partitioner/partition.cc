#include "openclaw/partitioner/partition.h"

#include <absl/strings/match.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/core/nearest_name.h"
#include "openclaw/partitioner/program/verify.h"
#include "openclaw/partitioner/schedules/schedule.h"
#include "openclaw/partitioner/stage_split.h"

namespace oc {
namespace {

// Micro-batches of a step, or an error that names the numbers.
StatusOr<int> MicroBatches(const PartitionOptions& o, int depth, int replicas) {
  if (o.global_batch.has_value()) {
    const int64_t per_round = o.micro_batch * replicas;
    if (*o.global_batch % per_round != 0) {
      return InvalidArgument("plan: a global batch of ", *o.global_batch,
                             " does not divide into micro-batches of ", o.micro_batch, " over ",
                             replicas, " replicas (micro_batch x data_parallel = ", per_round, ")");
    }
    const int64_t accumulation = *o.global_batch / per_round;
    if (o.gradient_accumulation.has_value() && *o.gradient_accumulation != accumulation) {
      return InvalidArgument("plan: global_batch ", *o.global_batch, " is not micro_batch ",
                             o.micro_batch, " x gradient_accumulation ", *o.gradient_accumulation,
                             " x data_parallel ", replicas);
    }
    return static_cast<int>(accumulation * replicas);
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

StatusOr<std::vector<int>> DynamicGraphPartitioner::CutAfterModules(
    const std::vector<std::string>& modules) const {
  std::set<std::string> scopes;
  std::vector<int> cuts;
  for (const std::string& module : modules) {
    int last = kNone;
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward) continue;
      scopes.insert(node.scope);
      if (node.scope == module || absl::StartsWith(node.scope, module + ".")) {
        last = std::max(last, node.origin);
      }
    }
    if (last == kNone) {
      const std::string nearest = NearestName(module, {scopes.begin(), scopes.end()});
      return InvalidArgument("parallel.stages: no module '", module, "'",
                             nearest.empty() ? "" : absl::StrCat("; nearest: '", nearest, "'"));
    }
    if (!cuts.empty() && last <= cuts.back()) {
      return InvalidArgument("parallel.stages: '", module, "' does not come after the one before");
    }
    cuts.push_back(last);
  }
  return cuts;
}

StatusOr<Plan> DynamicGraphPartitioner::MakePlan(const BatchShape& shape,
                                                 const std::string& schedule,
                                                 const PartitionOptions& options) const {
  const int depth = shape.pipeline_depth;
  Plan plan;
  plan.micro_batch = options.micro_batch;
  plan.micro_batches = shape.micro_batches;
  plan.schedule = schedule;
  plan.graph_fingerprint = GraphFingerprint(graph_);
  // Replica r is a chain of neighbours: VCUs r * depth to r * depth + depth - 1.
  std::vector<std::vector<int>> vcus(depth);
  for (int s = 0; s < depth; ++s) {
    for (int r = 0; r < shape.data_parallel; ++r) vcus[s].push_back(r * depth + s);
  }
  std::map<std::string, StageCosts> by_kind;
  for (const VcuSpec& v : cluster_.vcus) {
    if (by_kind.count(v.kind) != 0) continue;
    OC_ASSIGN_OR_RETURN(StageCosts costs, StageCosts::Create(graph_, update_, v.kind, costs_));
    by_kind.emplace(v.kind, std::move(costs));
  }
  StageSplitOptions split_options;
  const int n = by_kind.begin()->second.units();
  for (int s = 0; s < depth; ++s) {
    const StageCosts* slowest = nullptr;
    int64_t memory = INT64_MAX;
    for (int v : vcus[s]) {
      const StageCosts& costs = by_kind.at(cluster_.vcus[v].kind);
      if (slowest == nullptr || costs.Seconds(0, n) > slowest->Seconds(0, n)) slowest = &costs;
      memory = std::min(memory, cluster_.vcus[v].memory_bytes);
    }
    split_options.costs.push_back(slowest);
    split_options.memory_bytes.push_back(memory);
    const int per_replica = (shape.micro_batches + shape.data_parallel - 1) / shape.data_parallel;
    split_options.in_flight.push_back(schedule == "gpipe" ? per_replica
                                                          : std::min(per_replica, depth - s));
    if (s + 1 == depth) continue;
    const LinkCurve& link = cluster_.link(vcus[s][0], vcus[s + 1][0]);
    constexpr int64_t kLarge = int64_t{4} << 20;
    split_options.latency_seconds.push_back(link.Seconds(0));
    split_options.seconds_per_byte.push_back((link.Seconds(kLarge) - link.Seconds(0)) / kLarge);
  }
  std::vector<int> last;  // origin that ends each stage
  if (!options.stages.empty()) {
    if (static_cast<int>(options.stages.size()) != depth - 1) {
      return InvalidArgument("parallel.stages cuts into ", options.stages.size() + 1,
                             " stages, pipeline_depth is ", depth);
    }
    OC_ASSIGN_OR_RETURN(last, CutAfterModules(options.stages));
  } else {
    OC_ASSIGN_OR_RETURN(const StageSplit split, SplitStages(split_options));
    for (int s = 1; s < depth; ++s) {
      last.push_back(split_options.costs[0]->origins()[split.begins[s]] - 1);
    }
  }
  last.push_back(split_options.costs[0]->origins().back());
  for (int s = 0, first = 0; s < depth; ++s) {
    plan.stages.push_back({first, last[s], vcus[s], EvenOwners(vcus[s], shape.micro_batches)});
    first = last[s] + 1;
  }
  return plan;
}

StatusOr<PlannedProgram> DynamicGraphPartitioner::Realize(Plan plan,
                                                          const PartitionOptions& options) const {
  PlannedProgram planned;
  planned.plan = std::move(plan);
  OC_ASSIGN_OR_RETURN(planned.program,
                      Lower({graph_, update_, planned.plan, cluster_, costs_}, options.lower));
  OC_RETURN_IF_ERROR(Verify(planned.program, cluster_));
  OC_ASSIGN_OR_RETURN(planned.simulation,
                      Simulate(planned.program, cluster_, costs_, options.simulate));
  Predict(planned.simulation, planned.program, planned.plan);
  return planned;
}

namespace {

std::vector<std::string> Advice(const Plan& plan, const ClusterSpec& cluster) {
  std::vector<std::string> advice, idle;
  for (int v = 0; v < cluster.size(); ++v) {
    const bool used = std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& s) {
      return std::find(s.vcus.begin(), s.vcus.end(), v) != s.vcus.end();
    });
    if (!used) idle.push_back(cluster.vcus[v].name);
  }
  if (!idle.empty()) {
    advice.push_back(absl::StrCat(
        absl::StrJoin(idle, ", "), idle.size() == 1 ? " has" : " have",
        " no part in it: ", plan.stages.size(), " stages x ", plan.stages[0].vcus.size(),
        " replicas take ", cluster.size() - static_cast<int>(idle.size()), " of ", cluster.size(),
        " VCUs; choose pipeline_depth and data_parallel so that their product is ",
        cluster.size()));
  }
  return advice;
}

}  // namespace

StatusOr<PlannedProgram> DynamicGraphPartitioner::Partition(const PartitionOptions& options) const {
  OC_ASSIGN_OR_RETURN(const std::vector<BatchShape> shapes, BatchShapes(options, cluster_.size()));
  std::optional<PlannedProgram> best;
  double best_rate = 0;
  Status reason;
  for (const BatchShape& shape : shapes) {
    for (const ScheduleEntry& schedule : Schedules()) {
      if (options.schedule != "auto" && options.schedule != schedule.name) continue;
      if (options.schedule == "auto" && shape.pipeline_depth == 1 && best.has_value()) continue;
      auto plan = MakePlan(shape, schedule.name, options);
      StatusOr<PlannedProgram> planned = plan.ok() ? Realize(std::move(plan).value(), options)
                                                   : StatusOr<PlannedProgram>(plan.status());
      if (!planned.ok()) {
        // Another shape may fit the memory; other errors are the same for all.
        if (!absl::IsResourceExhausted(planned.status()) && shapes.size() == 1)
          return planned.status();
        reason = planned.status();
        continue;
      }
      const double rate = static_cast<double>(planned->plan.micro_batch) *
                          planned->plan.micro_batches / planned->plan.predicted_step_seconds;
      if (rate > best_rate) {
        best_rate = rate;
        best = std::move(planned).value();
      }
    }
  }
  if (best.has_value()) {
    best->plan.advice = Advice(best->plan, cluster_);
    return std::move(*best);
  }
  if (options.schedule != "auto") OC_RETURN_IF_ERROR(FindSchedule(options.schedule).status());
  return reason;
}

}  // namespace oc
