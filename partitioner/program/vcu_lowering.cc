// VcuLowering: set-up and completion.
#include "openclaw/partitioner/program/vcu_lowering.h"

#include <algorithm>

namespace oc {

Status VcuLowering::PlaceState() {
  const Program* like = context_.options.state_of;
  std::map<std::string, const StateEntry*> known;
  if (like != nullptr) {
    if (vcu_ >= static_cast<int>(like->vcus.size())) {
      return InvalidArgument("lower: the other Program has no VCU ", vcu_);
    }
    for (const StateEntry& e : like->vcus[vcu_].state) known[e.name] = &e;
    program_.state_bytes = like->vcus[vcu_].state_bytes;
    program_.host_bytes = like->vcus[vcu_].host_bytes;
    program_.file_bytes = like->vcus[vcu_].file_bytes;
  } else {
    PlanStateBuckets();
  }
  const auto place = [&](const Graph& graph, const Variable& v, bool model) -> Status {
    const Value& value = graph.value(v.value);
    auto holders = context_.holders.find(value.name);
    if (holders == context_.holders.end() || variables_.count(value.name) != 0 ||
        !std::binary_search(holders->second.begin(), holders->second.end(), vcu_)) {
      return OkStatus();
    }
    StateEntry entry{.name = value.name,
                     .type = value.type,
                     .is_parameter = value.kind == ValueKind::kParameter,
                     .is_model_state = model && value.kind == ValueKind::kState,
                     .init = v.init,
                     .owner = holders->second[0] == vcu_};
    if (like != nullptr) {
      auto it = known.find(value.name);
      if (it == known.end() || !(it->second->type == value.type)) {
        return InvalidArgument("lower: VCU ", program_.name, " holds no ", value.type.ToString(),
                               " ", value.name, " in the other Program");
      }
      entry = *it->second;
    } else if (const auto away = offloaded_.find(value.name); away != offloaded_.end()) {
      entry.range = away->second;
    } else {
      entry.range = {Arena::kState, program_.state_bytes, value.type.bytes()};
      program_.state_bytes += AlignForArena(entry.range.bytes);
    }
    if (const auto copy = host_copies_.find(value.name); copy != host_copies_.end()) {
      entry.host_copy = copy->second;
    }
    variables_[value.name] = entry.range;
    program_.state.push_back(std::move(entry));
    return OkStatus();
  };
  for (const Graph* graph : {&graph_, context_.input.update}) {
    if (graph == nullptr) continue;
    for (const auto* list : {&graph->parameters, &graph->states}) {
      for (const Variable& v : *list) {
        OC_RETURN_IF_ERROR(place(*graph, v, graph == &graph_));
      }
    }
  }
  return OkStatus();
}

void VcuLowering::PlaceAccumulators() {
  const Graph& graph = graph_;
  for (const ReduceGroup& r : context_.reduce_groups) {
    if (std::find(r.vcus.begin(), r.vcus.end(), vcu_) == r.vcus.end()) continue;
    int64_t total = 0;
    std::vector<int64_t> offsets;
    for (int a : r.accumulators) {
      offsets.push_back(total);
      total += AlignForArena(graph.value(graph.accumulators[a].contributions[0]).type.bytes());
    }
    const int buffer = NewBuffer(total, MemoryUse::kGradients);
    for (size_t i = 0; i < r.accumulators.size(); ++i) {
      const Accumulator& a = graph.accumulators[r.accumulators[i]];
      const TensorType& type = graph.value(a.contributions[0]).type;
      accumulators_[r.accumulators[i]] = {buffer, offsets[i], type.bytes()};
      if (a.kind == Accumulator::Kind::kGradient) {
        program_.gradients.push_back(
            {.name = a.name, .type = type, .range = {Arena::kStep, offsets[i], buffer}});
      }
    }
  }
  if (std::find(context_.count_vcus.begin(), context_.count_vcus.end(), vcu_) !=
      context_.count_vcus.end()) {
    for (size_t i = 0; i < graph.accumulators.size(); ++i) {
      if (graph.accumulators[i].kind != Accumulator::Kind::kCount) continue;
      accumulators_[static_cast<int>(i)] = Whole(NewBuffer(4));
    }
  }
}

StatusOr<VcuProgram> VcuLowering::Run() {
  OC_RETURN_IF_ERROR(PlaceState());
  PlaceAccumulators();
  metrics_buffer_ = NewBuffer(4 * (static_cast<int64_t>(context_.metrics.size()) + 1));
  EmitFeed("metrics", kNone, Whole(metrics_buffer_));
  for (const Graph* graph : {&graph_, context_.input.update}) {
    if (graph == nullptr) continue;
    for (const Value& v : graph->values) {
      if (v.kind != ValueKind::kScalar || v.scope != Scope::kStep) continue;
      auto [it, is_new] = scalars_.try_emplace({v.name, kNone}, kNone);
      if (!is_new) continue;
      it->second = NewBuffer(v.type.bytes(), MemoryUse::kFeeds);
      EmitFeed(v.name, kNone, Whole(it->second));
    }
  }
  OC_RETURN_IF_ERROR(EmitPrologue());
  OC_RETURN_IF_ERROR(EmitCount());
  OC_RETURN_IF_ERROR(EmitWork());
  EmitReductions();
  BringFirstBuckets();
  OC_RETURN_IF_ERROR(EmitUpdate());
  // What is fed or summed for the whole step lives to its end.
  ++tick_;
  Touch(Whole(metrics_buffer_));
  for (const auto& [name, buffer] : scalars_) Touch(Whole(buffer));
  for (const auto& [a, range] : accumulators_) Touch(range);
  OC_RETURN_IF_ERROR(Finish(program_));
  return std::move(program_);
}

// Gives the arena's buffers their offsets, behind `begin`; returns where they end.
int64_t VcuLowering::PlaceBuffers(Arena arena, int64_t begin) {
  std::vector<ArenaItem> items;
  std::vector<size_t> ids;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (buffer_arenas_[i] != arena) continue;
    items.push_back(items_[i]);
    ids.push_back(i);
  }
  const int64_t bytes = PlanArena(items);
  if (arena == Arena::kStep) {
    program_.memory = BreakdownAtPeak(items, bytes);
    program_.activation_bytes = PeakOf(items, MemoryUse::kActivations);
  }
  for (size_t i = 0; i < ids.size(); ++i) items_[ids[i]].offset = begin + items[i].offset;
  return begin + bytes;
}

