// VcuLowering: from nodes to segments.
#include <algorithm>

#include "openclaw/graph/cost_key.h"
#include "openclaw/graph/fuse.h"
#include "openclaw/graph/sum_chunks.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {

VcuLowering::Ref VcuLowering::ReducedRef(const std::string& name) const {
  const auto& accumulators = graph_.accumulators;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    if (accumulators[i].name == name && accumulators[i].kind != Accumulator::Kind::kMetric) {
      return {RefKind::kAccumulator, static_cast<int>(i), ""};
    }
  }
  for (size_t i = 0; i < context_.metrics.size(); ++i) {
    if (context_.metrics[i] == name) return {RefKind::kMetric, static_cast<int>(i), ""};
  }
  OC_CHECK(false, "reduced value ", name, " has no accumulator");
  return {};
}

VcuLowering::Ref VcuLowering::RefOf(const Graph& graph, const StageAnalysis& analysis, int value,
                                    bool update) const {
  const Value& root = graph.value(analysis.root[value]);
  switch (root.kind) {
    case ValueKind::kResult:
      if (!update && graph.node(root.producer).phase == Phase::kPrologue) {
        return {RefKind::kStepValue, root.id, ""};
      }
      if (update && context_.shards.chunks.count(root.id) != 0) {
        return {RefKind::kChunks, root.id, ""};
      }
      return {update ? RefKind::kUpdateValue : RefKind::kValue, root.id, ""};
    case ValueKind::kData:
      return {RefKind::kValue, root.id, ""};
    case ValueKind::kParameter:
    case ValueKind::kState: {
      const auto place = context_.shards.parameters.find(root.name);
      const bool gathered = !update && place != context_.shards.parameters.end() &&
                            context_.shards.buckets[place->second.bucket].divided;
      return {gathered ? RefKind::kGathered : RefKind::kVariable, kNone, root.name};
    }
    case ValueKind::kScalar:
      if (root.scope == Scope::kMicroBatch && !update) return {RefKind::kValue, root.id, ""};
      return {RefKind::kScalar, kNone, root.name};
    case ValueKind::kReduced:
      return ReducedRef(root.name);
  }
  return {};
}

std::optional<VcuLowering::NodePart> VcuLowering::PartOfNode(const Graph& graph, const Node& node,
                                                             bool update) const {
  const Shards& s = context_.shards;
  Place place;
  if (update) {
    // What adds up the sums of chunks has all of them.
    if (node.inputs.size() == 1 && s.chunks.count(node.inputs[0]) != 0) return std::nullopt;
    const auto found = s.parameters.find(context_.update_homes[node.outputs[0]]);
    if (found == s.parameters.end() || s.uses[found->second.bucket].shard == 0) return std::nullopt;
    place = found->second;
  } else {
    const auto found = s.casts.find(node.outputs[0]);
    if (found == s.casts.end() || node.phase != Phase::kPrologue) return std::nullopt;
    place = found->second;
  }
  return NodePart{place, PartHere(place), s.buckets[place.bucket].sizes[place.tensor]};
}

// As RefOf, for a node of which PartOfNode says what is run here.
VcuLowering::Ref VcuLowering::PartRefOf(const Graph& graph, const StageAnalysis& analysis,
                                        int value, bool update) const {
  const Value& root = graph.value(analysis.root[value]);
  const Shards& s = context_.shards;
  if (root.kind == ValueKind::kParameter || root.kind == ValueKind::kState) {
    return {RefKind::kVariablePart, kNone, root.name};
  }
  if (root.kind == ValueKind::kResult && !update) return {RefKind::kCastPart, root.id, ""};
  if (root.kind == ValueKind::kResult && s.chunks.count(root.id) != 0) {
    return {RefKind::kChunksPart, root.id, ""};
  }
  const Ref ref = RefOf(graph, analysis, value, update);
  if (ref.kind == RefKind::kAccumulator && s.sums.count(ref.id) != 0) {
    return {RefKind::kSumPart, ref.id, ""};
  }
  return ref;
}

namespace {

// The type of an operand of a node of which only a part is run: a flat run of elements, or the sums
// of its chunks; what all elements share stays as it is.
TensorType PartType(const TensorType& type, int64_t elements, const TensorPart& part) {
  if (type.shape.num_elements() == elements) return {type.dtype, {part.size()}};
  if (type.shape.rank() == 1 && type.shape.num_elements() == SumChunks(elements)) {
    return {type.dtype, {SumChunks(part.size())}};
  }
  return type;
}

}  // namespace

