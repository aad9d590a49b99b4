// A plan: which VCU computes what. It is what planning decides, a file that each run writes, and
// what
// `--plan FILE` runs again. Lowering (program/lower.h) turns it into a Program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/graph/graph.h"
#include "openclaw/partitioner/program/memory.h"

namespace oc {

// A run of the model's forward nodes, by Node::origin, and who computes it.
struct StagePlan {
  int first_origin = 0;
  int last_origin = 0;    // inclusive
  std::vector<int> vcus;  // replicas
  // owner[g]: which VCU takes micro-batch g of the step. Stages may have unlike replica counts and
  // shares.
  std::vector<int> owner;
};

// The index-th of the graph's forward nodes that stem from node `origin` of the model.
struct ForwardNode {
  int origin = 0;
  int index = 0;
  bool operator==(const ForwardNode&) const = default;
};

// Where a VCU's optimizer states, moving averages included, lie between their uses.
enum class StateHome : int32_t { kDevice = 0, kHost = 1, kFile = 2 };
const char* Name(StateHome home);

// What of a VCU lies outside of its memory (ZeRO-Offload, Ren et al. 2021; ZeRO-Infinity,
// Rajbhandari et al. 2021).
struct VcuOffload {
  StateHome states = StateHome::kDevice;
  // States that lie with the host are updated there: gradients go to the host, parameters come
  // back. Else they are brought to the device bucket by bucket.
  bool update_on_host = false;
  // Forward nodes, by Node::origin, whose outputs go to the host after their last use in forward,
  // and come back ahead of their first use in backward.
  std::vector<int> activations;
  bool operator==(const VcuOffload&) const = default;
};

struct VcuPrediction {
  std::string name;
  double step_seconds = 0;     // from its first command's start to its last one's end
  double bubble_fraction = 0;  // of that, without computation
  int64_t state_bytes = 0;     // arenas
  int64_t step_bytes = 0;
  int64_t host_bytes = 0;        // memory of the host for ops that the device lacks
  int64_t host_arena_bytes = 0;  // what is offloaded: memory of the host
  int64_t file_bytes = 0;        // and of a file
  // Of both arenas, when the step's holds most; adds up to state_bytes + step_bytes.
  MemoryBreakdown memory;
  int64_t activation_bytes = 0;  // the most that activations take at any time
};

// An op of which a VCU's device does not say that it repeats its results bit by bit.
struct NotDeterministic {
  std::string vcu;
  std::string op;  // name, types, attributes
  int calls = 0;   // in a step
};

// An op that a VCU's device lacks, and what stands in for it there.
struct Substitute {
  std::string vcu;
  std::string op;      // name, types, attributes
  std::string by;      // "decomposed into mul, add"; "on cpu/avx512/1t, with copies"
  int calls = 0;       // in a step
  double seconds = 0;  // of them, in a step; part of the prediction
};

struct Plan {
  int64_t micro_batch = 1;  // samples
  int micro_batches = 1;    // in a step, over all replicas
  std::string schedule = "1f1b";
  // What is computed again in backward instead of being kept, each stage's own choice, ascending by
  // origin; and what asked for it: none, marked, modules, auto, full.
  std::vector<ForwardNode> recomputed;
  std::string recompute = "none";
  // What is divided over the replicas of a stage instead of held by each (Rajbhandari et al.,
  // "ZeRO: memory optimizations toward training trillion parameter models", 2020): from 1 on the
  // optimizer's states, from 2 on the gradients too, at 3 the parameters too. 0: nothing.
  int shard = 0;
  // How large each VCU's part is to be against the others'; empty: all alike.
  std::vector<double> shard_weights;
  std::vector<StagePlan> stages;
  std::string graph_fingerprint;  // of the graph that it was made for
  // What each VCU of the cluster computes the graph's half-typed values in (compute_types.h);
  // empty: what its device has.
  std::vector<DType> compute_types;
  std::vector<VcuOffload> offload;  // of each VCU of the cluster; empty: nothing
  // Filled from the simulator.
  double predicted_step_seconds = 0;
  std::vector<VcuPrediction> vcus;
  std::vector<Substitute> substitutes;
  std::vector<NotDeterministic> not_deterministic;
  std::vector<std::string> advice;

  const VcuOffload& offload_of(int vcu) const;
  int pipeline_depth() const { return static_cast<int>(stages.size()); }
  // Stages contiguous and complete, owners among the stage's VCUs, micro-batches covered, VCUs in
  // range: else kInvalidArgument.
  Status Validate(const Graph& graph, const ClusterSpec& cluster) const;

  std::string ToJson() const;
  static StatusOr<Plan> FromJson(const std::string& text);
};

// A hash of the graph's structure (nodes, types, attributes), so that a plan is not applied to
// another model.
std::string GraphFingerprint(const Graph& graph);

// The stage of a node by its origin. Precondition: Validate.
int StageOf(const Plan& plan, const Node& node);

// The plan for one stage on one VCU.
Plan SingleVcuPlan(const Graph& graph, int vcu, int64_t micro_batch, int micro_batches);

}  // namespace oc
