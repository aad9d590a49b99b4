#include "openclaw/partitioner/costs.h"

#include <algorithm>
#include <set>

#include "openclaw/graph/cost_key.h"
#include "openclaw/graph/fuse.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc {

std::string CommandKey(const std::string& kind) { return absl::StrCat("command() on ", kind); }
LinkCurve HostLink(const std::string& kind, const CostTable& costs) {
  LinkCurve curve;
  for (int64_t bytes : kCopyBytes) {
    if (const CostEntry* copy = costs.Find(CopyKey(bytes, kind))) {
      curve.points.push_back({bytes, copy->seconds});
    }
  }
  if (curve.points.size() != 2) curve.points.clear();
  return curve;
}

std::string FileKey(bool write) {
  return absl::StrCat("file ", write ? "write(" : "read(", kFileBytes, ") on file");
}

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

namespace {

// The operands of tensor t, and what all share.
std::vector<TensorType> TypesOf(const CostedCall& call, const TensorList& list, int t) {
  const auto begin = call.inputs.begin() + t * list.operands;
  std::vector<TensorType> types(begin, begin + list.operands);
  types.insert(types.end(), call.inputs.end() - list.shared, call.inputs.end());
  return types;
}

// A list of `tensors` like the first of the call, of one element each.
std::vector<TensorType> TinyTypes(const CostedCall& call, int tensors) {
  const TensorList list = ListOf(*call.def, call.attrs, call.inputs.size());
  std::vector<TensorType> types;
  for (int t = 0; t < tensors; ++t) {
    for (int i = 0; i < list.operands; ++i) {
      types.push_back({call.inputs[i].dtype, Shape(std::vector<Dim>(call.inputs[i].shape.rank()))});
    }
  }
  types.insert(types.end(), call.inputs.end() - list.shared, call.inputs.end());
  return types;
}

StatusOr<const CostEntry*> Measured(const CostedCall& call, const std::vector<TensorType>& inputs,
                                    const std::string& kind, const CostTable& table) {
  const std::string key = CostKey(*call.def, call.attrs, inputs, call.accumulate, kind);
  const CostEntry* entry = table.Find(key);
  if (entry == nullptr) return FailedPrecondition("no measured cost for ", key);
  return entry;
}

// Behind the nodes, what of them could be fused.
void AddFused(const Graph& graph, std::vector<Node>& nodes) {
  std::vector<int> ids;
  for (const Node& node : graph.nodes) ids.push_back(node.id);
  for (Node& node : FuseNodes(graph, ids, [](const Node&) { return true; })) {
    if (IsFused(node.def->name)) nodes.push_back(std::move(node));
  }
}

// Sizes of parts that are measured: one element, a chunk, and so on by kPartStep.
constexpr int64_t kPartStep = 4;
int64_t NextPartSize(int64_t size) { return size == 1 ? kSumChunk : size * kPartStep; }

// The inputs of one tensor's call, `size` elements of it instead of all `n`.
std::vector<TensorType> PartTypes(std::vector<TensorType> inputs, int64_t n, int64_t size) {
  for (TensorType& type : inputs) {
    if (type.shape.num_elements() == n) type.shape = {size};
  }
  return inputs;
}

// Of a part of a tensor: on the line through what was measured of a smaller and of a larger one, or
// of the two largest.
StatusOr<CostEntry> PartCost(const CostedCall& call, const std::vector<TensorType>& inputs,
                             const std::string& kind, const CostTable& table) {
  const auto whole = Measured(call, inputs, kind, table);
  if (whole.ok()) return **whole;
  const int64_t n = inputs[0].shape.num_elements();
  if (call.def->parts == OpDef::Parts::kWhole || inputs[0].shape.rank() != 1) {
    return whole.status();
  }
  const CostEntry *low = nullptr, *high = nullptr;
  int64_t low_size = 0, high_size = 0;
  for (int64_t size = 1; high == nullptr || high_size < n; size = NextPartSize(size)) {
    const auto entry = Measured(call, PartTypes(inputs, n, size), kind, table);
    if (!entry.ok()) break;
    low = high;
    low_size = high_size;
    high = *entry;
    high_size = size;
  }
  if (low == nullptr) return whole.status();
  const double at = static_cast<double>(n - low_size) / static_cast<double>(high_size - low_size);
  CostEntry part = *high;
  part.seconds = std::max(0.0, low->seconds + at * (high->seconds - low->seconds));
  // Nobody rounds a workspace up by more than this.
  constexpr int64_t kRounding = 4096;
  const auto room = [&](int64_t small, int64_t large) {
    if (n <= high_size || large == 0) return large;
    return large + kRounding +
           static_cast<int64_t>((at - 1) *
                                static_cast<double>(std::max<int64_t>(0, large - small)));
  };
  part.workspace_bytes = room(low->workspace_bytes, high->workspace_bytes);
  part.host_bytes = room(low->host_bytes, high->host_bytes);
  return part;
}

}  // namespace

int64_t ListWorkspace(int64_t a, int64_t b) {
  constexpr int64_t kAlign = 64;
  return (a + kAlign - 1) / kAlign * kAlign + b;
}

