// VcuLowering: optimizer states that lie with the host or in a file (ZeRO-Offload, Ren et al. 2021;
// ZeRO-Infinity, Rajbhandari et al. 2021). The update goes bucket by bucket: while one is computed,
// the next one's bytes come and the last one's go, on lanes of their own.
#include <algorithm>

#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {
namespace {

// A bucket is a part of the whole that keeps the copies hidden behind the updates, and not so small
// that each copy's own time counts.
constexpr int64_t kBucketsWanted = 8;
constexpr int64_t kLeastBucket = 64 << 10;

Arena ArenaOf(StateHome home) { return home == StateHome::kFile ? Arena::kFile : Arena::kHost; }

}  // namespace

const VcuOffload& VcuLowering::offload() const { return context_.input.plan.offload_of(vcu_); }

// Runs of whole parameters, in the order of the update's states; their states are neighbours.
Status VcuLowering::PlanStateBuckets() {
  const Graph* update = context_.input.update;
  if (update == nullptr || offload().states == StateHome::kDevice) return OkStatus();
  if (offload().update_on_host && context_.input.plan.shard > 0) {
    return Unimplemented("lower: parallel.shard ", context_.input.plan.shard,
                         " with parallel.offload.update host; use device");
  }
  std::vector<std::string> homes;  // in the order in which they first occur
  std::map<std::string, std::vector<StateEntry>> of_home;
  int64_t total = 0;
  for (const Variable& v : update->states) {
    const Value& value = update->value(v.value);
    const auto holders = context_.holders.find(value.name);
    const std::string& home = context_.update_homes[v.value];
    if (home == value.name || holders == context_.holders.end() ||
        !std::binary_search(holders->second.begin(), holders->second.end(), vcu_)) {
      continue;  // a running statistic is the model's
    }
    OC_ASSIGN_OR_RETURN(const StateEntry entry, EntryOf(value, v, /*model=*/false));
    if (entry.end == 0) continue;  // another replica's
    auto& list = of_home[home];
    if (list.empty()) homes.push_back(home);
    list.push_back(entry);
    total += AlignForArena(entry.range.bytes);
  }
  const int64_t most = context_.options.offload_bucket_bytes;
  const int64_t limit = std::min(most, std::max(kLeastBucket, total / kBucketsWanted));
  const Arena arena = ArenaOf(offload().states);
  int64_t& end = arena == Arena::kFile ? program_.file_bytes : program_.host_bytes;
  for (const std::string& home : homes) {
    int64_t bytes = 0;
    for (const StateEntry& e : of_home[home]) bytes += AlignForArena(e.range.bytes);
    if (buckets_.empty() || buckets_.back().range.bytes + bytes > limit) {
      buckets_.push_back({.range = {arena, end, 0}});
    }
    StateBucket& bucket = buckets_.back();
    bucket.homes.insert(home);
    for (const StateEntry& e : of_home[home]) {
      bucket.states.push_back(e.name);
      offloaded_[e.name] = {arena, end, e.range.bytes};
      end += AlignForArena(e.range.bytes);
    }
    bucket.range.bytes += bytes;
  }
  if (!offload().update_on_host) return OkStatus();
  // Updated where the states lie, parameters need their copies there: in the order of the state
  // arena, so that neighbours stay neighbours.
  for (const Variable& v : graph_.parameters) {
    const Value& value = graph_.value(v.value);
    if (of_home.count(value.name) == 0) continue;
    host_copies_[value.name] = {Arena::kHost, program_.host_bytes, value.type.bytes()};
    program_.host_bytes += AlignForArena(value.type.bytes());
  }
  return OkStatus();
}