int VcuLowering::SlotOf(Template& t, const Ref& ref, int64_t bytes, const std::string& name) {
  for (size_t i = 0; i < t.refs.size(); ++i) {
    if (!(t.refs[i] < ref) && !(ref < t.refs[i])) return static_cast<int>(i);
  }
  t.refs.push_back(ref);
  t.segment.slots.push_back({name, bytes});
  return static_cast<int>(t.refs.size()) - 1;
}

const std::string& VcuLowering::KindOf(const Segment& segment) const {
  const VcuSpec& v = context_.input.cluster.vcus[vcu_];
  return segment.on_host ? v.host_kind : v.kind;
}

StatusOr<CostEntry> VcuLowering::Cost(const Call& call, const Segment& segment) const {
  auto cost = CostOf({call.def, call.attrs, call.input_types, call.accumulate}, KindOf(segment),
                     context_.input.costs);
  if (!cost.ok()) return Annotate(cost.status(), "lower");
  return cost;
}

// An extra call that brings `source` into `target`.
Status VcuLowering::AddCombine(const char* op, const Ref& target, const Ref& source,
                               const TensorType& type, const Graph& graph, const Node& node,
                               Template& out) {
  const bool copy = std::string(op) == "copy";
  Call call{.def = graph.ops().Find(op),
            .output_types = {type},
            .phase = node.phase,
            .scope = node.scope};
  OC_CHECK(call.def != nullptr, op);
  const int target_slot = SlotOf(out, target, type.bytes(), "sum");
  const int source_slot = SlotOf(out, source, type.bytes(), "term");
  call.inputs = copy ? std::vector<int>{source_slot} : std::vector<int>{target_slot, source_slot};
  call.input_types.assign(call.inputs.size(), type);
  call.outputs = {target_slot};
  OC_RETURN_IF_ERROR(Cost(call, out.segment).status());
  out.calls.push_back({std::move(call), 0});
  return OkStatus();
}

Status VcuLowering::AddNode(const Graph& graph, const StageAnalysis& analysis, const Node& node,
                            bool update, Template& out) {
  if (node.def->is_view) return AddCombines(graph, analysis, node, update, out);
  Call call{.def = node.def, .attrs = node.attrs, .phase = node.phase, .scope = node.scope};
  const std::optional<NodePart> part = PartOfNode(graph, node, update);
  if (part.has_value() && part->part.empty()) return OkStatus();
  const auto type_of = [&](int v) {
    const TensorType& type = graph.value(v).type;
    return part.has_value() && part->cut() ? PartType(type, part->elements, part->part) : type;
  };
  const auto ref_of = [&](int v) {
    return part.has_value() ? PartRefOf(graph, analysis, v, update)
                            : RefOf(graph, analysis, v, update);
  };
  for (int v : node.inputs) {
    const Value& value = graph.value(v);
    // A view of a parameter or of data is known by that.
    const Value& root = graph.value(analysis.root[v]);
    const std::string& name = root.producer == kNone ? root.name : value.name;
    call.input_types.push_back(type_of(v));
    call.inputs.push_back(SlotOf(out, ref_of(v), call.input_types.back().bytes(), name));
  }
  for (int v : node.outputs) call.output_types.push_back(type_of(v));

  std::vector<Ref> targets(node.outputs.size());
  std::set<int> direct;  // outputs that the kernel puts where they are summed
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const int v = node.outputs[i];
    targets[i] = ref_of(v);
    if (!analysis.accumulator_only[v]) continue;
    const Ref sum = SumRef(graph, analysis.accumulators[v][0]);
    if (Holds(sum)) {
      if (!HasOutput(node.def->accumulable, i)) continue;
      call.accumulate |= 1u << i;
      OC_ASSIGN_OR_RETURN(const CostEntry variant, Cost(call, out.segment));
      if (!variant.supported) {
        call.accumulate &= ~(1u << i);
        continue;
      }
    }
    targets[i] = sum;
    direct.insert(v);
  }
  OC_ASSIGN_OR_RETURN(const CostEntry entry, Cost(call, out.segment));
  if (!entry.supported) {
    return FailedPrecondition(
        "lower: ", CostKey(*call.def, call.attrs, call.input_types, call.accumulate, ""),
        " is not supported on ", KindOf(out.segment));
  }
  size_t opaque = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.value(node.outputs[i]);
    int64_t bytes = call.output_types[i].bytes();
    if (value.opaque) {
      OC_CHECK(opaque < entry.opaque_bytes.size(), call.def->name);
      bytes = entry.opaque_bytes[opaque++];
    }
    call.outputs.push_back(SlotOf(out, targets[i], bytes, value.name));
  }
  out.calls.push_back({std::move(call), entry.workspace_bytes});

  for (int v : direct) MarkHeld(SumRef(graph, analysis.accumulators[v][0]));
  return AddCombines(graph, analysis, node, update, out, direct);
}

