// VcuLowering: from segments to commands.
#include <algorithm>

#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {

VcuLowering::VcuLowering(const LoweringContext& context, int vcu)
    : context_(context), vcu_(vcu), graph_(*context.graphs[vcu]) {
  program_.name = context.input.cluster.vcus[vcu].name;
  initialized_.assign(context.input.graph.accumulators.size(), false);
  Lane({LaneKind::kCompute, 0});
}

int VcuLowering::NewBuffer(int64_t bytes, MemoryUse use, Arena arena) {
  buffer_arenas_.push_back(arena);
  items_.push_back({.bytes = bytes, .first = tick_, .last = tick_, .use = use});
  return static_cast<int>(items_.size()) - 1;
}

int VcuLowering::Lane(LaneSpec spec) {
  auto at = std::find(program_.lanes.begin(), program_.lanes.end(), spec);
  if (at == program_.lanes.end()) at = program_.lanes.insert(at, spec);
  return static_cast<int>(at - program_.lanes.begin());
}

VcuLowering::SymbolicRange VcuLowering::Whole(int buffer) const {
  return {buffer, 0, items_[buffer].bytes, buffer_arenas_[buffer]};
}

void VcuLowering::Touch(const SymbolicRange& range) {
  if (range.buffer != kNone) items_[range.buffer].last = std::max(items_[range.buffer].last, tick_);
}

// Where a slot's bytes are; values come into being when they are first written. A range of what
// outlives the step has buffer kNone, and its offset is in its arena.
VcuLowering::SymbolicRange VcuLowering::Resolve(const Ref& ref, int micro_batch, int64_t bytes) {
  switch (ref.kind) {
    case RefKind::kValue: {
      auto [it, is_new] = values_.try_emplace({ref.id, micro_batch}, kNone);
      if (is_new) {
        it->second = NewBuffer(bytes, context_.analysis.activation[ref.id] ? MemoryUse::kActivations
                                                                           : MemoryUse::kTransient);
      }
      return Whole(it->second);
    }
    case RefKind::kStepValue: {
      if (const auto cast = context_.shards.casts.find(ref.id);
          cast != context_.shards.casts.end()) {
        return TensorIn(cast->second, Whole(gathered_.at(cast->second.bucket)),
                        context_.shards.uses[cast->second.bucket].gathered);
      }
      auto [it, is_new] = step_values_.try_emplace(ref.id, kNone);
      if (is_new) it->second = NewBuffer(bytes, MemoryUse::kCasts);
      return Whole(it->second);
    }
    case RefKind::kUpdateValue: {
      auto [it, is_new] = update_values_.try_emplace(ref.id, kNone);
      if (is_new) it->second = NewBuffer(bytes, MemoryUse::kUpdate);
      return Whole(it->second);
    }
    case RefKind::kVariable: {
      if (const auto it = brought_.find(ref.name); it != brought_.end()) return it->second;
      const Range& range = variables_.at(ref.name);
      return {kNone, range.offset, range.bytes, range.arena};
    }
    case RefKind::kScalar:
      return Whole(scalars_.at({ref.name, kNone}));
    case RefKind::kAccumulator: {
      const auto place = context_.shards.sums.find(ref.id);
      if (place == context_.shards.sums.end()) return accumulators_.at(ref.id);
      const int b = place->second.bucket;
      return TensorIn(place->second, Whole(SumBuffer(b)), context_.shards.uses[b].sum);
    }
    case RefKind::kMetric:
      return {metrics_buffer_, ref.id * int64_t{4}, 4};
    case RefKind::kWorkspace:
      return Whole(NewBuffer(bytes, MemoryUse::kWorkspace));
    default:
      return ResolveInBucket(ref);
  }
}

