#include "openclaw/partitioner/program/stage_analysis.h"

#include <algorithm>
#include <limits>
#include <map>

namespace oc {
namespace {

Part PartOf(const Node& node) {
  switch (node.phase) {
    case Phase::kCount:
      return Part::kCount;
    case Phase::kForward:
      return Part::kForward;
    default:
      return Part::kBackward;
  }
}

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Where in its stage's life of one micro-batch a node runs.
int64_t Ordinal(const StageAnalysis& a, int node) {
  return (static_cast<int64_t>(a.part[node]) << 32) + node;
}

// The last use of each value inside its stage, or kNever where something else reads it.
std::vector<int64_t> LastUses(const Graph& graph, const StageAnalysis& a) {
  std::vector<int64_t> last(graph.values.size(), -1);
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) {
      const int producer = graph.value(v).producer;
      const bool crosses = producer != kNone && a.stage[producer] != a.stage[node.id];
      last[v] = crosses ? kNever : std::max(last[v], Ordinal(a, node.id));
    }
  }
  for (const Value& v : graph.values) {
    if (v.producer == kNone || a.fetched.count(v.id) != 0) last[v.id] = kNever;
    if (!a.accumulators[v.id].empty()) last[v.id] = std::max(last[v.id], Ordinal(a, v.producer));
  }
  return last;
}

void ShareMemory(const Graph& graph, StageAnalysis& a) {
  a.root.resize(graph.values.size());
  for (const Value& v : graph.values) a.root[v.id] = v.id;
  const std::vector<int64_t> last = LastUses(graph, a);
  std::vector<int64_t> root_last = last;
  std::vector<int> order;
  for (const auto& parts : a.nodes) {
    for (const auto& part : parts) order.insert(order.end(), part.begin(), part.end());
  }
  for (int id : order) {
    const Node& node = graph.node(id);
    const OpDef& def = *node.def;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int out = node.outputs[i];
      int source = kNone;
      const int updated = UpdatedInput(def, node.attrs, node.inputs.size(), node.outputs.size(), i);
      if (updated != kNone) {
        source = node.inputs[updated];
      } else if (def.is_view) {
        source = node.inputs[0];
      } else if (i < def.reuse.size() && def.reuse[i] != kNone && !a.accumulator_only[out] &&
                 def.reuse[i] < static_cast<int>(node.inputs.size())) {
        const int candidate = node.inputs[def.reuse[i]];
        const int producer = graph.value(candidate).producer;
        const bool local = producer != kNone && a.stage[producer] == a.stage[id];
        const bool taken = std::any_of(node.outputs.begin(), node.outputs.end(), [&](int o) {
          return o != out && a.root[o] == a.root[candidate];
        });
        if (local && !taken && root_last[a.root[candidate]] == Ordinal(a, id) &&
            graph.value(candidate).type.bytes() == graph.value(out).type.bytes() &&
            !graph.value(candidate).opaque && !graph.value(out).opaque) {
          source = candidate;
        }
      }
      if (source == kNone) continue;
      // A value of another stage that is only viewed here keeps its own root: the copy received.
      a.root[out] = a.root[source];
      root_last[a.root[out]] = std::max(root_last[a.root[out]], last[out]);
    }
  }
}

// A view of a value that crossed from another stage roots in that value, on whichever VCU it is.
Status FindReaders(const Graph& graph, StageAnalysis& a) {
  a.readers.resize(graph.values.size());
  a.reader_parts.resize(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) {
      const Value& value = graph.value(v);
      if (value.producer == kNone || a.stage[value.producer] == a.stage[node.id]) continue;
      if (a.stage[value.producer] == kNone) continue;  // every VCU has its own
      if (value.opaque) {
        return Unimplemented("cut the graph: %", value.name, " of op ",
                             graph.node(value.producer).def->name,
                             " is of a device's own form and would cross stages");
      }
      if (graph.node(value.producer).phase == Phase::kRecompute) {
        return InvalidArgument(
            "cut the graph: module ", graph.node(value.producer).scope,
            " lies in a region that is computed again in backward; it cannot be cut");
      }
      const int stage = a.stage[node.id];
      auto& readers = a.readers[v];
      auto at = std::lower_bound(readers.begin(), readers.end(), stage);
      const size_t index = at - readers.begin();
      if (at == readers.end() || *at != stage) {
        readers.insert(at, stage);
        a.reader_parts[v].insert(a.reader_parts[v].begin() + index, a.part[node.id]);
      } else {
        a.reader_parts[v][index] = std::min(a.reader_parts[v][index], a.part[node.id]);
      }
    }
  }
  return OkStatus();
}

