#include "openclaw/partitioner/recompute_choices.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/program/arena.h"
#include "openclaw/partitioner/program/saved_values.h"

namespace oc {
namespace {

constexpr int kLongGroup = 24;
constexpr int kMostNarrow = 96;       // places at which long groups begin and end
constexpr size_t kMostTrades = 1024;  // at a place, before those that are close are joined
constexpr int kCells = 400;           // of the bytes of all activations: how close that is
constexpr int kNever = std::numeric_limits<int>::max();

// A value of the stage's forward; views count as what they view.
struct StageValue {
  int64_t bytes = 0;
  int made = kNone;             // by the node at this place; kNone: another stage's
  int last_forward = kNone;     // the last place that reads it
  std::vector<int> readers;     // places, ascending
  int first_backward = kNever;  // ticks of backward that read it
  int last_backward = kNone;
  bool away = false;  // between forward and backward
  bool for_backward() const { return last_backward != kNone; }
};

struct StageNode {
  int id = kNone;
  double seconds = 0;
  int64_t workspace = 0;
  bool may_repeat = true;            // and is to: what waits elsewhere is not
  std::vector<int> inputs, outputs;  // values
  std::vector<int> reuse;            // by output: the value whose memory it may take, or kNone
};

// What a group of nodes does to memory and time.
struct Group {
  double seconds = 0;
  int64_t kept = 0;   // what it adds to what is kept
  int64_t local = 0;  // its own at its fullest, in forward or backward, beside what was kept before
  std::vector<int> repeated;  // node ids
};

class StageModel {
 public:
  static StatusOr<StageModel> Create(const RecomputeQuery& query);

  int places() const { return static_cast<int>(nodes_.size()); }
  int64_t received() const { return received_; }
  int64_t all_bytes() const { return all_bytes_; }
  // The nodes from place `begin` to before `end` as one group.
  Group GroupOf(int begin, int end) const;
  // Places where no less crosses to the next node than beside them.
  std::vector<int> NarrowPlaces() const;

 private:
  explicit StageModel(const RecomputeQuery& query)
      : q_(query), values_(query.graph.values.size()) {}
  Status AddForward();
  Status AddBackward();
  void FindRanges();
  int Source(int v) const;
  StatusOr<CostEntry> CostOfNode(const Node& node) const;
  bool IsAway(const Node& node, int v) const;