// The same for what the host computes: only of updates.
VcuLowering::SymbolicRange VcuLowering::ResolveOnHost(const Ref& ref, int64_t bytes) {
  switch (ref.kind) {
    case RefKind::kUpdateValue: {
      auto [it, is_new] = host_update_values_.try_emplace(ref.id, kNone);
      if (is_new) it->second = NewBuffer(bytes, MemoryUse::kOther, Arena::kHost);
      return Whole(it->second);
    }
    case RefKind::kVariable: {
      const auto copy = host_copies_.find(ref.name);
      const Range& range = copy != host_copies_.end() ? copy->second : variables_.at(ref.name);
      return {kNone, range.offset, range.bytes, range.arena};
    }
    case RefKind::kScalar:
      return Whole(host_scalars_.at(ref.name));
    case RefKind::kAccumulator:
      return host_accumulators_.at(ref.id);
    case RefKind::kMetric:
      return {host_metrics_buffer_, ref.id * int64_t{4}, 4};
    case RefKind::kWorkspace:
      return Whole(NewBuffer(bytes, MemoryUse::kOther, Arena::kHost));
    default:
      break;
  }
  OC_CHECK(false, "a value of the model in an update on the host");
  return {};
}

int VcuLowering::Emit(Command command, std::vector<SymbolicRange> reads,
                      std::vector<SymbolicRange> writes) {
  ++tick_;
  for (const SymbolicRange& r : reads) Touch(r);
  for (const SymbolicRange& r : writes) Touch(r);
  pending_.push_back({.command = std::move(command),
                      .reads = std::move(reads),
                      .writes = std::move(writes),
                      .tick = tick_});
  return static_cast<int>(pending_.size()) - 1;
}

void VcuLowering::EmitCompute(const Template& t, const std::string& name, int micro_batch) {
  const size_t n = t.refs.size();
  std::vector<SymbolicRange> slots(n);
  std::vector<bool> resolved(n, false), read(n, false), written(n, false);
  const auto use = [&](int slot) {
    if (!resolved[slot]) {
      const int64_t bytes = t.segment.slots[slot].bytes;
      slots[slot] = t.segment.on_host ? ResolveOnHost(t.refs[slot], bytes)
                                      : Resolve(t.refs[slot], micro_batch, bytes);
      resolved[slot] = true;
    }
    Touch(slots[slot]);
  };
  for (const Call& call : t.segment.calls) {
    ++tick_;
    for (int slot : call.inputs) {
      if (!resolved[slot] && t.refs[slot].kind == RefKind::kValue) {
        OC_CHECK(values_.count({t.refs[slot].id, micro_batch}) != 0, "%",
                 t.segment.slots[slot].name, " is read before it is there, in ", t.segment.name);
      }
      use(slot);
      if (!written[slot]) read[slot] = true;
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const int slot = call.outputs[i];
      use(slot);
      if (HasOutput(call.accumulate, i) && !written[slot]) read[slot] = true;
      written[slot] = true;
    }
    if (call.workspace != kNone) {
      use(call.workspace);
      written[call.workspace] = true;
    }
  }
  Pending p;
  p.command = {.kind = CommandKind::kCompute,
               .lane = t.segment.on_host ? Lane({LaneKind::kHostCompute, 0}) : 0,
               .name = name,
               .micro_batch = micro_batch,
               .segment = t.index};
  for (size_t i = 0; i < n; ++i) {
    if (read[i]) p.reads.push_back(slots[i]);
    if (written[i]) p.writes.push_back(slots[i]);
  }
  p.slots = std::move(slots);
  p.tick = ++tick_;
  pending_.push_back(std::move(p));
  // What was being sent is kept while this ran, so that the send overlaps with it.
  for (int buffer : sent_buffers_) Touch(Whole(buffer));
  sent_buffers_.clear();
}

void VcuLowering::EmitFeed(const std::string& name, int micro_batch, SymbolicRange to) {
  Emit({.kind = CommandKind::kFeed,
        .lane = Lane({LaneKind::kHost, 0}),
        .name = name,
        .micro_batch = micro_batch},
       {}, {to});
}