// The nodes that make the new values of the parameters in `homes` (null: of all that are in no
// bucket) and their states, but for those in `done`, which grows by them.
std::vector<int> VcuLowering::UpdateNodesOf(const Graph& update, const std::set<std::string>* homes,
                                            std::set<int>& done) const {
  std::vector<bool> wanted(update.values.size(), false);
  for (const auto* list : {&update.parameters, &update.states}) {
    for (const Variable& v : *list) {
      const std::string& home = context_.update_homes[v.value];
      const bool bucketed =
          std::any_of(buckets_.begin(), buckets_.end(),
                      [&](const StateBucket& b) { return b.homes.count(home) != 0; });
      if (homes == nullptr ? bucketed : homes->count(home) == 0) continue;
      const std::string& name = update.value(v.value).name;
      const auto place = context_.shards.parameters.find(name);
      const bool elsewhere = place != context_.shards.parameters.end() &&
                             context_.shards.uses[place->second.bucket].shard > 0 &&
                             PartHere(place->second).empty();
      const bool held = variables_.count(name) != 0 && !elsewhere;
      if (held && v.updated != kNone) wanted[v.updated] = true;
    }
  }
  std::vector<int> nodes;
  for (int id :
       NodesFor(update, context_.update_analysis.nodes[0][static_cast<int>(Part::kBackward)],
                std::move(wanted))) {
    if (done.insert(id).second) nodes.push_back(id);
  }
  return nodes;
}

int VcuLowering::EmitCopy(const std::string& name, SymbolicRange from, SymbolicRange to) {
  const bool file = from.arena == Arena::kFile || to.arena == Arena::kFile;
  const bool out = to.arena == Arena::kFile || to.arena == Arena::kHost;
  return Emit({.kind = CommandKind::kCopy,
               .lane = Lane({file ? LaneKind::kFile : LaneKind::kCopy, out ? 1 : 0}),
               .name = name},
              {from}, {to});
}

// Brings what bucket `b` is updated from to where it is updated.
void VcuLowering::BringBucket(size_t b) {
  StateBucket& bucket = buckets_[b];
  if (bucket.brought) return;
  bucket.brought = true;
  if (!offload().update_on_host) {
    const Range& r = bucket.range;
    bucket.buffer = NewBuffer(r.bytes, MemoryUse::kUpdate);
    EmitCopy(absl::StrCat("states ", b), {kNone, r.offset, r.bytes, r.arena}, Whole(bucket.buffer));
    for (const std::string& name : bucket.states) {
      const Range& state = offloaded_.at(name);
      brought_[name] = {bucket.buffer, state.offset - r.offset, state.bytes};
    }
    return;
  }
  std::vector<std::pair<SymbolicRange, int>> gradients;  // where they lie, accumulator
  for (const auto& [a, place] : context_.shards.sums) {
    const Accumulator& accumulator = graph_.accumulators[a];
    if (bucket.homes.count(graph_.value(accumulator.target).name) == 0) continue;
    gradients.emplace_back(Resolve({RefKind::kAccumulator, a, ""}, kNone, 0), a);
  }
  std::sort(gradients.begin(), gradients.end(), [](const auto& x, const auto& y) {
    return std::pair(x.first.buffer, x.first.offset) < std::pair(y.first.buffer, y.first.offset);
  });
  int64_t bytes = 0;
  for (const auto& [range, a] : gradients) bytes += AlignForArena(range.bytes);
  const int buffer = NewBuffer(bytes, MemoryUse::kOther, Arena::kHost);
  std::vector<std::pair<SymbolicRange, SymbolicRange>> moves;
  int64_t at = 0;
  for (const auto& [range, a] : gradients) {
    host_accumulators_[a] = {buffer, at, range.bytes, Arena::kHost};
    moves.emplace_back(range, host_accumulators_[a]);
    at += AlignForArena(range.bytes);
  }
  EmitCopies(absl::StrCat("gradients ", b), moves);
}

// Copies of what lies in ascending order: neighbours on both sides go as one, with what aligns
// them.
void VcuLowering::EmitCopies(const std::string& name,
                             const std::vector<std::pair<SymbolicRange, SymbolicRange>>& moves) {
  for (size_t i = 0; i < moves.size();) {
    auto [from, to] = moves[i];
    for (++i; i < moves.size(); ++i) {
      const auto& [next_from, next_to] = moves[i];
      const auto behind = [](const SymbolicRange& r, const SymbolicRange& next) {
        return next.buffer == r.buffer && next.offset == r.offset + AlignForArena(r.bytes);
      };
      if (!behind(from, next_from) || !behind(to, next_to)) break;
      from.bytes = next_from.offset + next_from.bytes - from.offset;
      to.bytes = from.bytes;
    }
    EmitCopy(name, from, to);
  }
}

