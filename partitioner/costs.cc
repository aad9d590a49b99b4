#include "openclaw/partitioner/costs.h"

#include <set>

#include "openclaw/graph/cost_key.h"

namespace oc {

std::string CommandKey(const std::string& kind) { return absl::StrCat("command() on ", kind); }
std::string CopyKey(int64_t bytes, const std::string& kind) {
  return absl::StrCat("host_copy(", bytes, ") on ", kind);
}

CostRequest RequestOf(const Graph& graph, const Node& node, uint32_t accumulate,
                      const std::string& kind) {
  CostRequest r{.def = node.def, .attrs = node.attrs, .accumulate = accumulate};
  for (int v : node.inputs) r.inputs.push_back(graph.value(v).type);
  for (int v : node.outputs) r.outputs.push_back(graph.value(v).type);
  r.key = CostKey(*r.def, r.attrs, r.inputs, accumulate, kind);
  return r;
}

std::vector<CostRequest> MissingCosts(const Graph& graph, const Graph* update,
                                      const std::string& kind, const CostTable& table) {
  std::vector<CostRequest> missing;
  std::set<std::string> seen;
  const auto add = [&](CostRequest r) {
    if (table.Find(r.key) == nullptr && seen.insert(r.key).second) missing.push_back(std::move(r));
  };
  for (const Graph* g : {&graph, update}) {
    if (g == nullptr) continue;
    std::vector<bool> accumulated(g->values.size(), false);
    for (const Accumulator& a : g->accumulators) {
      for (int v : a.contributions) accumulated[v] = true;
    }
    for (const Node& node : g->nodes) {
      if (node.def->is_view) continue;
      add(RequestOf(*g, node, 0, kind));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!accumulated[node.outputs[i]]) continue;
        if (i < 32 && (node.def->accumulable >> i & 1) != 0) {
          add(RequestOf(*g, node, 1u << i, kind));
        }
        const TensorType& type = g->value(node.outputs[i]).type;
        for (const char* op : {"accumulate", "copy"}) {
          CostRequest r{.def = g->ops().Find(op)};
          if (r.def == nullptr) continue;
          r.inputs.assign(op == std::string("copy") ? 1 : 2, type);
          r.outputs = {type};
          r.key = CostKey(*r.def, r.attrs, r.inputs, 0, kind);
          add(std::move(r));
        }
      }
      // Several outputs may be added to at once.
      uint32_t all = 0;
      for (size_t i = 0; i < node.outputs.size() && i < 32; ++i) {
        if (accumulated[node.outputs[i]]) all |= node.def->accumulable & (1u << i);
      }
      if (all != 0) add(RequestOf(*g, node, all, kind));
    }
  }
  return missing;
}

}  // namespace oc