void FindAccumulators(const Graph& graph, StageAnalysis& a) {
  a.accumulators.resize(graph.values.size());
  for (size_t i = 0; i < graph.accumulators.size(); ++i) {
    for (int v : graph.accumulators[i].contributions) {
      a.accumulators[v].push_back(static_cast<int>(i));
    }
  }
  a.accumulator_only.assign(graph.values.size(), false);
  const std::vector<std::vector<int>> users = graph.Users();
  for (const Value& v : graph.values) {
    if (v.producer == kNone || graph.node(v.producer).def->is_view) continue;
    a.accumulator_only[v.id] =
        a.accumulators[v.id].size() == 1 && users[v.id].empty() && a.fetched.count(v.id) == 0;
  }
}

void FindActivations(const Graph& graph, StageAnalysis& a) {
  a.activation.assign(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (PartOf(node) != Part::kBackward || node.phase == Phase::kPrologue) continue;
    for (int v : node.inputs) {
      const int producer = graph.value(v).producer;
      if (producer == kNone) continue;
      const Phase phase = graph.node(producer).phase;
      if (phase == Phase::kForward || phase == Phase::kRecompute) a.activation[a.root[v]] = true;
    }
  }
}

}  // namespace

StatusOr<StageAnalysis> AnalyzeStages(const Graph& graph, const Plan& plan,
                                      const std::vector<std::string>& fetch) {
  StageAnalysis a;
  for (const std::string& name : fetch) {
    auto it = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                           [&](const auto& o) { return o.first == name; });
    if (it == graph.outputs.end()) return InvalidArgument("fetch: the graph has no output ", name);
    a.fetched.insert(it->second);
  }
  const int loss_node = graph.loss_sum == kNone ? kNone : graph.value(graph.loss_sum).producer;
  a.nodes.resize(plan.stages.size());
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kPrologue) {
      a.stage.push_back(kNone);
      a.part.push_back(Part::kCount);
      a.prologue.push_back(node.id);
      continue;
    }
    // The count is wanted where the loss is.
    const bool count = node.phase == Phase::kCount && loss_node != kNone;
    a.stage.push_back(StageOf(plan, count ? graph.node(loss_node) : node));
    a.part.push_back(PartOf(node));
    a.nodes[a.stage.back()][static_cast<int>(a.part.back())].push_back(node.id);
  }
  FindAccumulators(graph, a);
  OC_RETURN_IF_ERROR(FindReaders(graph, a));
  ShareMemory(graph, a);
  FindActivations(graph, a);
  return a;
}

StageAnalysis AnalyzeUpdate(const Graph& update) {
  StageAnalysis a;
  a.nodes.resize(1);
  for (const Node& node : update.nodes) {
    a.stage.push_back(0);
    a.part.push_back(Part::kBackward);
    a.nodes[0][static_cast<int>(Part::kBackward)].push_back(node.id);
  }
  FindAccumulators(update, a);
  a.readers.resize(update.values.size());
  a.reader_parts.resize(update.values.size());
  ShareMemory(update, a);
  return a;
}

std::vector<int> NodesFor(const Graph& graph, const std::vector<int>& among,
                          std::vector<bool> wanted) {
  std::vector<int> nodes;
  for (auto id = among.rbegin(); id != among.rend(); ++id) {
    const Node& node = graph.node(*id);
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](int v) { return wanted[v]; }))
      continue;
    for (int v : node.inputs) wanted[v] = true;
    nodes.push_back(*id);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace oc
