// VcuLowering: what moves in buckets, and where work is cut for it.
#include <algorithm>

#include "openclaw/graph/sum_chunks.h"
#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {

int VcuLowering::MemberOf(int bucket) const {
  const std::vector<int>& vcus = context_.shards.uses[bucket].vcus;
  const auto at = std::lower_bound(vcus.begin(), vcus.end(), vcu_);
  return at == vcus.end() || *at != vcu_ ? kNone : static_cast<int>(at - vcus.begin());
}

TensorPart VcuLowering::PartHere(const Place& place) const {
  const int member = MemberOf(place.bucket);
  if (member == kNone) return {};
  return PartOf(context_.shards.buckets[place.bucket], place.tensor, member);
}

// This VCU's piece of `whole`, which holds the bucket in elements of the dtype.
VcuLowering::SymbolicRange VcuLowering::PieceOf(int bucket, const SymbolicRange& whole,
                                                DType dtype) const {
  const std::vector<int64_t>& pieces = context_.shards.buckets[bucket].pieces;
  const int member = MemberOf(bucket);
  const int64_t size = SizeInBytes(dtype);
  return {whole.buffer, whole.offset + pieces[member] * size,
          (pieces[member + 1] - pieces[member]) * size};
}

// A tensor in `whole`, which holds its bucket in elements of the dtype.
VcuLowering::SymbolicRange VcuLowering::TensorIn(const Place& place, const SymbolicRange& whole,
                                                 DType dtype) const {
  const ProgramBucket& bucket = context_.shards.buckets[place.bucket];
  const int64_t size = SizeInBytes(dtype);
  return {whole.buffer, whole.offset + bucket.offsets[place.tensor] * size,
          bucket.sizes[place.tensor] * size};
}

int VcuLowering::SumBuffer(int bucket) {
  auto [it, is_new] = sum_buffers_.try_emplace(bucket, kNone);
  if (is_new) {
    it->second = NewBuffer(
        context_.shards.buckets[bucket].elements * SizeInBytes(context_.shards.uses[bucket].sum),
        MemoryUse::kGradients);
  }
  return it->second;
}

VcuLowering::SymbolicRange VcuLowering::ChunkRange(const Place& place, const TensorPart& part) {
  const Shards& s = context_.shards;
  const int group = s.buckets[place.bucket].group;
  int64_t total = 0, at = 0;
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    if (s.buckets[b].group != group) continue;
    for (int t = 0; t < static_cast<int>(s.buckets[b].sizes.size()); ++t) {
      if (b == place.bucket && t == place.tensor) at = total;
      total += SumChunks(s.buckets[b].sizes[t]);
    }
  }
  auto [it, is_new] = chunk_buffers_.try_emplace(group, kNone);
  if (is_new) it->second = NewBuffer(total * SizeInBytes(DType::kF32), MemoryUse::kUpdate);
  const int64_t first = part.begin / kSumChunk;
  return {it->second, (at + first) * SizeInBytes(DType::kF32),
          (SumChunks(part.end) - first) * SizeInBytes(DType::kF32)};
}

