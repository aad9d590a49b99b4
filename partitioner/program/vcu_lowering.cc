// VcuLowering: set-up and completion.
#include "openclaw/partitioner/program/vcu_lowering.h"

#include <algorithm>

namespace oc {

// Parameters of a bucket that is divided, or gathered behind the update, lie together.
void VcuLowering::PlaceBlocks() {
  const Shards& s = context_.shards;
  const Program* like = context_.options.state_of;
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    const int member = MemberOf(b);
    if (member == kNone || s.uses[b].shard == 0) continue;
    const ProgramBucket& bucket = s.buckets[b];
    const int64_t size = SizeInBytes(s.uses[b].parameter);
    const int64_t first = bucket.divided ? bucket.pieces[member] : 0;
    const int64_t end = bucket.divided ? bucket.pieces[member + 1] : bucket.elements;
    SymbolicRange block = {kNone, program_.state_bytes, (end - first) * size, Arena::kState};
    if (like == nullptr) {
      program_.state_bytes += AlignForArena(block.bytes);
    } else {
      for (size_t t = 0; t < bucket.names.size(); ++t) {
        for (const StateEntry& e : like->vcus[vcu_].state) {
          if (e.name != bucket.names[t]) continue;
          block.offset = e.range.offset - (bucket.offsets[t] + e.begin - first) * size;
        }
      }
    }
    blocks_[b] = block;
  }
}

