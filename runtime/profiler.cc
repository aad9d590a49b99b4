#include "openclaw/runtime/profiler.h"

#include <map>
#include <thread>

#include "openclaw/devices/call_watch.h"
#include "openclaw/partitioner/compute_types.h"

namespace oc {
namespace {

// The requests that `table` does not answer; with check_known also those that it answers otherwise
// than the slice's kernels do now.
StatusOr<std::vector<CostRequest>> ToMeasure(Slice& slice, const Graph& graph, const Graph* update,
                                             const std::string& kind, const CostTable& table,
                                             const ProfileOptions& options) {
  if (!options.check_known) return MissingCosts(graph, update, kind, table, options.parts);
  std::vector<CostRequest> wanted;
  for (CostRequest& r : MissingCosts(graph, update, kind, CostTable(), options.parts)) {
    if (const CostEntry* known = table.Find(r.key)) {
      OC_ASSIGN_OR_RETURN(const auto op, PrepareVariant(slice, r));
      const bool same = op == nullptr
                            ? !known->supported
                            : known->supported && op->workspace_bytes() == known->workspace_bytes &&
                                  op->opaque_bytes() == known->opaque_bytes &&
                                  op->host_bytes() == known->host_bytes &&
                                  op->substitute() == known->substitute &&
                                  op->deterministic() == known->deterministic;
      if (same) continue;
    }
    wanted.push_back(std::move(r));
  }
  return wanted;
}

// What the VCU runs of `graph`.
StatusOr<const Graph*> OwnGraph(TypedGraphs& typed, const Graph& graph, const Cluster& cluster,
                                int vcu, const ProfileOptions& options) {
  if (!options.compute_types.empty()) return typed.In(options.compute_types[vcu]);
  OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graph, cluster.spec().vcus[vcu]));
  return typed.In(dtype);
}

// Adds what the update takes on a VCU's host. An op that the host lacks is told where it is
// planned.
StatusOr<CostTable> WithHostCosts(CostTable found, Slice& host, const Graph& update,
                                  const CostTable& table, const ProfileOptions& options) {
  OC_ASSIGN_OR_RETURN(auto requests, ToMeasure(host, update, &update, host.kind(), table, options));
  auto costs = MeasureCosts(host, requests, {update, nullptr, table}, options);
  if (absl::IsUnimplemented(costs.status())) return found;
  OC_RETURN_IF_ERROR(costs.status());
  for (const auto& [key, entry] : costs->entries()) found.Set(key, entry);
  return found;
}

}  // namespace

Status ProfileGraphs(Cluster& cluster, const Graph& graph, const Graph* update, CostTable& table,
                     const ProfileOptions& options) {
  const std::vector<Vcu*> vcus = cluster.local();
  std::vector<StatusOr<CostTable>> found(vcus.size(), StatusOr<CostTable>(CostTable()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < vcus.size(); ++i) {
    threads.emplace_back([&, i] {
      const VcuSpec& spec = cluster.spec().vcus[vcus[i]->index()];
      if (options.only && !options.only(spec)) return;
      const std::string& kind = spec.kind;
      Slice& slice = vcus[i]->slice();
      const CallPurpose purpose(cluster.spec().vcus[vcus[i]->index()].name.c_str(), "profile", "",
                                kNone);
      TypedGraphs typed(graph);
      auto own = OwnGraph(typed, graph, cluster, vcus[i]->index(), options);
      if (!own.ok()) {
        found[i] = own.status();
        return;
      }
      auto requests = ToMeasure(slice, **own, update, kind, table, options);
      found[i] = requests.ok() ? MeasureCosts(slice, *requests, {**own, update, table}, options)
                               : requests.status();
      if (found[i].ok() && options.hosts && update != nullptr && vcus[i]->host() != nullptr) {
        found[i] = WithHostCosts(*std::move(found[i]), *vcus[i]->host(), *update, table, options);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  if (!options.folder.empty() && !found.empty() && found[0].ok() &&
      table.Find(FileKey(/*write=*/true)) == nullptr) {
    auto file = MeasureFile(options.folder);
    if (!file.ok()) found[0] = file.status();
    if (file.ok()) {
      for (const auto& [key, entry] : file->entries()) found[0]->Set(key, entry);
    }
  }
  std::map<std::string, std::pair<CostEntry, int>> sums;
  const auto add = [&](const CostTable& t) {
    for (const auto& [key, entry] : t.entries()) {
      auto [it, is_new] = sums.try_emplace(key, entry, 1);
      if (is_new) continue;
      it->second.first.seconds += entry.seconds;
      it->second.first.workspace_bytes =
          std::max(it->second.first.workspace_bytes, entry.workspace_bytes);
      ++it->second.second;
    }
  };
  CostTable local;
  Status status;
  for (const auto& t : found) {
    if (!t.ok()) {
      status = t.status();
    } else {
      add(*t);
    }
  }
  for (auto& [key, sum] : sums) {
    sum.first.seconds /= sum.second;
    local.Set(key, sum.first);
  }
  // Everybody comes to the exchange, also with an error: nobody waits for one who gave up.
  OC_ASSIGN_OR_RETURN(auto texts,
                      cluster.job().AllGather(status.ok() ? local.ToJson() : std::string("error"),
                                              "op costs", options.timeout_seconds));
  OC_RETURN_IF_ERROR(status);
  sums.clear();
  for (size_t r = 0; r < texts.size(); ++r) {
    if (texts[r] == "error")
      return absl::AbortedError(absl::StrCat("rank ", r, " failed to measure op costs"));
    OC_ASSIGN_OR_RETURN(const CostTable t, CostTable::FromJson(texts[r]));
    add(t);
  }
  for (auto& [key, sum] : sums) {
    sum.first.seconds /= sum.second;
    table.Set(key, sum.first);
  }
  return OkStatus();
}

}  // namespace oc