VcuLowering::SymbolicRange VcuLowering::ResolveInBucket(const Ref& ref) {
  const Shards& s = context_.shards;
  // A part in a buffer that holds this VCU's piece alone, or the whole bucket.
  const auto part_in = [&](const Place& place, int buffer, bool piece_alone, DType dtype) {
    const ProgramBucket& bucket = s.buckets[place.bucket];
    const TensorPart part = PartHere(place);
    const int64_t first = piece_alone ? bucket.pieces[MemberOf(place.bucket)] : 0;
    const int64_t size = SizeInBytes(dtype);
    return SymbolicRange{buffer, (bucket.offsets[place.tensor] + part.begin - first) * size,
                         part.size() * size};
  };
  const auto piece_buffer = [&](std::map<int, int>& buffers, int b, DType dtype, MemoryUse use) {
    auto [it, is_new] = buffers.try_emplace(b, kNone);
    if (is_new) it->second = NewBuffer(PieceOf(b, {}, dtype).bytes, use);
    return it->second;
  };
  switch (ref.kind) {
    case RefKind::kVariablePart: {
      if (const auto it = brought_.find(ref.name); it != brought_.end()) return it->second;
      const Range& held = variables_.at(ref.name);
      const auto place = s.parameters.find(ref.name);
      if (place == s.parameters.end() || s.buckets[place->second.bucket].divided) {
        return {kNone, held.offset, held.bytes, held.arena};
      }
      const TensorPart part = PartHere(place->second);
      const int64_t size = SizeInBytes(s.uses[place->second.bucket].parameter);
      return {kNone, held.offset + part.begin * size, part.size() * size, held.arena};
    }
    case RefKind::kSumPart: {
      const Place& place = s.sums.at(ref.id);
      const BucketUse& use = s.uses[place.bucket];
      if (use.shard >= 2) return part_in(place, taken_up_.at(place.bucket), true, use.sum);
      return part_in(place, SumBuffer(place.bucket), false, use.sum);
    }
    case RefKind::kCastPart: {
      const Place& place = s.casts.at(ref.id);
      const BucketUse& use = s.uses[place.bucket];
      if (use.windowed) {
        const int buffer = piece_buffer(cast_parts_, place.bucket, use.gathered, MemoryUse::kCasts);
        return part_in(place, buffer, true, use.gathered);
      }
      return part_in(place, GatherBuffer(place.bucket), false, use.gathered);
    }
    case RefKind::kChunksPart:
      return ChunkRange(s.chunks.at(ref.id), PartHere(s.chunks.at(ref.id)));
    case RefKind::kChunks: {
      const Place& place = s.chunks.at(ref.id);
      return ChunkRange(place, {0, s.buckets[place.bucket].sizes[place.tensor]});
    }
    case RefKind::kGathered: {
      const Place& place = s.parameters.at(ref.name);
      return TensorIn(place, Whole(gathered_.at(place.bucket)), s.uses[place.bucket].gathered);
    }
    case RefKind::kReduced:
      return taking_up_;
    case RefKind::kTakenUp:
      return Whole(piece_buffer(taken_up_, ref.id, s.uses[ref.id].sum, MemoryUse::kGradients));
    default:
      break;
  }
  OC_CHECK(false, "no place for a slot of kind ", static_cast<int>(ref.kind));
  return {};
}

// Where the bucket is gathered once a step.
int VcuLowering::GatherBuffer(int bucket) {
  auto [it, is_new] = gathered_.try_emplace(bucket, kNone);
  if (is_new) {
    const BucketUse& use = context_.shards.uses[bucket];
    it->second = NewBuffer(context_.shards.buckets[bucket].elements * SizeInBytes(use.gathered),
                           use.read == ReadAs::kCast ? MemoryUse::kCasts : MemoryUse::kParameters);
  }
  return it->second;
}

void VcuLowering::EmitZeros(const SymbolicRange& range) { EmitFeed(kZeros, kNone, range); }

void VcuLowering::EmitCollective(int bucket, CollectiveOp op, const std::string& name, DType dtype,
                                 const SymbolicRange& read, const SymbolicRange& data) {
  const Shards& s = context_.shards;
  const ProgramBucket& moved = s.buckets[bucket];
  std::vector<SymbolicRange> writes = {data};
  if (op != CollectiveOp::kAllGather) {
    // One for all buckets of the group, which are reduced one after the other.
    auto [it, is_new] = scratch_.try_emplace(moved.group, kNone);
    if (is_new) {
      int64_t bytes = 0;
      for (size_t b = 0; b < s.buckets.size(); ++b) {
        if (s.buckets[b].group != moved.group) continue;
        bytes = std::max(bytes, context_.options.scratch_bytes(
                                    static_cast<int>(s.uses[b].vcus.size()),
                                    s.buckets[b].elements * SizeInBytes(s.uses[b].sum),
                                    s.uses[b].sum, s.buckets[b].pieces));
      }
      it->second = NewBuffer(bytes, MemoryUse::kCommunication);
    }
    writes.push_back(Whole(it->second));
  }
  Emit({.kind = CommandKind::kCollective,
        .lane = Lane({LaneKind::kGroup, moved.group}),
        .name = name,
        .group = moved.group,
        .op = op,
        .pieces = moved.pieces,
        .bucket = bucket,
        .dtype = dtype},
       {read}, std::move(writes));
}

void VcuLowering::EmitReduction(int bucket, CollectiveOp op) {
  const SymbolicRange data = Whole(SumBuffer(bucket));
  EmitCollective(bucket, op, absl::StrCat("gradients ", bucket), context_.shards.uses[bucket].sum,
                 data, data);
}

