// VcuLowering: what is done once a step.
#include <algorithm>

#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {
namespace {

// The squared norm of all gradients (optim/optimizer.h).
constexpr const char* kNormMetric = "grad_norm_sq";

}  // namespace

// What the update needs of this VCU: all that leads to new values of what it holds.
std::vector<int> VcuLowering::UpdateNodes(const Graph& update) const {
  std::vector<bool> wanted(update.values.size(), false);
  for (const auto* list : {&update.parameters, &update.states}) {
    for (const Variable& v : *list) {
      const std::string& name = update.value(v.value).name;
      const auto place = context_.shards.parameters.find(name);
      const bool elsewhere = place != context_.shards.parameters.end() &&
                             context_.shards.uses[place->second.bucket].shard > 0 &&
                             PartHere(place->second).empty();
      const bool held = variables_.count(name) != 0 && !elsewhere;
      if (held && v.updated != kNone) wanted[v.updated] = true;
    }
  }
  return NodesFor(update, context_.update_analysis.nodes[0][static_cast<int>(Part::kBackward)],
                  std::move(wanted));
}

// The parts of the norm that are this VCU's: the gradient's owner adds them, once.
std::vector<int> VcuLowering::NormNodes(const Graph& update) const {
  std::vector<bool> wanted(update.values.size(), false);
  for (const Accumulator& a : update.accumulators) {
    for (int v : a.contributions) {
      const auto holders = context_.holders.find(context_.update_homes[v]);
      OC_CHECK(holders != context_.holders.end(), a.name);
      if (holders->second[0] == vcu_) wanted[v] = true;
    }
  }
  return NodesFor(update, context_.update_analysis.nodes[0][static_cast<int>(Part::kBackward)],
                  std::move(wanted));
}

// The sums of the chunks of this VCU's parts.
std::vector<int> VcuLowering::ChunkNodes(const Graph& update) const {
  std::vector<int> nodes;
  for (const auto& [v, place] : context_.shards.chunks) {
    if (!PartHere(place).empty()) nodes.push_back(update.value(v).producer);
  }
  return nodes;
}

// Each member sums the chunks of what it has; the first holder, which learns them all, adds them up
// in their order: the same bits as where it has everything. Chunks of others are zero here.
Status VcuLowering::EmitNorm(const Graph& update) {
  std::vector<int> nodes = NormNodes(update);
  std::erase_if(
      nodes, [&](int id) { return context_.shards.chunks.count(update.node(id).outputs[0]) != 0; });
  std::set<int> groups;
  for (const auto& [v, place] : context_.shards.chunks) {
    if (MemberOf(place.bucket) == kNone) continue;
    const SymbolicRange chunks = ChunkRange(place, {});
    if (groups.insert(context_.shards.buckets[place.bucket].group).second) {
      EmitZeros(Whole(chunks.buffer));
    }
  }
  const std::vector<int> own = ChunkNodes(update);
  if (!own.empty()) {
    Template& t = templates_["norm of parts"];
    OC_RETURN_IF_ERROR(BuildSegment(update, context_.update_analysis, "gradient norm of parts", own,
                                    /*update=*/true, t));
    EmitCompute(t, "norm of parts", kNone);
  }
  for (int group : groups) {
    EmitSmallSum("norm", group, Whole(chunk_buffers_.at(group)));
  }
  if (nodes.empty()) return OkStatus();
  Template& t = templates_["norm"];
  OC_RETURN_IF_ERROR(BuildSegment(update, context_.update_analysis, "gradient norm", nodes,
                                  /*update=*/true, t));
  EmitCompute(t, "norm", kNone);
  return OkStatus();
}

Status VcuLowering::EmitUpdateOf(const Graph& update, const std::string& name,
                                 const std::vector<int>& nodes) {
  if (nodes.empty()) return OkStatus();
  Template& t = templates_[name];
  OC_RETURN_IF_ERROR(
      BuildSegment(update, context_.update_analysis, name, nodes, /*update=*/true, t));
  EmitCompute(t, name, kNone);
  // With a gradient that is not finite, parameters and states stay as they are.
  const auto& names = context_.metrics;
  if (std::find(names.begin(), names.end(), kNormMetric) != names.end()) {
    pending_.back().command.predicate = kNormMetric;
    pending_.back().reads.push_back(MetricsRange());
  }
  return OkStatus();
}

VcuLowering::SymbolicRange VcuLowering::MetricsRange() const {
  return {metrics_buffer_, 0, 4 * (static_cast<int64_t>(context_.metrics.size()) + 1)};
}

Status VcuLowering::EmitUpdate() {
  const Graph* update = context_.input.update;
  if (update != nullptr) OC_RETURN_IF_ERROR(EmitNorm(*update));
  if (context_.metrics_group != kNone) {
    EmitSmallSum("metrics", context_.metrics_group, MetricsRange());
  }
  Emit({.kind = CommandKind::kSnapshot, .lane = Lane({LaneKind::kHost, 0}), .name = "metrics"},
       {MetricsRange()}, {});
  if (update == nullptr) return OkStatus();
  // Parameters that all hold are gathered bucket by bucket, while the next bucket is updated.
  const Shards& s = context_.shards;
  const auto gathered = [&](int b) {
    return s.uses[b].shard > 0 && !s.buckets[b].divided && MemberOf(b) != kNone;
  };
  std::map<int, std::vector<int>> by_bucket;  // kNone: of none of these
  for (int id : UpdateNodes(*update)) {
    const auto place = s.parameters.find(context_.update_homes[update->node(id).outputs[0]]);
    const bool own = place != s.parameters.end() && gathered(place->second.bucket);
    by_bucket[own ? place->second.bucket : kNone].push_back(id);
  }
  OC_RETURN_IF_ERROR(EmitUpdateOf(*update, "update", by_bucket[kNone]));
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    if (!gathered(b)) continue;
    OC_RETURN_IF_ERROR(EmitUpdateOf(*update, absl::StrCat("update ", b), by_bucket[b]));
    const SymbolicRange& block = blocks_.at(b);
    EmitCollective(b, CollectiveOp::kAllGather, absl::StrCat("parameters ", b), s.uses[b].parameter,
                   PieceOf(b, block, s.uses[b].parameter), block);
  }
  return OkStatus();
}

}  // namespace oc