VcuLowering::Ref VcuLowering::SumRef(const Graph& graph, int accumulator) const {
  const Accumulator& a = graph.accumulators[accumulator];
  if (a.kind == Accumulator::Kind::kMetric) {
    const auto at = std::find(context_.metrics.begin(), context_.metrics.end(), a.name);
    return {RefKind::kMetric, static_cast<int>(at - context_.metrics.begin()), ""};
  }
  return {RefKind::kAccumulator, accumulator, ""};
}

// The metrics range is cleared by a feed: always added to.
bool VcuLowering::Holds(const Ref& sum) const {
  return sum.kind == RefKind::kMetric || initialized_[sum.id];
}

void VcuLowering::MarkHeld(const Ref& sum) {
  if (sum.kind == RefKind::kAccumulator) initialized_[sum.id] = true;
}

// Brings the node's outputs into the accumulators that they are not yet in.
Status VcuLowering::AddCombines(const Graph& graph, const StageAnalysis& analysis, const Node& node,
                                bool update, Template& out, const std::set<int>& done) {
  for (int v : node.outputs) {
    if (done.count(v) != 0) continue;
    for (int a : analysis.accumulators[v]) {
      const Ref sum = SumRef(graph, a);
      OC_RETURN_IF_ERROR(AddCombine(Holds(sum) ? "accumulate" : "copy", sum,
                                    RefOf(graph, analysis, v, update), graph.value(v).type, graph,
                                    node, out));
      MarkHeld(sum);
    }
  }
  return OkStatus();
}

Status VcuLowering::AddCalls(std::vector<SizedCall> calls, bool update, Template& out) {
  const std::string& kind = KindOf(out.segment);
  if (update) {
    calls = MergeCalls(std::move(calls), [&](const Call& call) {
      return TakesLists({call.def, call.attrs, call.input_types, call.accumulate}, kind,
                        context_.input.costs);
    });
  }
  for (SizedCall& sized : calls) {
    Call& call = sized.call;
    if (sized.workspace_bytes > 0) {
      call.workspace =
          SlotOf(out, {RefKind::kWorkspace, workspaces_++, ""}, sized.workspace_bytes, "workspace");
    }
    call.cost_key = CostKey(*call.def, call.attrs, call.input_types, call.accumulate, "");
    out.segment.calls.push_back(std::move(call));
  }
  return OkStatus();
}

namespace {

// Whether the outputs of a fused node lie apart from each other and from its inputs but where the
// op allows it. Memory is shared as the nodes that it stands for would share it.
bool MayShare(const Node& node, const StageAnalysis& analysis) {
  const std::vector<int>& reuse = node.def->reuse;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const int root = analysis.root[node.outputs[i]];
    for (size_t j = 0; j < node.outputs.size(); ++j) {
      if (j != i && analysis.root[node.outputs[j]] == root) return false;
    }
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const bool allowed = i < reuse.size() && reuse[i] == static_cast<int>(j);
      if (!allowed && analysis.root[node.inputs[j]] == root) return false;
    }
  }
  return true;
}

}  // namespace

Status VcuLowering::BuildSegment(const Graph& graph, const StageAnalysis& analysis,
                                 const std::string& name, const std::vector<int>& nodes,
                                 bool update, Template& out) {
  out.segment.name = name;
  const auto has_kernel = [&](const Node& node) {
    return MayShare(node, analysis) &&
           HasOwnKernel(graph, node, KindOf(out.segment), context_.input.costs);
  };
  for (const Node& node : FuseNodes(graph, nodes, has_kernel)) {
    OC_RETURN_IF_ERROR(AddNode(graph, analysis, node, update, out));
  }
  return FinishSegment(update, out);
}

Status VcuLowering::FinishSegment(bool update, Template& out) {
  OC_RETURN_IF_ERROR(AddCalls(std::move(out.calls), update, out));
  out.index = static_cast<int>(program_.segments.size());
  program_.segments.push_back(out.segment);
  return OkStatus();
}

}  // namespace oc