// The bucket whole: into a buffer of its own for one use, or into the one of the step.
void VcuLowering::EmitGather(int bucket) {
  const BucketUse& use = context_.shards.uses[bucket];
  const std::string name = absl::StrCat("parameters ", bucket);
  if (use.windowed) gathered_.erase(bucket);
  const SymbolicRange whole = Whole(GatherBuffer(bucket));
  SymbolicRange own = PieceOf(bucket, whole, use.gathered);
  if (use.read != ReadAs::kCast) {
    own = blocks_.at(bucket);
  } else if (use.windowed && own.bytes > 0) {
    own = Whole(cast_parts_.at(bucket));
  }
  EmitCollective(bucket, CollectiveOp::kAllGather, name, use.gathered, own, whole);
}

// What is gathered once a step: before the prologue, which may read it, or what the prologue made.
// The last buckets hold what forward reads first.
void VcuLowering::EmitGathersOnce(bool of_prologue) {
  const Shards& s = context_.shards;
  for (int b = static_cast<int>(s.buckets.size()) - 1; b >= 0; --b) {
    const bool once = s.buckets[b].divided && !s.uses[b].windowed && MemberOf(b) != kNone;
    if (once && (s.uses[b].read == ReadAs::kCast) == of_prologue) EmitGather(b);
  }
}

// A round's sums, of which this VCU keeps its piece; `absent`: it has added nothing to them.
void VcuLowering::ReduceRound(int bucket, bool absent) {
  if (absent) EmitZeros(Whole(SumBuffer(bucket)));
  EmitReduction(bucket, CollectiveOp::kReduceScatter);
  const BucketUse& use = context_.shards.uses[bucket];
  rounds_.push_back({bucket, PieceOf(bucket, Whole(SumBuffer(bucket)), use.sum)});
  sum_buffers_.erase(bucket);
  for (int a : use.accumulators) initialized_[a] = false;
}

// Adds what was reduced to what the VCU keeps, but for the newest `keep`.
Status VcuLowering::TakeUp(size_t keep) {
  while (rounds_.size() > keep) {
    const Reduced reduced = rounds_.front();
    rounds_.erase(rounds_.begin());
    if (reduced.piece.bytes == 0) continue;
    const DType dtype = context_.shards.uses[reduced.bucket].sum;
    const bool first = taken_up_.count(reduced.bucket) == 0;
    const char* op = first ? "copy" : "accumulate";
    Template& t = templates_[absl::StrCat("take up ", reduced.bucket, " ", op)];
    if (t.index == kNone) {
      t.segment.name = absl::StrCat("take up gradients ", reduced.bucket);
      const TensorType type = {dtype, {reduced.piece.bytes / SizeInBytes(dtype)}};
      Node node;
      node.phase = Phase::kWeightGrad;
      OC_RETURN_IF_ERROR(AddCombine(op, {RefKind::kTakenUp, reduced.bucket, ""},
                                    {RefKind::kReduced, reduced.bucket, ""}, type, graph_, node,
                                    t));
      OC_RETURN_IF_ERROR(FinishSegment(/*update=*/false, t));
    }
    taking_up_ = reduced.piece;
    EmitCompute(t, absl::StrCat("sum ", reduced.bucket), kNone);
  }
  return OkStatus();
}

const VcuLowering::Events& VcuLowering::EventsOf(int stage, Part part) {
  const auto [it, is_new] = events_.try_emplace({stage, part});
  Events& events = it->second;
  if (!is_new) return events;
  const Shards& s = context_.shards;
  const StageAnalysis& a = context_.analysis;
  const std::vector<int>& nodes = a.nodes[stage][static_cast<int>(part)];
  std::set<int> used;
  std::map<int, int> ends;  // bucket -> behind its last node
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph_.node(nodes[i]);
    for (int v : node.inputs) {
      const Value& root = graph_.value(a.root[v]);
      int b = kNone;
      if (root.kind == ValueKind::kParameter) {
        const auto place = s.parameters.find(root.name);
        if (place != s.parameters.end()) b = place->second.bucket;
      } else if (const auto place = s.casts.find(root.id); place != s.casts.end()) {
        b = place->second.bucket;
      }
      if (b == kNone || !s.uses[b].windowed || !used.insert(b).second) continue;
      events.uses.emplace_back(static_cast<int>(i), b);
    }
    for (int v : node.outputs) {
      for (int sum : a.accumulators[v]) {
        const auto place = s.sums.find(sum);
        if (place == s.sums.end() || s.uses[place->second.bucket].shard < 2) continue;
        ends[place->second.bucket] = static_cast<int>(i) + 1;
      }
    }
  }
  // The buckets of a group in their order.
  std::map<int, int> latest;
  for (const auto& [b, end] : ends) {
    int& last = latest[s.buckets[b].group];
    last = std::max(last, end);
    events.ends.emplace_back(last, b);
  }
  std::sort(events.ends.begin(), events.ends.end());
  return events;
}