void VcuLowering::EmitFeedsFor(const WorkItem& item) {
  const Graph& graph = graph_;
  const StageAnalysis& a = context_.analysis;
  for (int id : a.nodes[item.stage][static_cast<int>(item.part)]) {
    for (int v : graph.node(id).inputs) {
      const Value& root = graph.value(a.root[v]);
      const bool fed = root.kind == ValueKind::kData ||
                       (root.kind == ValueKind::kScalar && root.scope == Scope::kMicroBatch);
      if (!fed) continue;
      auto [it, is_new] = values_.try_emplace({root.id, item.micro_batch}, kNone);
      if (!is_new) continue;
      it->second = NewBuffer(root.type.bytes(), MemoryUse::kFeeds);
      EmitFeed(root.name, item.micro_batch, Whole(it->second));
    }
  }
}

void VcuLowering::EmitReceives(int action) {
  for (const Message& m : context_.messages) {
    if (m.to != vcu_ || m.post_action != action) continue;
    const Value& value = graph_.value(m.value);
    const int buffer = NewBuffer(value.type.bytes(), context_.analysis.activation[m.value]
                                                         ? MemoryUse::kActivations
                                                         : MemoryUse::kCommunication);
    values_[{m.value, m.micro_batch}] = buffer;
    Emit({.kind = CommandKind::kRecv,
          .lane = Lane({LaneKind::kRecv, m.from}),
          .name = value.name,
          .micro_batch = m.micro_batch,
          .peer = m.from,
          .dtype = value.type.dtype,
          .wire = context_.input.graph.value(m.value).type.dtype,
          .tag = m.tag},
         {}, {Whole(buffer)});
  }
}

void VcuLowering::EmitSends(int action) {
  for (const Message& m : context_.messages) {
    if (m.from != vcu_ || m.send_action != action) continue;
    const Value& value = graph_.value(m.value);
    const int buffer = values_.at({m.value, m.micro_batch});
    Emit({.kind = CommandKind::kSend,
          .lane = Lane({LaneKind::kSend, m.to}),
          .name = value.name,
          .micro_batch = m.micro_batch,
          .peer = m.to,
          .dtype = value.type.dtype,
          .wire = context_.input.graph.value(m.value).type.dtype,
          .tag = m.tag},
         {Whole(buffer)}, {});
    sent_buffers_.push_back(buffer);
  }
}

void VcuLowering::EmitSnapshots(const WorkItem& item) {
  const Graph& graph = graph_;
  for (int v : context_.analysis.fetched) {
    const int producer = graph.value(v).producer;
    if (producer == kNone || context_.analysis.stage[producer] != item.stage ||
        context_.analysis.part[producer] != item.part) {
      continue;
    }
    std::string name;
    for (const auto& [output, id] : graph.outputs) {
      if (id == v) name = output;
    }
    const int buffer = values_.at({context_.analysis.root[v], item.micro_batch});
    Emit({.kind = CommandKind::kSnapshot,
          .lane = Lane({LaneKind::kHost, 0}),
          .name = name,
          .micro_batch = item.micro_batch},
         {Whole(buffer)}, {});
  }
}

Status VcuLowering::EmitWork() {
  const std::vector<WorkItem>& work = context_.work[vcu_];
  const int n = static_cast<int>(work.size());
  const std::vector<std::vector<std::pair<int, int>>> finals = FindFinals();
  int prepared = 0;
  for (int k = 0; k < n; ++k) {
    // One item ahead: its inputs travel while this one computes.
    for (; prepared <= std::min(k + 1, n - 1); ++prepared) {
      EmitFeedsFor(work[prepared]);
      EmitReceives(prepared);
    }
    OC_RETURN_IF_ERROR(EmitItem(static_cast<size_t>(k), finals[k]));
    EmitSends(k);
    EmitSnapshots(work[k]);
  }
  return FinishReductions();
}