Status VcuLowering::Finish(VcuProgram& program) {
  program.step_bytes = PlaceBuffers(Arena::kStep, 0);
  program.host_bytes = PlaceBuffers(Arena::kHost, program.host_bytes);
  int64_t state = 0;
  for (const StateEntry& e : program.state) {
    if (e.range.arena != Arena::kState) continue;
    const int64_t bytes = AlignForArena(e.range.bytes);
    program.memory[e.is_parameter     ? MemoryUse::kParameters
                   : e.is_model_state ? MemoryUse::kStatistics
                                      : MemoryUse::kOptimizer] += bytes;
    state += bytes;
  }
  // A forward-only Program holds but a part of the state of the training one that it lies in.
  program.memory[MemoryUse::kOther] += program.state_bytes - state;
  const auto fix = [&](const SymbolicRange& r) -> Range {
    if (r.buffer == kNone) return {r.arena, r.offset, r.bytes};
    return {buffer_arenas_[r.buffer], items_[r.buffer].offset + r.offset, r.bytes};
  };
  for (Pending& p : pending_) {
    Command& c = p.command;
    for (const SymbolicRange& r : p.slots) c.slots.push_back(fix(r));
    for (const SymbolicRange& r : p.reads) c.reads.push_back(fix(r));
    for (const SymbolicRange& r : p.writes) c.writes.push_back(fix(r));
    c.reads = MergeRanges(std::move(c.reads));
    if (c.kind != CommandKind::kCollective) c.writes = MergeRanges(std::move(c.writes));
    program.commands.push_back(std::move(c));
  }
  program.metrics = fix(Whole(metrics_buffer_));
  if (host_metrics_buffer_ != kNone) program.host_metrics = fix(Whole(host_metrics_buffer_));
  for (StateEntry& g : program.gradients) {
    const int buffer = static_cast<int>(g.range.bytes);  // set aside by PlaceAccumulators
    g.range = {Arena::kStep, items_[buffer].offset + g.range.offset, g.type.bytes()};
  }
  DeriveWaits(program);
  const VcuSpec& spec = context_.input.cluster.vcus[vcu_];
  const int64_t needed = program.state_bytes + program.step_bytes;
  if (context_.options.keep_budgets && needed > spec.memory_bytes) {
    return ResourceExhausted("VCU ", spec.name, " needs ", needed, " bytes (", program.state_bytes,
                             " of parameters and optimizer, ", program.step_bytes,
                             " for a step), its budget is ", spec.memory_bytes, ": ",
                             needed - spec.memory_bytes, " too many");
  }
  return OkStatus();
}

}  // namespace oc
