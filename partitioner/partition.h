// DynamicGraphPartitioner: graph, cluster, costs and options become a plan.
//
//   DynamicGraphPartitioner partitioner(joint, &update, cluster, costs);
//   OC_ASSIGN_OR_RETURN(PlannedProgram planned, partitioner.Partition(options));
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/config.h"
#include "openclaw/partitioner/plan.h"
#include "openclaw/partitioner/program/lower.h"
#include "openclaw/partitioner/program/simulate.h"

namespace oc {

// kMeasured: shares and cuts follow the measured speeds. kEven: unlike VCUs are taken to be equally
// fast (what most frameworks do, and what the gain is measured against).
enum class Balance { kMeasured, kEven };

// What the parts of divided state are as large as: all alike, or like the VCUs' memory budgets, or
// like their measured speeds.
enum class ShardBy { kEqual, kMemory, kSpeed };
// What is computed again in backward instead of being kept.
//   none     nothing
//   marked   what the model marks (graph/modules.h, Checkpoint)
//   modules  the modules that `modules` names (graph/passes.h, NodesOfModules)
//   full     as much as it takes to need as little memory as can be
//   auto     nothing where it fits, else what costs the least time (recompute_choices.h)
struct RecomputeOptions {
  std::string policy = "auto";
  std::vector<std::string> modules;
  ActivationBudget activations;  // of VcuProgram::activation_bytes; auto keeps to it
};

struct PartitionOptions {
  int64_t micro_batch = 1;
  std::optional<int64_t> global_batch;           // samples
  std::optional<int64_t> gradient_accumulation;  // micro-batches a replica takes a step
  std::optional<int64_t> pipeline_depth;
  std::optional<int64_t> data_parallel;
  std::string schedule = "auto";
  std::vector<std::string> stages;  // modules to cut after; empty: by cost
  Balance balance = Balance::kMeasured;
  std::optional<int> shard = 0;  // Plan::shard; none: the fastest that fits, the lower where alike
  ShardBy shard_by = ShardBy::kEqual;
  RecomputeOptions recompute;
  OffloadConfig offload;
  double search_seconds = 5;  // about how long better plans are looked for once there is one
  // How far the costs of one kind of VCU may be off together, as a fraction. Plans of unlike VCUs
  // are compared by the mean of the step as predicted and those where one kind is slower by this:
  // of two that are predicted alike, the one with slack wins. 0: by the prediction alone.
  double cost_error = 0.05;
  LowerOptions lower;
  SimulateOptions simulate;
};

// How a step is divided; any of the three may have been `auto`.
struct BatchShape {
  int pipeline_depth = 1;
  int data_parallel = 1;
  int micro_batches = 1;  // in a step, over all replicas
};

// The shapes that the options allow on so many VCUs: those that use all of them where depth or
// replicas are open. kInvalidArgument: the numbers do not divide (says which).
StatusOr<std::vector<BatchShape>> BatchShapes(const PartitionOptions& options, int vcus);

struct PlannedProgram {
  Plan plan;  // with its prediction
  Program program;
  Simulation simulation;
};

// What a plan would take with another choice of one of its options; what the options leave open is
// chosen anew for it.
struct PlanAlternative {
  std::string option;  // that differs: "shard"
  std::string name;    // "recompute full", "shard 2"
  bool fits = false;   // in the VCUs' memory and parallel.activation_budget
  double step_seconds = 0;
  std::vector<std::string> vcus;
  std::vector<int64_t> peak_bytes;  // by VCU: of the arenas
  int64_t arena_bytes = 0;          // of the VCU that takes most
  int64_t activation_bytes = 0;     // of the VCU that keeps most
  bool chosen = false;              // the plan as it is
  bool by_request = false;          // `auto` does not take it
  std::string why;                  // it was chosen, or was not
};

// Says of the rows of one option why the chosen one is (`key` asked for it, or, for `open`, it is
// the fastest that fits), and what speaks against the others.
void Explain(const std::string& key, bool open, std::vector<PlanAlternative>& rows);
// The row of a plan with predictions.
PlanAlternative AlternativeOf(const std::string& option, const std::string& name, const Plan& plan,
                              const ClusterSpec& cluster);

class DynamicGraphPartitioner {
 public:
  // All must outlive it. `graph` is a bound joint graph; `update` its update graph.
  DynamicGraphPartitioner(const Graph& graph, const Graph* update, const ClusterSpec& cluster,
                          const CostTable& costs)
      : graph_(graph), update_(update), cluster_(cluster), costs_(costs) {}

  // Tries every allowed shape, schedule and shard, each with its best stage split and shares, and
  // for what is too large each way to make it fit (memory_fit.h): lowers and simulates them,
  // improves the fastest by samples a second step by step, verifies it and returns it.
  // kResourceExhausted where none fits: names the VCU, what it needs, the smallest budget that can,
  // and what else helps.
  StatusOr<PlannedProgram> Partition(const PartitionOptions& options) const;

  // Lowers, verifies and simulates a given plan.
  StatusOr<PlannedProgram> Realize(Plan plan, const PartitionOptions& options) const;

  // What options buy a given plan: recomputation (nothing, what the plan has, as much as saves
  // memory), state divided over replicas, where there are any, states and activations taken out of
  // the VCUs' memory, where they can be. Of what does not fit is told what it would take; what
  // cannot be, or has costs that nobody has measured, is left out.
  StatusOr<std::vector<PlanAlternative>> Alternatives(const Plan& plan,
                                                      const PartitionOptions& options) const;

 private:
  // Realize without the verifier.
  StatusOr<PlannedProgram> Try(Plan plan, const PartitionOptions& options) const;
  // Updates states that lie with the host there, where that is faster; says which and why.
  Status ChooseUpdates(const PartitionOptions& options, PlannedProgram& planned) const;

  const Graph& graph_;
  const Graph* update_;
  const ClusterSpec& cluster_;
  const CostTable& costs_;
};

}  // namespace oc
