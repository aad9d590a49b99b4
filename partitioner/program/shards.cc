#include "openclaw/partitioner/program/shards.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {

int AddGroup(Program& program, const std::vector<int>& vcus, const std::string& name) {
  if (vcus.size() < 2) return kNone;
  program.groups.push_back({vcus, name});
  return static_cast<int>(program.groups.size()) - 1;
}

namespace {

// How a parameter is read: which stages, and as what.
struct Reading {
  ReadAs as = ReadAs::kVariable;
  int cast = kNone;      // value of kCast
  std::set<int> stages;  // of all that read it, or what the prologue makes of it
};

class Readings {
 public:
  explicit Readings(const LoweringContext& c) : c_(c), graph_(c.input.graph) {
    readers_.resize(graph_.values.size());
    for (const Node& node : graph_.nodes) {
      for (int v : node.inputs) readers_[c.analysis.root[v]].push_back(node.id);
    }
  }

  Reading Of(int parameter, const std::vector<int>& holders) const {
    Reading r;
    int prologue = 0, others = 0;
    for (int id : readers_[parameter]) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::kPrologue) {
        ++others;
        r.stages.insert(c_.analysis.stage[id]);
        continue;
      }
      ++prologue;
      const int made = c_.analysis.root[node.outputs[0]];
      if (!IsCast(node, parameter, made)) r.as = ReadAs::kOther;
      r.cast = made;
      for (int reader : readers_[made]) {
        if (graph_.node(reader).phase == Phase::kPrologue) r.as = ReadAs::kOther;
        r.stages.insert(c_.analysis.stage[reader]);
      }
    }
    if (prologue == 0) return r;
    if (r.as == ReadAs::kOther || prologue > 1 || others > 0 || !SameType(r.cast, holders)) {
      r.as = ReadAs::kOther;
    } else {
      r.as = ReadAs::kCast;
    }
    return r;
  }

 private:
  bool IsCast(const Node& node, int parameter, int made) const {
    return node.def->parts == OpDef::Parts::kElements && node.inputs.size() == 1 &&
           node.outputs.size() == 1 && node.inputs[0] == parameter && made == node.outputs[0];
  }
  bool SameType(int value, const std::vector<int>& holders) const {
    return std::all_of(holders.begin(), holders.end(), [&](int vcu) {
      return c_.graphs[vcu]->value(value).type.dtype ==
             c_.graphs[holders[0]]->value(value).type.dtype;
    });
  }

  const LoweringContext& c_;
  const Graph& graph_;
  std::vector<std::vector<int>> readers_;  // by root
};

// The sums of chunks that a norm adds up, by value of the update; nullopt where its contribution v
// comes about otherwise.
std::optional<int> ChunksOf(const Graph& update, const std::vector<std::vector<int>>& users,
                            int v) {
  const Node& sum = update.node(update.value(v).producer);
  if (sum.def->lists != OpDef::Lists::kSum || sum.inputs.size() != 1) return std::nullopt;
  const Value& chunks = update.value(sum.inputs[0]);
  if (chunks.producer == kNone || users[chunks.id].size() != 1) return std::nullopt;
  const Node& node = update.node(chunks.producer);
  const bool of_gradient =
      node.inputs.size() == 1 && update.value(node.inputs[0]).kind == ValueKind::kReduced;
  if (node.def->parts != OpDef::Parts::kChunks || !of_gradient) return std::nullopt;
  return chunks.id;
}

// Parameters of which every update node goes element by element, or is of the norm.
std::set<std::string> MayCut(const LoweringContext& c, const std::map<int, std::string>& chunks) {
  std::set<std::string> may, whole;
  if (c.input.update == nullptr) return may;
  const Graph& update = *c.input.update;
  const StageAnalysis& analysis = c.update_analysis;
  for (const Node& node : update.nodes) {
    const std::string& home = c.update_homes[node.outputs[0]];
    if (home.empty()) continue;
    may.insert(home);
    const bool of_norm = chunks.count(node.outputs[0]) != 0 ||
                         (node.inputs.size() == 1 && chunks.count(node.inputs[0]) != 0);
    if (of_norm) continue;
    if (node.def->parts != OpDef::Parts::kElements) whole.insert(home);
    // Operands of one shape, but for what all elements share.
    const Shape& shape = update.value(node.outputs[0]).type.shape;
    for (int v : node.inputs) {
      const bool shared = c.update_homes[analysis.root[v]].empty();
      if (!shared && !(update.value(v).type.shape == shape)) whole.insert(home);
    }
  }
  for (const std::string& name : whole) may.erase(name);
  return may;
}

// What tensors must have in common to be in one bucket.
struct GroupKey {
  std::vector<int> holders;
  DType sum, parameter, gathered;
  bool state;
  int stage;
  ReadAs read;
  bool operator<(const GroupKey& o) const {
    return std::tie(holders, sum, parameter, gathered, state, stage, read) <
           std::tie(o.holders, o.sum, o.parameter, o.gathered, o.state, o.stage, o.read);
  }
};

