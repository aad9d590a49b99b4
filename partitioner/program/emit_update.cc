// VcuLowering: what is done once a step.
#include <algorithm>

#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {

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
  return update == nullptr ? OkStatus() : EmitUpdateInBuckets(*update);
}

// Whether the VCU updates its part of a bucket's parameters, and then gathers the others'.
bool VcuLowering::GathersUpdated(int bucket) const {
  const Shards& s = context_.shards;
  return s.uses[bucket].shard > 0 && !s.buckets[bucket].divided && MemberOf(bucket) != kNone;
}

void VcuLowering::EmitUpdatedGather(int bucket) {
  const SymbolicRange& block = blocks_.at(bucket);
  const DType dtype = context_.shards.uses[bucket].parameter;
  EmitCollective(bucket, CollectiveOp::kAllGather, absl::StrCat("parameters ", bucket), dtype,
                 PieceOf(bucket, block, dtype), block);
}

// The update's nodes; parameters that all hold are gathered bucket by bucket, while the next bucket
// is updated.
Status VcuLowering::EmitUpdateAndGather(const Graph& update, const std::vector<int>& nodes) {
  const Shards& s = context_.shards;
  std::map<int, std::vector<int>> by_bucket;  // kNone: of what is not gathered
  for (int id : nodes) {
    const auto place = s.parameters.find(context_.update_homes[update.node(id).outputs[0]]);
    const bool own = place != s.parameters.end() && GathersUpdated(place->second.bucket);
    by_bucket[own ? place->second.bucket : kNone].push_back(id);
  }
  OC_RETURN_IF_ERROR(EmitUpdateOf(update, by_bucket[kNone], "update", /*on_host=*/false));
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    if (!GathersUpdated(b)) continue;
    OC_RETURN_IF_ERROR(EmitUpdateOf(update, by_bucket[b], absl::StrCat("update of bucket ", b),
                                    /*on_host=*/false));
    EmitUpdatedGather(b);
  }
  return OkStatus();
}

}  // namespace oc