// The entry of a variable, without its place; `end` 0: this VCU has nothing of it.
StatusOr<StateEntry> VcuLowering::EntryOf(const Value& value, const Variable& v, bool model) const {
  StateEntry entry{.name = value.name,
                   .type = value.type,
                   .is_parameter = value.kind == ValueKind::kParameter,
                   .is_model_state = model && value.kind == ValueKind::kState,
                   .init = v.init};
  const auto holders = context_.holders.find(value.name);
  if (holders == context_.holders.end() ||
      !std::binary_search(holders->second.begin(), holders->second.end(), vcu_)) {
    return entry;
  }
  entry.end = value.type.shape.num_elements();
  entry.range = {Arena::kState, 0, value.type.bytes()};
  entry.owner = holders->second[0] == vcu_;
  // An optimizer's state is divided as its parameter is updated.
  const Shards& s = context_.shards;
  std::string home = value.name;
  if (s.parameters.count(home) == 0 && context_.input.update != nullptr) {
    const int in_update = context_.input.update->FindValue(value.name);
    if (in_update != kNone) home = context_.update_homes[in_update];
  }
  const auto place = s.parameters.find(home);
  if (place == s.parameters.end() || s.uses[place->second.bucket].shard == 0) return entry;
  const ProgramBucket& bucket = s.buckets[place->second.bucket];
  if (home == value.name && !bucket.divided) return entry;
  const TensorPart part = PartHere(place->second);
  entry.owner = true;
  if (part.empty()) {
    entry.end = 0;
  } else if (part.size() != bucket.sizes[place->second.tensor]) {
    entry.begin = part.begin;
    entry.end = part.end;
    entry.range.bytes = part.size() * SizeInBytes(value.type.dtype);
  }
  return entry;
}

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
    OC_RETURN_IF_ERROR(PlanStateBuckets());
  }
  PlaceBlocks();
  const Shards& s = context_.shards;
  const auto place = [&](const Graph& graph, const Variable& v, bool model) -> Status {
    const Value& value = graph.value(v.value);
    OC_ASSIGN_OR_RETURN(StateEntry entry, EntryOf(value, v, model));
    if (entry.end == 0 && value.type.shape.num_elements() > 0) return OkStatus();
    if (variables_.count(value.name) != 0 || context_.holders.count(value.name) == 0) {
      return OkStatus();
    }
    const auto in_bucket = s.parameters.find(value.name);
    const auto block =
        in_bucket == s.parameters.end() ? blocks_.end() : blocks_.find(in_bucket->second.bucket);
    if (like != nullptr) {
      auto it = known.find(value.name);
      if (it == known.end() || !(it->second->type == value.type)) {
        return InvalidArgument("lower: VCU ", program_.name, " holds no ", value.type.ToString(),
                               " ", value.name, " in the other Program");
      }
      entry = *it->second;
    } else if (const auto away = offloaded_.find(value.name); away != offloaded_.end()) {
      entry.range = away->second;
    } else if (block != blocks_.end()) {
      const ProgramBucket& bucket = s.buckets[block->first];
      const int64_t first = bucket.divided ? bucket.pieces[MemberOf(block->first)] : 0;
      const int64_t at = bucket.offsets[in_bucket->second.tensor] + entry.begin - first;
      entry.range.offset = block->second.offset + at * SizeInBytes(value.type.dtype);
    } else {
      entry.range.offset = program_.state_bytes;
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
  // What is reduced once is there from the first addition to the update.
  for (int b = 0; b < static_cast<int>(context_.shards.buckets.size()); ++b) {
    const BucketUse& use = context_.shards.uses[b];
    if (MemberOf(b) != kNone && use.shard < 2 && !use.accumulators.empty()) SumBuffer(b);
  }
  if (std::find(context_.count_vcus.begin(), context_.count_vcus.end(), vcu_) ==
      context_.count_vcus.end()) {
    return;
  }
  for (size_t i = 0; i < graph.accumulators.size(); ++i) {
    if (graph.accumulators[i].kind != Accumulator::Kind::kCount) continue;
    accumulators_[static_cast<int>(i)] = Whole(NewBuffer(4));
  }
}

// What is there of each gradient behind the last reduction, kept to the end of the step.
void VcuLowering::NoteGradients() {
  const Shards& s = context_.shards;
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    const BucketUse& use = s.uses[b];
    if (MemberOf(b) == kNone || use.accumulators.empty()) continue;
    const auto sums = sum_buffers_.find(b);
    const auto taken = taken_up_.find(b);
    if (sums != sum_buffers_.end()) Touch(Whole(sums->second));
    if (taken != taken_up_.end()) Touch(Whole(taken->second));
    for (size_t t = 0; t < use.accumulators.size(); ++t) {
      const Accumulator& a = graph_.accumulators[use.accumulators[t]];
      if (a.kind != Accumulator::Kind::kGradient) continue;
      const Place place = {b, static_cast<int>(t)};
      const TensorPart part =
          use.shard == 0 ? TensorPart{0, s.buckets[b].sizes[t]} : PartHere(place);
      const bool there = use.shard < 2 ? sums != sum_buffers_.end() : taken != taken_up_.end();
      if (part.empty() || !there) continue;
      program_.gradients.push_back({.name = a.name,
                                    .type = graph_.value(a.contributions[0]).type,
                                    .begin = part.begin,
                                    .end = part.end});
      gradient_ranges_.push_back(
          use.shard == 0 ? TensorIn(place, Whole(sums->second), use.sum)
                         : Resolve({RefKind::kSumPart, use.accumulators[t], ""}, kNone, 0));
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
  EmitGathersOnce(/*of_prologue=*/false);
  OC_RETURN_IF_ERROR(EmitPrologue());
  EmitGathersOnce(/*of_prologue=*/true);
  OC_RETURN_IF_ERROR(EmitCount());
  OC_RETURN_IF_ERROR(EmitWork());
  BringFirstBuckets();
  OC_RETURN_IF_ERROR(EmitUpdate());
  // What is fed or summed for the whole step lives to its end.
  ++tick_;
  Touch(Whole(metrics_buffer_));
  for (const auto& [name, buffer] : scalars_) Touch(Whole(buffer));
  for (const auto& [a, range] : accumulators_) Touch(range);
  NoteGradients();
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
  for (size_t i = 0; i < program.gradients.size(); ++i) {
    program.gradients[i].range = fix(gradient_ranges_[i]);
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
