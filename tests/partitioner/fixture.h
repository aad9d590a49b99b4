// Plans without hardware: models with made-up costs on made-up clusters. `dtypes_of_last`: what the
// last VCU has; empty: all.
#pragma once

#include <gtest/gtest.h>

#include "openclaw/graph/amp.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/fuse.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"
#include "openclaw/optim/optimizer.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/partition.h"
#include "openclaw/partitioner/program/verify.h"

namespace oc {

inline ClusterSpec MakeCluster(int vcus, int64_t memory_bytes = int64_t{4} << 30) {
  ClusterSpec cluster;
  for (int i = 0; i < vcus; ++i) {
    cluster.vcus.push_back({.name = absl::StrCat("sim:", i),
                            .device = "sim",
                            .kind = "sim/1t",
                            .memory_bytes = memory_bytes});
  }
  cluster.links.assign(static_cast<size_t>(vcus) * vcus, LinkCurve::Of(5e-6, 10e9));
  return cluster;
}

// At speed 1 a second a 10 GFLOP and a second a 10 GB; kernels that need some workspace; every
// accumulating variant exists, and no fused op.
inline void AddCosts(const Graph& graph, const Graph* update, CostTable& costs,
                     const std::string& kind = "sim/1t", double speed = 1) {
  for (const CostRequest& r : MissingCosts(graph, update, kind, costs)) {
    const OpCost cost = DefaultCost(*r.def, {r.inputs, r.attrs}, r.outputs);
    costs.Set(r.key, {.seconds = (1e-6 + cost.flops / 1e10 + cost.bytes / 1e10) / speed,
                      .workspace_bytes = r.def->name == "linear" ? 192 : 0,
                      .supported = !IsFused(r.def->name)});
  }
}

struct Planned {
  Graph joint, update;
  ClusterSpec cluster;
  CostTable costs;
  PlannedProgram planned;
};

inline Planned PlanModel(StatusOr<Graph> model, int depth, int replicas, int micro_batches,
                         const std::string& schedule = "1f1b", bool recompute = false,
                         const AmpOptions& amp = {}, std::vector<DType> dtypes_of_last = {}) {
  Planned p;
  EXPECT_TRUE(model.ok()) << model.status();
  auto bound = model->Bind({{"B", 4}});
  EXPECT_TRUE(bound.ok()) << bound.status();
  auto forward = ApplyAmp(*bound, amp);
  EXPECT_TRUE(forward.ok()) << forward.status();
  auto joint = Differentiate(*forward);
  EXPECT_TRUE(joint.ok()) << joint.status();
  p.joint = std::move(joint).value();
  EXPECT_EQ(RunPasses(p.joint, DefaultPasses(), {}), OkStatus());
  auto update = HybridOptimizer(AdamW{}, {.clip_norm = 1}).BuildUpdate(p.joint);
  EXPECT_TRUE(update.ok()) << update.status();
  p.update = std::move(update).value();
  p.cluster = MakeCluster(depth * replicas);
  AddCosts(p.joint, &p.update, p.costs);
  if (!dtypes_of_last.empty()) {
    VcuSpec& last = p.cluster.vcus.back();
    last.dtypes = std::move(dtypes_of_last);
    last.kind = "limited/1t";
    TypedGraphs typed(p.joint);
    AddCosts(**typed.In(*ComputeTypeFor(p.joint, last)), &p.update, p.costs, last.kind);
  }
  PartitionOptions options{.micro_batch = 4,
                           .global_batch = 4 * micro_batches,
                           .pipeline_depth = depth,
                           .data_parallel = replicas,
                           .schedule = schedule,
                           .recompute = {.policy = recompute ? "marked" : "none"}};
  auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Partition(options);
  EXPECT_TRUE(planned.ok()) << planned.status();
  if (planned.ok()) p.planned = std::move(planned).value();
  return p;
}

inline StatusOr<Graph> SmallGpt(bool checkpoint = false) {
  return models::Gpt2({.layers = 2,
                       .width = 16,
                       .heads = 2,
                       .context = 8,
                       .vocabulary = 23,
                       .dropout = 0.1,
                       .checkpoint = checkpoint});
}

}  // namespace oc