  const RecomputeQuery& q_;
  std::vector<StageValue> values_;  // by the graph's ids
  std::vector<StageNode> nodes_;
  int64_t received_ = 0, all_bytes_ = 0;
  int ticks_ = 0;                           // nodes of backward
  std::vector<int64_t> during_, before_;    // by tick: what backward makes that is alive then
  std::vector<int> first_tick_;             // by place: the first tick after all of what is
                                            // made from there on has been read
  std::vector<int64_t> forward_;            // by place: what forward itself needs then
  std::vector<std::vector<int>> crossing_;  // by place: values made before and read from there on
};

int StageModel::Source(int v) const {
  while (q_.graph.value(v).producer != kNone &&
         q_.graph.node(q_.graph.value(v).producer).def->is_view) {
    v = q_.graph.node(q_.graph.value(v).producer).inputs[0];
  }
  return v;
}

StatusOr<CostEntry> StageModel::CostOfNode(const Node& node) const {
  std::vector<TensorType> inputs;
  for (int v : node.inputs) inputs.push_back(q_.graph.value(v).type);
  auto cost = CostOf({node.def, node.attrs, inputs}, q_.kind, q_.costs);
  if (!cost.ok()) return Annotate(cost.status(), "plan");
  return cost;
}

// As SavedValues has it.
bool StageModel::IsAway(const Node& node, int v) const {
  const Value& value = q_.graph.value(v);
  return std::binary_search(q_.away.begin(), q_.away.end(), node.origin) && !value.opaque &&
         value.type.bytes() >= kLeastSavedValue && q_.analysis.root[v] == v &&
         q_.analysis.readers[v].empty() && q_.analysis.fetched.count(v) == 0;
}

Status StageModel::AddForward() {
  const Graph& g = q_.graph;
  for (int id : q_.analysis.nodes[q_.stage][static_cast<int>(Part::kForward)]) {
    const Node& node = g.node(id);
    if (node.def->is_view) continue;
    const int place = places();
    OC_ASSIGN_OR_RETURN(const CostEntry cost, CostOfNode(node));
    StageNode own{.id = id,
                  .seconds = cost.seconds,
                  .workspace = AlignForArena(cost.workspace_bytes),
                  .may_repeat = node.def->updates.empty()};
    for (int v : node.inputs) {
      const int from = Source(v);
      const int producer = g.value(from).producer;
      if (producer == kNone || q_.analysis.stage[producer] == kNone) continue;  // always there
      own.inputs.push_back(from);
      StageValue& value = values_[from];
      if (value.made == kNone) value.bytes = AlignForArena(g.value(from).type.bytes());
      value.last_forward = place;
      if (value.readers.empty() || value.readers.back() != place) value.readers.push_back(place);
    }
    size_t opaque = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int v = node.outputs[i];
      int64_t bytes = g.value(v).type.bytes();
      if (g.value(v).opaque) bytes = cost.opaque_bytes.at(opaque++);
      values_[v].bytes = AlignForArena(bytes);
      values_[v].made = place;
      values_[v].away = IsAway(node, v);
      own.may_repeat &= !values_[v].away;
      values_[v].last_forward = place;
      own.outputs.push_back(v);
      const int from = i < node.def->reuse.size() ? node.def->reuse[i] : kNone;
      const bool may = from != kNone && from < static_cast<int>(node.inputs.size()) &&
                       g.value(node.inputs[from]).type.bytes() == bytes && !g.value(v).opaque;
      own.reuse.push_back(may ? Source(node.inputs[from]) : kNone);
    }
    nodes_.push_back(std::move(own));
  }
  return OkStatus();
}

Status StageModel::AddBackward() {
  const Graph& g = q_.graph;
  struct Made {
    int64_t bytes;
    int tick, last;
    bool in_place;
  };
  std::map<int, Made> made;  // values of backward
  std::vector<int64_t> workspace;
  std::map<int, int> gradients;  // received ones: their last tick
  for (int id : q_.analysis.nodes[q_.stage][static_cast<int>(Part::kBackward)]) {
    const Node& node = g.node(id);
    const int tick = ticks_;
    for (int v : node.inputs) {
      const int from = Source(v);
      const int producer = g.value(from).producer;
      if (producer == kNone || q_.analysis.stage[producer] == kNone) continue;
      if (g.node(producer).phase == Phase::kForward) {
        if (node.def->is_view) continue;
        StageValue& value = values_[from];
        value.first_backward = std::min(value.first_backward, tick);
        value.last_backward = std::max(value.last_backward, tick);
      } else if (q_.analysis.stage[producer] != q_.stage) {
        gradients[from] = tick;
      } else if (auto it = made.find(from); it != made.end()) {
        it->second.last = tick;
      }
    }
    if (node.def->is_view) continue;
    OC_ASSIGN_OR_RETURN(const CostEntry cost, CostOfNode(node));
    workspace.push_back(AlignForArena(cost.workspace_bytes));
    for (int v : node.outputs) {
      if (q_.analysis.accumulator_only[v]) continue;  // lies where it is summed
      made[v] = {AlignForArena(g.value(v).type.bytes()), tick, tick, q_.analysis.root[v] != v};
    }
    ++ticks_;
  }
  std::vector<int64_t> during(ticks_ + 2, 0), before(ticks_ + 2, 0);
  for (const auto& [v, m] : made) {
    during[m.tick + (m.in_place ? 1 : 0)] += m.bytes;
    during[std::max(m.last + 1, m.tick + (m.in_place ? 1 : 0))] -= m.bytes;
    before[m.tick + 1] += m.bytes;
    before[m.last + 1] -= m.bytes;
  }
  for (const auto& [v, last] : gradients) {
    const int64_t bytes = AlignForArena(g.value(v).type.bytes());
    for (auto* list : {&during, &before}) {
      (*list)[0] += bytes;
      (*list)[last + 1] -= bytes;
    }
  }
  during_.assign(ticks_, 0);
  before_.assign(ticks_, 0);
  int64_t now = 0, between = 0;
  for (int t = 0; t < ticks_; ++t) {
    now += during[t];
    between += before[t];
    if (q_.activations_alone) continue;
    during_[t] = now + workspace[t];
    before_[t] = between;
  }
  return OkStatus();
}

void StageModel::FindRanges() {
  const int n = places();
  std::vector<int> latest(ticks_, kNone);  // by tick: the last place whose values end there
  for (const StageValue& v : values_) {
    if (!v.for_backward()) continue;
    all_bytes_ += v.bytes;
    if (v.made == kNone) {
      received_ += v.bytes;
    } else {
      latest[v.last_backward] = std::max(latest[v.last_backward], v.made);
    }
  }
  first_tick_.assign(n + 1, ticks_);
  int owner = 0, place = 0;  // first_tick_[x] is the first tick of an owner before x
  for (int t = ticks_ - 1; t >= 0; --t) {
    owner = std::max(owner, latest[t]);
    for (; place <= owner; ++place) first_tick_[place] = t + 1;
  }
  for (; place <= n; ++place) first_tick_[place] = 0;
  crossing_.resize(n + 1);
  std::vector<int64_t> change(n + 2, 0);
  for (size_t id = 0; id < values_.size(); ++id) {
    const StageValue& v = values_[id];
    if (v.made == kNone) continue;
    change[v.made] += v.bytes;
    change[v.last_forward + 1] -= v.bytes;
    for (int p = v.made + 1; p <= v.last_forward; ++p) crossing_[p].push_back(static_cast<int>(id));
  }
  int64_t alive = 0;
  for (int p = 0; p < n; ++p) {
    alive += change[p];
    forward_.push_back(q_.activations_alone ? 0 : alive + nodes_[p].workspace);
  }
}

StatusOr<StageModel> StageModel::Create(const RecomputeQuery& query) {
  StageModel model(query);
  OC_RETURN_IF_ERROR(model.AddForward());
  OC_RETURN_IF_ERROR(model.AddBackward());
  model.FindRanges();
  return model;
}

std::vector<int> StageModel::NarrowPlaces() const {
  const int n = places();
  std::vector<int64_t> bytes(n + 1, 0);
  for (int p = 0; p <= n; ++p) {
    for (int v : crossing_[p]) bytes[p] += values_[v].bytes;
  }
  std::vector<int> narrow;
  for (int p = 1; p < n; ++p) {
    if (bytes[p] <= bytes[p - 1] && bytes[p] <= bytes[p + 1]) narrow.push_back(p);
    // The ends cross nothing: their neighbours need not be narrower than they.
    else if ((p == 1 && bytes[p] <= bytes[p + 1]) || (p + 1 == n && bytes[p] <= bytes[p - 1]))
      narrow.push_back(p);
  }
  std::vector<int> places = {0};
  const size_t step = (narrow.size() + kMostNarrow - 1) / kMostNarrow;
  for (size_t i = 0; i < narrow.size(); i += std::max<size_t>(step, 1)) places.push_back(narrow[i]);
  places.push_back(n);
  return places;
}

// One pass over a group's backward: the copies come where they are first needed, each tick's before
// its node.
class GroupWalk {
 public:
  GroupWalk(int first_tick, int end_tick) : first_(first_tick), end_(end_tick) {}
  // A copy before tick `tick` (moved into the group's range), in the order of places.
  void Order(std::vector<std::pair<int, int>> copies) {  // (tick, place)
    std::sort(copies.begin(), copies.end());
    copies_ = std::move(copies);
    for (size_t i = 0; i < copies_.size(); ++i) {
      at_copy_[copies_[i].second] = copies_[i].first - first_ + static_cast<int>(i);
    }
    change_.assign(end_ - first_ + copies_.size() + 2, 0);
  }
  int OfCopy(int place) const { return at_copy_.at(place); }
  int OfTick(int tick) const {
    const int t = std::clamp(tick, first_, std::max(first_, end_ - 1));
    const auto behind = std::upper_bound(copies_.begin(), copies_.end(), std::pair(t, kNever));
    return t - first_ + static_cast<int>(behind - copies_.begin());
  }
  void Keep(int64_t bytes, int from, int to) {
    if (to < from) return;
    change_[from] += bytes;
    change_[to + 1] -= bytes;
  }
  template <typename F>
  int64_t Peak(const F& besides) const {  // besides(tick, place of the copy or kNone)
    int64_t alive = 0, peak = 0;
    size_t copy = 0;
    for (int t = first_, event = 0; t < end_; ++event) {
      alive += change_[event];
      const bool is_copy = copy < copies_.size() && copies_[copy].first == t;
      peak = std::max(peak, alive + besides(t, is_copy ? copies_[copy].second : kNone));
      if (is_copy) {
        ++copy;
      } else {
        ++t;
      }
    }
    return peak;
  }