StatusOr<CostEntry> CostOf(const CostedCall& call, const std::string& kind,
                           const CostTable& table) {
  const TensorList list = ListOf(*call.def, call.attrs, call.inputs.size());
  if (list.tensors == 1) {
    return PartCost(call, call.inputs, kind, table);
  }
  OC_ASSIGN_OR_RETURN(const CostEntry* tiny, Measured(call, TinyTypes(call, 1), kind, table));
  OC_ASSIGN_OR_RETURN(const CostEntry* pair, Measured(call, TinyTypes(call, 2), kind, table));
  const double call_seconds = std::clamp(2 * tiny->seconds - pair->seconds, 0.0, tiny->seconds);
  CostEntry sum{.seconds = call_seconds, .supported = pair->supported};
  sum.substitute = pair->substitute;
  sum.deterministic = pair->deterministic;
  for (int t = 0; t < list.tensors; ++t) {
    OC_ASSIGN_OR_RETURN(const CostEntry one, PartCost(call, TypesOf(call, list, t), kind, table));
    sum.seconds += std::max(0.0, one.seconds - call_seconds);
    sum.workspace_bytes = ListWorkspace(sum.workspace_bytes, one.workspace_bytes);
    sum.supported &= one.supported;
    sum.deterministic &= one.deterministic;
  }
  return sum;
}

bool TakesLists(const CostedCall& call, const std::string& kind, const CostTable& table) {
  if (call.def->lists == OpDef::Lists::kNone) return false;
  const auto pair = Measured(call, TinyTypes(call, 2), kind, table);
  return pair.ok() && (*pair)->supported && (*pair)->substitute.empty();
}

bool HasOwnKernel(const CostedCall& call, const std::string& kind, const CostTable& table) {
  const auto entry = Measured(call, call.inputs, kind, table);
  return entry.ok() && (*entry)->supported && (*entry)->substitute.empty();
}

bool HasOwnKernel(const Graph& graph, const Node& node, const std::string& kind,
                  const CostTable& table) {
  std::vector<TensorType> inputs;
  for (int v : node.inputs) inputs.push_back(graph.value(v).type);
  return HasOwnKernel({node.def, node.attrs, inputs, 0}, kind, table);
}

std::vector<CostRequest> MissingCosts(const Graph& graph, const Graph* update,
                                      const std::string& kind, const CostTable& table, bool parts) {
  std::vector<CostRequest> missing;
  std::set<std::string> seen;
  const auto add = [&](CostRequest r) {
    if (table.Find(r.key) == nullptr && seen.insert(r.key).second) missing.push_back(std::move(r));
  };
  // What the cost of a list is put together from, besides the request itself.
  const auto add_tiny = [&](const CostRequest& r) {
    if (r.def->lists == OpDef::Lists::kNone) return;
    for (int tensors : {1, 2}) {
      CostRequest tiny = r;
      tiny.inputs = TinyTypes({r.def, r.attrs, r.inputs, r.accumulate}, tensors);
      const auto outputs = r.def->infer({tiny.inputs, tiny.attrs});
      OC_CHECK(outputs.ok(), r.key, ": ", outputs.status().ToString());
      tiny.outputs = *outputs;
      tiny.key = CostKey(*r.def, r.attrs, tiny.inputs, r.accumulate, kind);
      add(std::move(tiny));
    }
  };
  const auto add_parts = [&](const CostRequest& r) {
    const int64_t n = r.inputs[0].shape.num_elements();
    if (!parts || r.def->parts == OpDef::Parts::kWhole || n <= 1) return;
    for (int64_t size = 1; size <= std::max(n, kSumChunk); size = NextPartSize(size)) {
      CostRequest part = r;
      part.inputs = PartTypes(r.inputs, n, size);
      const auto outputs = r.def->infer({part.inputs, part.attrs});
      OC_CHECK(outputs.ok(), r.key, ": ", outputs.status().ToString());
      part.outputs = *outputs;
      part.key = CostKey(*r.def, r.attrs, part.inputs, r.accumulate, kind);
      if (size == 1) add_tiny(part);
      add(std::move(part));
    }
  };
  for (const Graph* g : {&graph, update}) {
    if (g == nullptr) continue;
    std::vector<bool> accumulated(g->values.size(), false);
    for (const Accumulator& a : g->accumulators) {
      for (int v : a.contributions) accumulated[v] = true;
    }
    std::vector<Node> nodes = g->nodes;
    if (g != update) AddFused(*g, nodes);
    for (const Node& node : nodes) {
      if (node.def->is_view) continue;
      add(RequestOf(*g, node, 0, kind));
      if (g == update) add_tiny(RequestOf(*g, node, 0, kind));
      if (g == update || node.phase == Phase::kPrologue) add_parts(RequestOf(*g, node, 0, kind));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!accumulated[node.outputs[i]]) continue;
        if (HasOutput(node.def->accumulable, i)) {
          add(RequestOf(*g, node, 1u << i, kind));
        }
        const TensorType& type = g->value(node.outputs[i]).type;
        for (const char* op : {"accumulate", "copy"}) {
          CostRequest r{.def = g->ops().Find(op)};
          if (r.def == nullptr) continue;
          r.inputs.assign(op == std::string("copy") ? 1 : 2, type);
          r.outputs = {type};
          r.key = CostKey(*r.def, r.attrs, r.inputs, 0, kind);
          add_parts(r);
          add(std::move(r));
        }
      }
      // Several outputs may be added to at once.
      uint32_t all = 0;
      for (size_t i = 0; i < node.outputs.size() && i < 32; ++i) {
        if (accumulated[node.outputs[i]]) all |= node.def->accumulable & (1u << i);
      }
      if (all != 0) {
        add(RequestOf(*g, node, all, kind));
        if (g == update) add_tiny(RequestOf(*g, node, all, kind));
      }
    }
  }
  return missing;
}

}  // namespace oc