Status VcuLowering::EmitNodes(const WorkItem& item, const std::vector<int>& nodes,
                              const std::string& suffix) {
  std::string variant = absl::StrCat(item.stage, "/", static_cast<int>(item.part), "/", suffix, "/",
                                     nodes.empty() ? kNone : nodes[0], "+", nodes.size(), "/");
  std::vector<int> sums;
  for (int id : nodes) {
    for (int v : graph_.node(id).outputs) {
      for (int a : context_.analysis.accumulators[v]) {
        variant += initialized_[a] ? '1' : '0';
        sums.push_back(a);
      }
    }
  }
  auto [it, is_new] = templates_.try_emplace(variant);
  if (is_new) {
    const char* part = item.part == Part::kCount     ? "count"
                       : item.part == Part::kForward ? "forward"
                                                     : "backward";
    OC_RETURN_IF_ERROR(BuildSegment(graph_, context_.analysis,
                                    absl::StrCat("stage ", item.stage, " ", part, suffix), nodes,
                                    /*update=*/false, it->second));
  }
  for (int a : sums) initialized_[a] = true;
  EmitCompute(it->second,
              absl::StrCat(item.part == Part::kForward ? "F" : "B", item.micro_batch, suffix),
              item.micro_batch);
  return OkStatus();
}

void VcuLowering::EmitSmallSum(const std::string& name, int group, const SymbolicRange& range) {
  const int members = static_cast<int>(context_.groups->at(group).vcus.size());
  const int scratch =
      NewBuffer(context_.options.scratch_bytes(members, range.bytes, DType::kF32, {}),
                MemoryUse::kCommunication);
  Emit({.kind = CommandKind::kCollective,
        .lane = Lane({LaneKind::kGroup, group}),
        .name = name,
        .group = group},
       {range}, {range, Whole(scratch)});
}

// What of the prologue this VCU's stages read, in one command before all that read it.
Status VcuLowering::EmitPrologue() {
  const Graph& graph = graph_;
  std::vector<bool> wanted(graph.values.size(), false);
  std::set<int> stages;
  for (const WorkItem& item : context_.work[vcu_]) stages.insert(item.stage);
  // Of what is divided a replica has its part ready, also for others alone.
  for (size_t b = 0; b < context_.shards.buckets.size(); ++b) {
    const BucketUse& use = context_.shards.uses[b];
    if (use.read != ReadAs::kCast || MemberOf(static_cast<int>(b)) == kNone) continue;
    for (int s = 0; s < context_.input.plan.pipeline_depth(); ++s) {
      const std::vector<int>& vcus = context_.input.plan.stages[s].vcus;
      if (std::find(vcus.begin(), vcus.end(), vcu_) != vcus.end()) stages.insert(s);
    }
  }
  for (const Node& node : graph.nodes) {
    if (stages.count(context_.analysis.stage[node.id]) == 0) continue;
    for (int v : node.inputs) wanted[v] = true;
  }
  std::vector<int> nodes = NodesFor(graph, context_.analysis.prologue, std::move(wanted));
  std::erase_if(nodes, [&](int id) {
    const std::optional<NodePart> part = PartOfNode(graph, graph.node(id), /*update=*/false);
    return part.has_value() && part->part.empty();
  });
  if (nodes.empty()) return OkStatus();
  Template& t = templates_["prologue"];
  OC_RETURN_IF_ERROR(
      BuildSegment(graph, context_.analysis, "prologue", nodes, /*update=*/false, t));
  EmitCompute(t, "prologue", kNone);
  return OkStatus();
}

Status VcuLowering::EmitCount() {
  const Plan& plan = context_.input.plan;
  const Graph& graph = graph_;
  bool counted = false;
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    const std::vector<int>& nodes = context_.analysis.nodes[s][static_cast<int>(Part::kCount)];
    if (nodes.empty()) continue;
    for (int g = 0; g < plan.micro_batches; ++g) {
      if (plan.stages[s].owner[g] != vcu_) continue;
      EmitFeedsFor({s, Part::kCount, g});
      Template& t = templates_[absl::StrCat("count/", s, "/", counted)];
      if (t.index == kNone) {
        OC_RETURN_IF_ERROR(BuildSegment(graph, context_.analysis,
                                        absl::StrCat("stage ", s, " count"), nodes,
                                        /*update=*/false, t));
      }
      counted = true;
      EmitCompute(t, absl::StrCat("N", g), g);
    }
  }
  if (context_.count_group == kNone || !counted) return OkStatus();
  for (const auto& [a, range] : accumulators_) {
    if (graph.accumulators[a].kind != Accumulator::Kind::kCount) continue;
    EmitSmallSum("count", context_.count_group, range);
  }
  return OkStatus();
}

}  // namespace oc
