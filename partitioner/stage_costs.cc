#include "openclaw/partitioner/stage_costs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "openclaw/graph/fuse.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/update_homes.h"

namespace oc {
namespace {

template <typename T>
std::vector<T> PrefixSums(const std::vector<T>& values) {
  std::vector<T> sums(values.size() + 1, T{});
  for (size_t i = 0; i < values.size(); ++i) sums[i + 1] = sums[i] + values[i];
  return sums;
}

// Bytes of optimizer state beside each parameter, by the parameter's name.
std::map<std::string, int64_t> OptimizerBytes(const Graph& joint, const Graph* update) {
  std::map<std::string, int64_t> bytes;
  if (update == nullptr) return bytes;
  const std::vector<std::string> homes = UpdateHomes(joint, *update);
  for (const Variable& state : update->states) {
    const Value& value = update->value(state.value);
    if (homes[value.id] != value.name) bytes[homes[value.id]] += value.type.bytes();
  }
  return bytes;
}

}  // namespace

StatusOr<StageCosts> StageCosts::Create(const Graph& graph, const Graph* update,
                                        const std::string& kind, const CostTable& costs,
                                        bool states_away) {
  StageCosts result;
  std::map<int, int> unit_of;  // origin -> unit
  for (const Node& node : graph.nodes) unit_of[node.origin] = 0;
  for (auto& [origin, unit] : unit_of) {
    unit = static_cast<int>(result.origins_.size());
    result.origins_.push_back(origin);
  }
  const int n = result.units();
  std::vector<double> seconds(n, 0);
  std::vector<int64_t> state(n, 0), stash(n, 0);
  std::vector<int> last_reader(graph.values.size(), kNone);  // unit, of forward values
  std::vector<bool> read_by_backward(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kPrologue) continue;  // once a step, not once a micro-batch
    const int unit = unit_of[node.origin];
    const bool backward = node.phase != Phase::kForward && node.phase != Phase::kCount;
    for (int v : node.inputs) {
      last_reader[v] = std::max(last_reader[v], unit);
      if (backward) read_by_backward[v] = true;
    }
  }
  // What lowering would fuse counts as that.
  std::vector<int> ids;
  for (const Node& node : graph.nodes) ids.push_back(node.id);
  const auto has_kernel = [&](const Node& node) { return HasOwnKernel(graph, node, kind, costs); };
  for (const Node& node : FuseNodes(graph, ids, has_kernel)) {
    if (node.phase == Phase::kPrologue || node.def->is_view) continue;
    const CostRequest request = RequestOf(graph, node, 0, kind);
    const CostEntry* entry = costs.Find(request.key);
    if (entry == nullptr) return FailedPrecondition("plan: no measured cost for ", request.key);
    seconds[unit_of[node.origin]] += entry->seconds;
  }
  std::map<std::string, int64_t> optimizer;
  if (!states_away) optimizer = OptimizerBytes(graph, update);
  std::set<std::pair<int, int>> counted;  // (unit, parameter or value of the prologue)
  const std::function<void(int, int)> count = [&](int unit, int v) {
    const Value& value = graph.value(v);
    const bool parameter = value.kind == ValueKind::kParameter;
    const bool prologue =
        value.producer != kNone && graph.node(value.producer).phase == Phase::kPrologue;
    if (!(parameter || prologue) || !counted.insert({unit, v}).second) return;
    if (prologue) {  // kept all step, beside what it is made of
      state[unit] += value.type.bytes();
      for (int from : graph.node(value.producer).inputs) count(unit, from);
      return;
    }
    const auto it = optimizer.find(value.name);
    state[unit] +=
        value.type.bytes() * (update != nullptr ? 2 : 1) + (it == optimizer.end() ? 0 : it->second);
  };
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kPrologue) continue;
    const int unit = unit_of[node.origin];
    for (int v : node.inputs) count(unit, v);
    if (node.phase != Phase::kForward) continue;
    for (int v : node.outputs) {
      if (read_by_backward[v]) stash[unit] += graph.value(v).type.bytes();
    }
  }
  result.boundary_bytes_.assign(n + 1, 0);
  for (const Value& v : graph.values) {
    if (v.producer == kNone || last_reader[v.id] == kNone) continue;
    if (graph.node(v.producer).phase != Phase::kForward) continue;
    const int from = unit_of[graph.node(v.producer).origin];
    for (int at = from + 1; at <= last_reader[v.id]; ++at) {
      result.boundary_bytes_[at] += v.type.bytes();
    }
  }
  // From the loss on, everything stays together: what counts its labels is wanted there.
  result.may_cut_.assign(n + 1, true);
  if (graph.loss_sum != kNone && graph.value(graph.loss_sum).producer != kNone) {
    const int loss = unit_of[graph.node(graph.value(graph.loss_sum).producer).origin];
    for (int at = loss + 1; at <= n; ++at) result.may_cut_[at] = false;
  }
  result.may_cut_[0] = false;
  // A state is read and its mean is taken on one stage.
  for (const Accumulator& a : graph.accumulators) {
    if (a.kind != Accumulator::Kind::kState) continue;
    int first = n, last = -1;
    const auto include = [&](const Node& node) {
      first = std::min(first, unit_of[node.origin]);
      last = std::max(last, unit_of[node.origin]);
    };
    for (int v : a.contributions) include(graph.node(graph.value(v).producer));
    for (const Node& node : graph.nodes) {
      if (std::count(node.inputs.begin(), node.inputs.end(), a.target) != 0) include(node);
    }
    for (int at = first + 1; at <= last; ++at) result.may_cut_[at] = false;
  }
  // A region that is computed again in backward lies on one stage.
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) {
      const int producer = graph.value(v).producer;
      if (producer == kNone || graph.node(producer).phase != Phase::kRecompute) continue;
      const int from = unit_of[graph.node(producer).origin], to = unit_of[node.origin];
      for (int at = std::min(from, to) + 1; at <= std::max(from, to); ++at) {
        result.may_cut_[at] = false;
      }
    }
  }
  result.seconds_ = PrefixSums(seconds);
  result.state_bytes_ = PrefixSums(state);
  result.stash_bytes_ = PrefixSums(stash);
  return result;
}

StageCosts StageCosts::Mean(const std::vector<const StageCosts*>& costs) {
  StageCosts result = *costs[0];
  for (size_t i = 0; i < result.seconds_.size(); ++i) {
    double sum = 0;
    for (const StageCosts* c : costs) sum += c->seconds_[i];
    result.seconds_[i] = sum / static_cast<double>(costs.size());
  }
  return result;
}

}  // namespace oc