// Takes what bucket `b` was updated to where it lies.
void VcuLowering::ReturnBucket(size_t b) {
  const StateBucket& bucket = buckets_[b];
  if (!offload().update_on_host) {
    const Range& r = bucket.range;
    EmitCopy(absl::StrCat("states ", b), Whole(bucket.buffer), {kNone, r.offset, r.bytes, r.arena});
    sent_buffers_.push_back(bucket.buffer);
    return;
  }
  std::vector<std::pair<SymbolicRange, SymbolicRange>> moves;
  for (const Variable& v : graph_.parameters) {
    const std::string& name = graph_.value(v.value).name;
    if (bucket.homes.count(name) == 0) continue;
    const Range &from = host_copies_.at(name), &to = variables_.at(name);
    moves.emplace_back(SymbolicRange{kNone, from.offset, from.bytes, from.arena},
                       SymbolicRange{kNone, to.offset, to.bytes, to.arena});
  }
  EmitCopies(absl::StrCat("parameters ", b), moves);
}

// The step's scalars and the metrics where the host updates.
void VcuLowering::BringScalars() {
  for (const Value& v : context_.input.update->values) {
    if (v.kind != ValueKind::kScalar || v.scope != Scope::kStep) continue;
    auto [it, is_new] = host_scalars_.try_emplace(v.name, kNone);
    if (!is_new) continue;
    it->second = NewBuffer(v.type.bytes(), MemoryUse::kOther, Arena::kHost);
    EmitFeed(v.name, kNone, Whole(it->second));
  }
  host_metrics_buffer_ = NewBuffer(items_[metrics_buffer_].bytes, MemoryUse::kOther, Arena::kHost);
  EmitCopy("metrics", Whole(metrics_buffer_), Whole(host_metrics_buffer_));
}

void VcuLowering::BringFirstBuckets() {
  // While the gradients are reduced and their norm is taken.
  if (!buckets_.empty()) BringBucket(0);
}

Status VcuLowering::EmitUpdateInBuckets(const Graph& update) {
  const bool on_host = offload().update_on_host;
  std::set<int> done;
  const std::vector<int> others = UpdateNodesOf(update, nullptr, done);
  if (buckets_.empty()) return EmitUpdateAndGather(update, others);
  OC_RETURN_IF_ERROR(EmitUpdateOf(update, others, "update", /*on_host=*/false));
  if (on_host) {
    done.clear();  // what buckets share is computed there again
    BringScalars();
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    BringBucket(b);
    if (b + 1 < buckets_.size()) BringBucket(b + 1);
    OC_RETURN_IF_ERROR(EmitUpdateOf(update, UpdateNodesOf(update, &buckets_[b].homes, done),
                                    absl::StrCat("update ", b), on_host));
    ReturnBucket(b);
  }
  for (int b = 0; b < static_cast<int>(context_.shards.buckets.size()); ++b) {
    if (GathersUpdated(b)) EmitUpdatedGather(b);
  }
  return OkStatus();
}

Status VcuLowering::EmitUpdateOf(const Graph& update, const std::vector<int>& nodes,
                                 const std::string& name, bool on_host) {
  if (nodes.empty()) return OkStatus();
  Template& t = templates_[name];
  t.segment.on_host = on_host;
  OC_RETURN_IF_ERROR(
      BuildSegment(update, context_.update_analysis, name, nodes, /*update=*/true, t));
  EmitCompute(t, name, kNone);
  // With a gradient that is not finite, parameters and states stay as they are.
  const auto& names = context_.metrics;
  if (std::find(names.begin(), names.end(), kNormMetric) != names.end()) {
    pending_.back().command.predicate = kNormMetric;
    pending_.back().reads.push_back(Whole(on_host ? host_metrics_buffer_ : metrics_buffer_));
  }
  return OkStatus();
}

}  // namespace oc