 private:
  int first_, end_;
  std::vector<std::pair<int, int>> copies_;
  std::map<int, int> at_copy_;
  std::vector<int64_t> change_;
};

Group StageModel::GroupOf(int begin, int end) const {
  const int size = end - begin;
  const int first_tick = first_tick_[end], end_tick = first_tick_[begin];
  const auto in_group = [&](int place) { return place >= begin && place < end; };
  std::vector<bool> dropped(size, false);
  for (int p = begin; p + 1 < end; ++p) {
    dropped[p - begin] =
        nodes_[p].may_repeat && std::all_of(nodes_[p].outputs.begin(), nodes_[p].outputs.end(),
                                            [&](int v) { return values_[v].last_forward < end; });
  }
  // When each dropped node is needed first.
  std::vector<int> emit(size, kNever);
  std::vector<std::pair<int, int>> copies;
  for (int p = end - 1; p >= begin; --p) {
    if (!dropped[p - begin]) continue;
    int& tick = emit[p - begin];
    for (int v : nodes_[p].outputs) {
      tick = std::min(tick, values_[v].first_backward);
      for (int r : values_[v].readers) {
        if (in_group(r) && dropped[r - begin]) tick = std::min(tick, emit[r - begin]);
      }
    }
    if (tick == kNever) continue;
    tick = std::clamp(tick, first_tick, std::max(first_tick, end_tick - 1));
    copies.emplace_back(tick, p);
  }
  const auto repeats = [&](int place) {
    return in_group(place) && dropped[place - begin] && emit[place - begin] != kNever;
  };
  Group group;
  GroupWalk walk(first_tick, end_tick);
  walk.Order(copies);
  const auto last_event = [&](int v, int from) {
    int last = from;
    if (values_[v].for_backward()) last = std::max(last, walk.OfTick(values_[v].last_backward));
    for (int r : values_[v].readers) {
      if (repeats(r)) last = std::max(last, walk.OfCopy(r));
    }
    return last;
  };
  // What the group keeps: its own, and what only its repetitions read.
  std::vector<int> kept;
  for (int p = begin; p < end; ++p) {
    if (!dropped[p - begin]) {
      for (int v : nodes_[p].outputs) {
        if (values_[v].for_backward()) kept.push_back(v);
      }
    } else if (repeats(p)) {
      group.seconds += nodes_[p].seconds;
      group.repeated.push_back(nodes_[p].id);
      for (int v : nodes_[p].inputs) {
        const bool again = in_group(values_[v].made) && dropped[values_[v].made - begin];
        if (!again && !values_[v].for_backward()) kept.push_back(v);
      }
    }
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  const auto comes_back = [&](int v) {  // at the first event that touches it
    int first = values_[v].for_backward() ? walk.OfTick(values_[v].first_backward) : kNever;
    for (int r : values_[v].readers) {
      if (repeats(r)) first = std::min(first, walk.OfCopy(r));
    }
    return first == kNever ? 0 : first;
  };
  for (int v : kept) {
    if (!values_[v].away) group.kept += values_[v].bytes;
    walk.Keep(values_[v].bytes, values_[v].away ? comes_back(v) : 0, last_event(v, 0));
  }
  for (int p = begin; p < end; ++p) {
    if (!repeats(p)) continue;
    const int at = walk.OfCopy(p);
    for (size_t i = 0; i < nodes_[p].outputs.size(); ++i) {
      const int v = nodes_[p].outputs[i], from = nodes_[p].reuse[i];
      const bool own = from != kNone && (repeats(values_[from].made) ||
                                         std::binary_search(kept.begin(), kept.end(), from));
      const bool in_place = own && last_event(from, 0) == at;
      walk.Keep(values_[v].bytes, at + (in_place ? 1 : 0), last_event(v, at));
    }
  }
  group.local = walk.Peak([&](int tick, int place) {
    if (place == kNone) return during_[tick];
    return before_[tick] + (q_.activations_alone ? 0 : nodes_[place].workspace);
  });
  // Forward: what has been kept, and what it needs itself; what is both counts once.
  std::vector<int64_t> done(size + 1, 0);
  for (int v : kept) {
    if (values_[v].made == kNone) continue;
    const int behind = q_.activations_alone ? values_[v].made : values_[v].last_forward + 1;
    done[std::clamp(behind - begin, 0, size)] += values_[v].bytes;
    if (!values_[v].away) continue;
    done[std::clamp(values_[v].last_forward + 1 - begin, 0, size)] -= values_[v].bytes;
  }
  int64_t behind = 0;
  for (int p = begin; p < end; ++p) {
    behind += done[p - begin];
    int64_t twice = 0;
    for (int v : crossing_[begin]) {
      if (!q_.activations_alone && values_[v].for_backward() && !values_[v].away &&
          values_[v].last_forward >= p) {
        twice += values_[v].bytes;
      }
    }
    group.local = std::max(group.local, forward_[p] + behind - twice);
  }
  group.local = std::max(group.local, group.kept);
  return group;
}

struct Trade {
  double seconds = 0;
  int64_t kept = 0, peak = 0;
  int from_place = kNone, from_trade = kNone;
};

// Those that no other one beats in all three; of very many, the fastest among those that are close.
std::vector<Trade> Best(std::vector<Trade> trades, int64_t cell) {
  std::sort(trades.begin(), trades.end(), [](const Trade& a, const Trade& b) {
    return std::tie(a.seconds, a.peak, a.kept) < std::tie(b.seconds, b.peak, b.kept);
  });
  std::map<int64_t, int64_t> front;  // peak -> the least kept of those up to it, falling
  std::vector<Trade> best;
  for (const Trade& t : trades) {
    auto at = front.upper_bound(t.peak);
    if (at != front.begin() && std::prev(at)->second <= t.kept) continue;
    best.push_back(t);
    while (at != front.end() && at->second >= t.kept) at = front.erase(at);
    front[t.peak] = t.kept;
  }
  if (best.size() <= kMostTrades) return best;
  std::map<std::pair<int64_t, int64_t>, bool> taken;
  std::vector<Trade> thin;
  for (const Trade& t : best) {
    if (taken.emplace(std::pair(t.peak / cell, t.kept / cell), true).second) thin.push_back(t);
  }
  return thin;
}

}  // namespace

StatusOr<std::vector<RecomputeChoice>> RecomputeChoices(const RecomputeQuery& query) {
  OC_ASSIGN_OR_RETURN(const StageModel model, StageModel::Create(query));
  const int n = model.places();
  const int64_t cell = std::max<int64_t>(kArenaAlignment, model.all_bytes() / kCells);
  std::vector<bool> narrow(n + 1, false);
  for (int p : model.NarrowPlaces()) narrow[p] = true;
  std::vector<std::vector<Trade>> trades(n + 1);
  trades[0] = {{.kept = model.received(), .peak = model.received()}};
  for (int end = 1; end <= n; ++end) {
    std::vector<Trade> all;
    for (int begin = end - 1; begin >= 0; --begin) {
      if (end - begin > kLongGroup && !(narrow[begin] && narrow[end])) continue;
      const Group group = model.GroupOf(begin, end);
      for (size_t i = 0; i < trades[begin].size(); ++i) {
        const Trade& t = trades[begin][i];
        all.push_back({t.seconds + group.seconds, t.kept + group.kept,
                       std::max(t.peak, t.kept + group.local), begin, static_cast<int>(i)});
      }
    }
    trades[end] = Best(std::move(all), cell);
  }
  std::vector<RecomputeChoice> choices;
  std::map<std::pair<int, int>, std::vector<int>> repeated;  // by group
  for (const Trade& last : trades[n]) {
    const int64_t peak = last.peak + (query.in_flight - 1) * last.kept;
    if (!choices.empty() && peak >= choices.back().peak_bytes) continue;
    RecomputeChoice choice{
        .away = query.away, .seconds = last.seconds, .kept_bytes = last.kept, .peak_bytes = peak};
    const Trade* t = &last;
    for (int place = n; place > 0;) {
      auto [at, is_new] = repeated.try_emplace({t->from_place, place});
      if (is_new) at->second = model.GroupOf(t->from_place, place).repeated;
      choice.nodes.insert(choice.nodes.end(), at->second.begin(), at->second.end());
      place = t->from_place;
      t = &trades[place][t->from_trade];
    }
    std::sort(choice.nodes.begin(), choice.nodes.end());
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace oc