struct Member {
  int accumulator = kNone;
  int cast = kNone;
};

std::vector<double> WeightsOf(const Plan& plan, const std::vector<int>& vcus) {
  std::vector<double> weights(vcus.size(), 1);
  for (size_t i = 0; i < vcus.size() && !plan.shard_weights.empty(); ++i) {
    weights[i] = plan.shard_weights[vcus[i]];
  }
  return weights;
}

BucketUse UseOf(const LoweringContext& c, const GroupKey& key) {
  BucketUse use{.vcus = key.holders,
                .stage = key.stage,
                .read = key.read,
                .parameter = key.parameter,
                .sum = key.sum,
                .gathered = key.gathered};
  if (key.state || key.holders.size() < 2) return use;
  // Several stages reach their backwards at unlike times: they reduce once.
  use.shard = key.stage == kNone ? std::min(c.input.plan.shard, 1) : c.input.plan.shard;
  use.windowed = use.shard == 3 && key.read != ReadAs::kOther;
  return use;
}

void AddBucket(Shards& s, ProgramBucket bucket, BucketUse use) {
  const int index = static_cast<int>(s.buckets.size());
  bucket.divided = use.divided();
  for (size_t t = 0; t < bucket.names.size(); ++t) {
    s.parameters[bucket.names[t]] = {index, static_cast<int>(t)};
    if (!use.accumulators.empty()) s.sums[use.accumulators[t]] = {index, static_cast<int>(t)};
  }
  s.buckets.push_back(std::move(bucket));
  s.uses.push_back(std::move(use));
}

// The buckets of a training step, from the sums of its graph.
void FindTrainingBuckets(LoweringContext& c, const std::set<std::string>& may_cut,
                         Program& program) {
  const Graph& graph = c.input.graph;
  const Readings readings(c);
  std::map<GroupKey, std::vector<Member>> groups;
  for (size_t i = 0; i < graph.accumulators.size(); ++i) {
    const Accumulator& a = graph.accumulators[i];
    if (a.target == kNone || a.contributions.empty()) continue;
    const Value& target = graph.value(a.target);
    const std::vector<int>& holders = c.holders.at(target.name);
    Reading reading = readings.Of(a.target, holders);
    for (int v : a.contributions) {
      reading.stages.insert(c.analysis.stage[graph.value(v).producer]);
    }
    GroupKey key{.holders = holders,
                 .sum = graph.value(a.contributions[0]).type.dtype,
                 .parameter = target.type.dtype,
                 .gathered = target.type.dtype,
                 .state = a.kind != Accumulator::Kind::kGradient,
                 .stage = reading.stages.size() == 1 ? *reading.stages.begin() : kNone,
                 .read = reading.as};
    if (reading.as == ReadAs::kCast) {
      key.gathered = c.graphs[holders[0]]->value(reading.cast).type.dtype;
    }
    groups[key].push_back({static_cast<int>(i), reading.cast});
  }
  for (auto& [key, members] : groups) {
    // The last contribution's place in the graph tells when a sum is final.
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      return graph.accumulators[a.accumulator].contributions.back() <
             graph.accumulators[b.accumulator].contributions.back();
    });
    std::vector<BucketTensor> tensors;
    for (const Member& m : members) {
      const Accumulator& a = graph.accumulators[m.accumulator];
      const Value& target = graph.value(a.target);
      tensors.push_back(
          {target.name, a.name, target.type.shape.num_elements(), may_cut.count(target.name) != 0});
    }
    const int group = AddGroup(program, key.holders,
                               absl::StrCat("gradients of ", tensors[0].name, " and others"));
    const std::vector<ProgramBucket> made =
        MakeBuckets(tensors, {.bytes = c.options.bucket_bytes,
                              .element_bytes = SizeInBytes(key.sum),
                              .weights = WeightsOf(c.input.plan, key.holders)});
    size_t next = 0;
    for (ProgramBucket bucket : made) {
      BucketUse use = UseOf(c, key);
      bucket.group = group;
      for (size_t t = 0; t < bucket.names.size(); ++t, ++next) {
        use.accumulators.push_back(members[next].accumulator);
        if (use.divided() && use.read == ReadAs::kCast) {
          c.shards.casts[members[next].cast] = {static_cast<int>(c.shards.buckets.size()),
                                                static_cast<int>(t)};
        }
      }
      AddBucket(c.shards, std::move(bucket), std::move(use));
    }
  }
}