// For each work item, the buckets that are reduced once and final in it: (behind how many of its
// nodes, bucket). The buckets of a group keep their order.
std::vector<std::vector<std::pair<int, int>>> VcuLowering::FindFinals() const {
  const Shards& s = context_.shards;
  const StageAnalysis& a = context_.analysis;
  const std::vector<WorkItem>& work = context_.work[vcu_];
  std::map<std::tuple<int, Part, int>, int> ends;  // (stage, part, bucket)
  for (int stage = 0; stage < static_cast<int>(a.nodes.size()); ++stage) {
    for (int part = 0; part < kParts; ++part) {
      const std::vector<int>& nodes = a.nodes[stage][part];
      for (size_t i = 0; i < nodes.size(); ++i) {
        for (int v : graph_.node(nodes[i]).outputs) {
          for (int sum : a.accumulators[v]) {
            const auto place = s.sums.find(sum);
            if (place == s.sums.end()) continue;
            ends[{stage, static_cast<Part>(part), place->second.bucket}] = static_cast<int>(i) + 1;
          }
        }
      }
    }
  }
  std::vector<std::vector<std::pair<int, int>>> finals(work.size());
  if (!context_.options.overlap_reductions) return finals;
  std::map<int, std::pair<int, int>> latest;  // by group: (item, behind)
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    if (s.buckets[b].group == kNone || s.uses[b].shard >= 2 || MemberOf(b) == kNone) continue;
    std::pair<int, int> final = {static_cast<int>(work.size()), 0};
    for (int k = static_cast<int>(work.size()) - 1; k >= 0; --k) {
      const auto end = ends.find({work[k].stage, work[k].part, b});
      if (end == ends.end()) continue;
      final = {k, end->second};
      break;
    }
    std::pair<int, int>& last = latest.try_emplace(s.buckets[b].group, -1, 0).first->second;
    last = std::max(last, final);
    if (last.first < static_cast<int>(work.size())) finals[last.first].emplace_back(last.second, b);
  }
  for (auto& list : finals) std::stable_sort(list.begin(), list.end());
  return finals;
}

// Takes part in what other replicas of the stage do before `round` (null: to the end).
Status VcuLowering::MeetUntil(int stage, const Round* round) {
  const std::vector<Round>& rounds = context_.shards.rounds[stage];
  size_t& met = met_[stage];
  for (; met < rounds.size() && (round == nullptr || !(rounds[met] == *round)); ++met) {
    OC_RETURN_IF_ERROR(EmitParts({stage, rounds[met].part, kNone}, std::nullopt, {}));
  }
  return OkStatus();
}

Status VcuLowering::EmitItem(size_t k, const std::vector<std::pair<int, int>>& finals) {
  const WorkItem& item = context_.work[vcu_][k];
  const std::vector<Round>& rounds = context_.shards.rounds[item.stage];
  const bool meets = std::any_of(rounds.begin(), rounds.end(),
                                 [&](const Round& r) { return r.part == item.part; });
  if (!meets) return EmitParts(item, k, finals);
  const Round round = {item.part, numbers_[{item.stage, item.part}]++};
  OC_RETURN_IF_ERROR(MeetUntil(item.stage, &round));
  OC_RETURN_IF_ERROR(EmitParts(item, k, finals));
  ++met_[item.stage];
  return OkStatus();
}

