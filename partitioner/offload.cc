#include "openclaw/partitioner/offload.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/graph/scopes.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/program/saved_values.h"

namespace oc {
namespace {

bool AnyApart(const ClusterSpec& cluster) {
  return std::any_of(cluster.vcus.begin(), cluster.vcus.end(),
                     [](const VcuSpec& v) { return !v.host_kind.empty(); });
}

Status NothingApart(const char* key, const ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (const VcuSpec& v : cluster.vcus) names.push_back(v.name);
  return InvalidArgument("parallel.offload.", key, ": the memory of ", absl::StrJoin(names, ", "),
                         " is the host's own, so that nothing would be gained; optimizer: file "
                         "takes states out of it");
}

Status Check(const OffloadConfig& o, const ClusterSpec& cluster) {
  if (o.optimizer == "file" && o.path.empty()) {
    return InvalidArgument("parallel.offload.optimizer file: give a folder as ",
                           "parallel.offload.path");
  }
  if (o.optimizer == "host" && !AnyApart(cluster)) return NothingApart("optimizer", cluster);
  if (!o.activations.empty() && !ActivationsAreOpen(o) && !AnyApart(cluster)) {
    return NothingApart("activations", cluster);
  }
  if (o.update == "host" && o.optimizer != "host" && o.optimizer != "auto") {
    return InvalidArgument(
        "parallel.offload.update host: wants states that lie with the host, and "
        "parallel.offload.optimizer is ",
        o.optimizer);
  }
  return OkStatus();
}

VcuOffload OffloadTo(const OffloadConfig& o, StateHome home) {
  return {.states = home, .update_on_host = home == StateHome::kHost && o.update == "host"};
}

}  // namespace

StateHome StatesMayGoTo(const OffloadConfig& o, const VcuSpec& vcu) {
  const bool apart = !vcu.host_kind.empty();
  if (o.optimizer == "file") return StateHome::kFile;
  if (o.optimizer == "host" || o.optimizer == "auto") {
    if (apart) return StateHome::kHost;
    if (o.optimizer == "auto" && !o.path.empty()) return StateHome::kFile;
  }
  return StateHome::kDevice;
}

StatusOr<std::vector<VcuOffload>> AskedOffload(const OffloadConfig& options,
                                               const ClusterSpec& cluster) {
  OC_RETURN_IF_ERROR(Check(options, cluster));
  std::vector<VcuOffload> asked;
  if (options.optimizer == "none" || options.optimizer == "auto") return asked;
  for (const VcuSpec& v : cluster.vcus) {
    asked.push_back(OffloadTo(options, StatesMayGoTo(options, v)));
  }
  return asked;
}

bool ActivationsAreOpen(const OffloadConfig& options) {
  return options.activations == std::vector<std::string>{"auto"};
}

StatusOr<std::vector<int>> AskedActivations(const OffloadConfig& options, const Graph& graph) {
  std::set<int> origins;
  if (ActivationsAreOpen(options)) return std::vector<int>();
  for (const std::string& pattern : options.activations) {
    bool any = false;
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::kForward || ModuleOf(node.scope, pattern).empty()) continue;
      any = true;
      origins.insert(node.origin);
    }
    if (!any) return NoSuchModule(graph, "parallel.offload.activations", pattern);
  }
  return std::vector<int>(origins.begin(), origins.end());
}