// Of a Program that shares the state of another: the buckets whose parameters are divided there.
void FindSharedBuckets(LoweringContext& c, const Program& like, Program& program) {
  const Graph& graph = c.input.graph;
  const Readings readings(c);
  std::map<int, int> groups;  // there -> here
  for (const ProgramBucket& theirs : like.buckets) {
    if (!theirs.divided) continue;
    BucketUse use{.vcus = like.groups[theirs.group].vcus, .shard = 3};
    std::set<int> stages;
    std::vector<int> casts(theirs.names.size(), kNone);
    bool all = true, any = false;  // read as a cast
    for (size_t t = 0; t < theirs.names.size(); ++t) {
      const int v = graph.FindValue(theirs.names[t]);
      if (v == kNone) continue;
      use.parameter = use.gathered = graph.value(v).type.dtype;
      const Reading reading = readings.Of(v, use.vcus);
      if (reading.stages.empty()) continue;
      stages.insert(reading.stages.begin(), reading.stages.end());
      any |= reading.as != ReadAs::kVariable;
      all &= reading.as == ReadAs::kCast;
      casts[t] = reading.cast;
    }
    if (stages.empty()) continue;
    use.read = !any ? ReadAs::kVariable : all ? ReadAs::kCast : ReadAs::kOther;
    if (use.read == ReadAs::kCast) {
      for (size_t t = 0; t < casts.size(); ++t) {
        if (casts[t] == kNone) continue;
        use.gathered = c.graphs[use.vcus[0]]->value(casts[t]).type.dtype;
        c.shards.casts[casts[t]] = {static_cast<int>(c.shards.buckets.size()), static_cast<int>(t)};
      }
    }
    use.stage = stages.size() == 1 ? *stages.begin() : kNone;
    use.windowed = use.stage != kNone && use.read != ReadAs::kOther;
    ProgramBucket bucket = theirs;
    const auto [group, is_new] = groups.try_emplace(theirs.group, kNone);
    if (is_new) {
      group->second =
          AddGroup(program, use.vcus, absl::StrCat("parameters ", bucket.names[0], " and others"));
    }
    bucket.group = group->second;
    AddBucket(c.shards, bucket, std::move(use));
    c.shards.buckets.back().divided = true;
  }
}

// The order in which the replicas of each stage meet.
Status FindRounds(LoweringContext& c) {
  const Plan& plan = c.input.plan;
  c.shards.rounds.resize(plan.stages.size());
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    bool reduce = false, gather = false;
    for (const BucketUse& use : c.shards.uses) {
      if (use.stage != s) continue;
      reduce |= use.shard >= 2;
      gather |= use.windowed;
    }
    if (!reduce && !gather) continue;
    std::vector<std::vector<Round>> orders;
    for (int vcu : plan.stages[s].vcus) {
      std::vector<Round>& order = orders.emplace_back();
      int numbers[kParts] = {};
      for (const WorkItem& item : c.work[vcu]) {
        if (item.stage != s || (item.part == Part::kForward && !gather)) continue;
        order.push_back({item.part, numbers[static_cast<int>(item.part)]++});
      }
    }
    const std::vector<Round>& longest =
        *std::max_element(orders.begin(), orders.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const std::vector<Round>& order : orders) {
      auto at = longest.begin();
      for (const Round& round : order) {
        at = std::find(at, longest.end(), round);
        if (at == longest.end()) {
          return Unimplemented("lower: parallel.shard ", plan.shard, " on stage ", s,
                               ", whose replicas take forwards and backwards in unlike orders; use "
                               "shard 2 or less, or another schedule");
        }
        ++at;
      }
    }
    c.shards.rounds[s] = longest;
  }
  return OkStatus();
}

}  // namespace

Status FindShards(LoweringContext& c, Program& program) {
  std::map<int, std::string> chunks;  // value of the update -> whose gradient's
  std::set<std::string> other_norms;
  if (const Graph* update = c.input.update) {
    const std::vector<std::vector<int>> users = update->Users();
    for (const Accumulator& a : update->accumulators) {
      for (int v : a.contributions) {
        const std::optional<int> found = ChunksOf(*update, users, v);
        if (found.has_value()) {
          chunks[*found] = c.update_homes[v];
        } else {
          other_norms.insert(c.update_homes[v]);
        }
      }
    }
  }
  if (c.options.state_of != nullptr) {
    FindSharedBuckets(c, *c.options.state_of, program);
  } else {
    FindTrainingBuckets(c, MayCut(c, chunks), program);
  }
  for (const auto& [v, name] : chunks) {
    const Place place = c.shards.parameters.at(name);
    if (c.shards.uses[place.bucket].shard > 0) c.shards.chunks[v] = place;
  }
  for (const std::string& name : other_norms) {
    const auto place = c.shards.parameters.find(name);
    if (place == c.shards.parameters.end() || c.shards.uses[place->second.bucket].shard == 0) {
      continue;
    }
    return Unimplemented("lower: parallel.shard ", c.input.plan.shard,
                         " with a norm of the gradient ", "of ", name,
                         " that is no sum over its chunks");
  }
  program.buckets = c.shards.buckets;
  return FindRounds(c);
}

}  // namespace oc