// The nodes of an item, the VCU's k-th, cut where buckets are gathered or reduced, and where values
// go to the host and come from there: what is gathered is there one use ahead, and a reduction goes
// on while the next nodes run. Every replica of the stage does the same on the lanes of the groups;
// one that is absent (without k) has no nodes to run.
Status VcuLowering::EmitParts(const WorkItem& item, std::optional<size_t> k,
                              const std::vector<std::pair<int, int>>& finals) {
  const std::vector<int>& nodes = context_.analysis.nodes[item.stage][static_cast<int>(item.part)];
  const Events events = EventsOf(item.stage, item.part);
  const int n = static_cast<int>(nodes.size());
  std::set<int> cuts = {0};
  for (const auto* list : {&events.uses, &events.ends, &finals}) {
    for (const auto& [at, bucket] : *list) {
      if (at < n) cuts.insert(at);
    }
  }
  const bool absent = !k.has_value();
  if (!absent) {
    for (int at : CutsOf(item)) cuts.insert(at);
  }
  const int ahead = ahead_.try_emplace(item.stage, kNone).first->second;
  size_t gathered = 0, ended = 0, final = 0;
  int number = 0;
  for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
    const int begin = *cut, end = std::next(cut) == cuts.end() ? n : *std::next(cut);
    const auto& uses = events.uses;
    while (gathered < uses.size() && (gathered == 0 || uses[gathered - 1].first < end)) {
      const int bucket = uses[gathered++].second;
      if (gathered > 1 || bucket != ahead) EmitGather(bucket);
    }
    if (std::next(cut) == cuts.end()) GatherAhead(item.stage, uses);
    if (!absent) {
      const bool last = std::next(cut) == cuts.end();
      const auto behind = last ? cuts.end() : std::next(cut, 2);
      BringActivations(*k, last ? end : behind == cuts.end() ? n : *behind);
      if (last) BringFirstActivations(*k + 1);
      const std::string suffix = cuts.size() > 1 ? absl::StrCat(".", number++) : "";
      OC_RETURN_IF_ERROR(EmitNodes(item, {nodes.begin() + begin, nodes.begin() + end}, suffix));
      TakeActivations(*k, begin, end);
      OC_RETURN_IF_ERROR(TakeUp(0));
    }
    for (; ended < events.ends.size() && events.ends[ended].first <= end; ++ended) {
      if (absent) OC_RETURN_IF_ERROR(TakeUp(1));
      ReduceRound(events.ends[ended].second, absent);
    }
    for (; final < finals.size() && finals[final].first <= end; ++final) {
      ReduceOnce(finals[final].second);
    }
  }
  return OkStatus();
}

// What the stage's next round uses first: kept where this one, whose last nodes come now, has it.
void VcuLowering::GatherAhead(int stage, const std::vector<std::pair<int, int>>& uses) {
  const std::vector<Round>& rounds = context_.shards.rounds[stage];
  const size_t next = met_[stage] + 1;
  ahead_[stage] = kNone;
  if (next >= rounds.size()) return;
  const auto& first = EventsOf(stage, rounds[next].part).uses;
  if (first.empty()) return;
  const int bucket = first[0].second;
  const bool here =
      std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use.second == bucket; });
  if (!here) EmitGather(bucket);
  ahead_[stage] = bucket;
}

void VcuLowering::ReduceOnce(int bucket) {
  EmitReduction(bucket, context_.shards.uses[bucket].shard == 0 ? CollectiveOp::kAllReduce
                                                                : CollectiveOp::kReduceScatter);
  reduced_.insert(bucket);
}

// Behind all work of this VCU.
Status VcuLowering::FinishReductions() {
  const Shards& s = context_.shards;
  for (int stage = 0; stage < context_.input.plan.pipeline_depth(); ++stage) {
    const std::vector<int>& vcus = context_.input.plan.stages[stage].vcus;
    if (std::find(vcus.begin(), vcus.end(), vcu_) == vcus.end()) continue;
    OC_RETURN_IF_ERROR(MeetUntil(stage, nullptr));
  }
  OC_RETURN_IF_ERROR(TakeUp(0));
  for (int b = 0; b < static_cast<int>(s.buckets.size()); ++b) {
    const BucketUse& use = s.uses[b];
    if (s.buckets[b].group == kNone || use.accumulators.empty() || use.shard >= 2 ||
        MemberOf(b) == kNone || reduced_.count(b) != 0) {
      continue;
    }
    const bool added = std::any_of(use.accumulators.begin(), use.accumulators.end(),
                                   [&](int a) { return initialized_[a]; });
    if (!added) EmitZeros(Whole(SumBuffer(b)));
    ReduceOnce(b);
  }
  // No work waits for a reduction because it took its scratch.
  for (const auto& [group, buffer] : scratch_) Touch(Whole(buffer));
  return OkStatus();
}

}  // namespace oc