StatusOr<std::vector<AwayItem>> AwayItems(const Graph& graph, const StageAnalysis& analysis,
                                          int stage, const VcuSpec& vcu, const CostTable& costs) {
  std::map<int, AwayItem> by_origin;
  const LinkCurve link = HostLink(vcu.kind, costs);
  for (const SavedValue& v : SavedValues(graph, analysis, stage)) {
    if (v.bytes < kLeastSavedValue) continue;
    auto [it, is_new] = by_origin.try_emplace(v.origin);
    AwayItem& item = it->second;
    if (is_new) item = {.origin = v.origin, .last_forward = v.last_forward};
    item.bytes += v.bytes;
    item.copy_seconds += 2 * link.Seconds(v.bytes);
  }
  for (int id : analysis.nodes[stage][static_cast<int>(Part::kForward)]) {
    const Node& node = graph.node(id);
    const auto it = by_origin.find(node.origin);
    if (node.def->is_view || it == by_origin.end()) continue;
    const std::string key = RequestOf(graph, node, 0, vcu.kind).key;
    const CostEntry* entry = costs.Find(key);
    if (entry == nullptr) return FailedPrecondition("plan: no measured cost for ", key);
    it->second.again_seconds += entry->seconds;
  }
  std::vector<AwayItem> items;
  for (const auto& [origin, item] : by_origin) items.push_back(item);
  std::stable_sort(items.begin(), items.end(), [](const AwayItem& a, const AwayItem& b) {
    return a.last_forward < b.last_forward;
  });
  return items;
}

std::vector<std::vector<int>> AwayLevels(const std::vector<AwayItem>& items) {
  constexpr int kLevels = 8;  // of each order
  std::vector<AwayItem> by_gain = items;
  std::stable_sort(by_gain.begin(), by_gain.end(), [](const AwayItem& a, const AwayItem& b) {
    return a.again_seconds * b.copy_seconds > b.again_seconds * a.copy_seconds;
  });
  std::vector<std::vector<int>> levels = {{}};
  const auto add = [&](const std::vector<AwayItem>& order) {
    int64_t total = 0, taken = 0;
    for (const AwayItem& item : order) total += item.bytes;
    std::vector<int> origins;
    int level = 1;
    for (const AwayItem& item : order) {
      origins.push_back(item.origin);
      taken += item.bytes;
      if (taken * kLevels < total * level) continue;
      while (level <= kLevels && taken * kLevels >= total * level) ++level;
      std::vector<int> sorted = origins;
      std::sort(sorted.begin(), sorted.end());
      if (std::find(levels.begin(), levels.end(), sorted) == levels.end()) {
        levels.push_back(std::move(sorted));
      }
    }
  };
  add(by_gain);
  add(items);
  return levels;
}

std::vector<std::string> OffloadLines(const Plan& plan) {
  std::vector<std::string> lines;
  for (size_t v = 0; v < plan.vcus.size(); ++v) {
    const VcuOffload& o = plan.offload_of(static_cast<int>(v));
    const VcuPrediction& p = plan.vcus[v];
    std::vector<std::string> parts;
    if (o.states != StateHome::kDevice) {
      const bool file = o.states == StateHome::kFile;
      parts.push_back(
          absl::StrFormat("optimizer states in %s, %s", file ? "a file" : "the host's memory",
                          o.update_on_host ? "updated there" : "brought to it for the update"));
    }
    if (!o.activations.empty()) {
      parts.push_back(absl::StrFormat("what backward needs of %d nodes in the host's memory",
                                      o.activations.size()));
    }
    if (parts.empty()) continue;
    lines.push_back(absl::StrFormat("%s offloads: %s (%.2f MiB of the host, %.2f MiB of a file)",
                                    p.name, absl::StrJoin(parts, "; "),
                                    static_cast<double>(p.host_arena_bytes) / 1048576,
                                    static_cast<double>(p.file_bytes) / 1048576));
  }
  return lines;
}

bool OffloadWhatIsTooLarge(const OffloadConfig& options, const ClusterSpec& cluster,
                           const Program& program, Plan& plan) {
  bool changed = false;
  if (options.optimizer != "auto") return changed;
  for (int v = 0; v < cluster.size(); ++v) {
    const VcuProgram& p = program.vcus[v];
    const StateHome home = StatesMayGoTo(options, cluster.vcus[v]);
    if (p.state_bytes + p.step_bytes <= cluster.vcus[v].memory_bytes ||
        home == StateHome::kDevice || plan.offload_of(v).states != StateHome::kDevice) {
      continue;
    }
    if (plan.offload.empty()) plan.offload.resize(cluster.vcus.size());
    const std::vector<int> activations = plan.offload[v].activations;
    plan.offload[v] = OffloadTo(options, home);
    plan.offload[v].activations = activations;
    changed = true;
  }
  return changed;
}

}  // namespace oc
