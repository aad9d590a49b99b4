#include "openclaw/partitioner/plan.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "openclaw/core/rng.h"

namespace oc {

using nlohmann::json;

namespace {

int LastOrigin(const Graph& graph) {
  int last = 0;
  for (const Node& node : graph.nodes) last = std::max(last, node.origin);
  return last;
}

StatusOr<StateHome> ParseStateHome(const std::string& name) {
  for (StateHome home : {StateHome::kDevice, StateHome::kHost, StateHome::kFile}) {
    if (name == Name(home)) return home;
  }
  return DataLoss("plan: states lie on '", name, "', which is none of device, host, file");
}

}  // namespace

const char* Name(StateHome home) {
  switch (home) {
    case StateHome::kDevice:
      return "device";
    case StateHome::kHost:
      return "host";
    case StateHome::kFile:
      return "file";
  }
  return "?";
}

const VcuOffload& Plan::offload_of(int vcu) const {
  static const VcuOffload kNothing;
  return offload.empty() ? kNothing : offload[vcu];
}

Status Plan::Validate(const Graph& graph, const ClusterSpec& cluster) const {
  if (micro_batch < 1 || micro_batches < 1) {
    return InvalidArgument("plan: ", micro_batches, " micro-batches of ", micro_batch, " samples");
  }
  if (stages.empty()) return InvalidArgument("plan: no stage");
  int next = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    if (stage.first_origin != next || stage.last_origin < stage.first_origin) {
      return InvalidArgument("plan: stage ", s, " covers nodes ", stage.first_origin, " to ",
                             stage.last_origin, ", wants to begin with ", next);
    }
    next = stage.last_origin + 1;
    if (static_cast<int>(stage.owner.size()) != micro_batches) {
      return InvalidArgument("plan: stage ", s, " assigns ", stage.owner.size(), " of ",
                             micro_batches, " micro-batches");
    }
    for (int vcu : stage.vcus) {
      if (vcu < 0 || vcu >= cluster.size()) {
        return InvalidArgument("plan: stage ", s, " names VCU ", vcu, " of ", cluster.size());
      }
    }
    for (int vcu : stage.owner) {
      if (std::find(stage.vcus.begin(), stage.vcus.end(), vcu) == stage.vcus.end()) {
        return InvalidArgument("plan: stage ", s, " gives a micro-batch to VCU ", vcu,
                               ", which is no replica of it");
      }
    }
  }
  if (next <= LastOrigin(graph)) {
    return InvalidArgument("plan: stages end at node ", next - 1, ", the graph at ",
                           LastOrigin(graph));
  }
  if (!compute_types.empty() && static_cast<int>(compute_types.size()) != cluster.size()) {
    return InvalidArgument("plan: compute types of ", compute_types.size(), " VCUs, there are ",
                           cluster.size());
  }
  if (shard < 0 || shard > 3) {
    return InvalidArgument("plan: shard is ", shard, ", wants 0 to 3");
  }
  if (!shard_weights.empty() && static_cast<int>(shard_weights.size()) != cluster.size()) {
    return InvalidArgument("plan: shard weights of ", shard_weights.size(), " VCUs, there are ",
                           cluster.size());
  }
  for (double weight : shard_weights) {
    if (!(weight > 0 && std::isfinite(weight))) {
      return InvalidArgument("plan: a shard weight is ", weight, ", wants a positive number");
    }
  }
  if (!offload.empty() && static_cast<int>(offload.size()) != cluster.size()) {
    return InvalidArgument("plan: offload of ", offload.size(), " VCUs, there are ",
                           cluster.size());
  }
  for (size_t v = 0; v < offload.size(); ++v) {
    const VcuOffload& o = offload[v];
    const bool wants_host =
        o.states == StateHome::kHost || o.update_on_host || !o.activations.empty();
    if (wants_host && cluster.vcus[v].host_kind.empty()) {
      return InvalidArgument("plan: offload to the host of VCU ", cluster.vcus[v].name,
                             ", whose memory is the host's: nothing would be gained");
    }
    if (o.update_on_host && o.states != StateHome::kHost) {
      return InvalidArgument("plan: VCU ", cluster.vcus[v].name,
                             " is to be updated on the host, and its states lie elsewhere");
    }
  }
  for (size_t v = 0; v < compute_types.size(); ++v) {
    const std::vector<DType>& has = cluster.vcus[v].dtypes;
    if (has.empty() || std::find(has.begin(), has.end(), compute_types[v]) != has.end()) continue;
    return InvalidArgument("plan: VCU ", cluster.vcus[v].name, " is to compute in ",
                           Name(compute_types[v]), ", which its device lacks");
  }
  return OkStatus();
}

std::string Plan::ToJson() const {
  json root = {{"format", "openclaw-plan"},  {"version", 1},
               {"micro_batch", micro_batch}, {"micro_batches", micro_batches},
               {"schedule", schedule},       {"graph", graph_fingerprint},
               {"advice", advice},           {"predicted_step_seconds", predicted_step_seconds}};
  root["recompute"] = {{"policy", recompute}, {"nodes", json::array()}};
  for (const ForwardNode& n : recomputed) {
    root["recompute"]["nodes"].push_back({n.origin, n.index});
  }
  root["shard"] = shard;
  root["compute_types"] = json::array();
  for (DType dtype : compute_types) root["compute_types"].push_back(Name(dtype));
  if (!shard_weights.empty()) root["shard_weights"] = shard_weights;
  root["stages"] = json::array();
  for (const StagePlan& s : stages) {
    root["stages"].push_back({{"first_node", s.first_origin},
                              {"last_node", s.last_origin},
                              {"vcus", s.vcus},
                              {"owner", s.owner}});
  }
  root["vcus"] = json::array();
  for (const VcuPrediction& v : vcus) {
    json memory = json::object();
    for (int u = 0; u < kMemoryUses; ++u) {
      memory[Name(static_cast<MemoryUse>(u))] = v.memory.bytes[u];
    }
    root["vcus"].push_back({{"name", v.name},
                            {"predicted_step_seconds", v.step_seconds},
                            {"predicted_bubble_fraction", v.bubble_fraction},
                            {"predicted_state_bytes", v.state_bytes},
                            {"predicted_step_bytes", v.step_bytes},
                            {"predicted_host_bytes", v.host_bytes},
                            {"predicted_host_arena_bytes", v.host_arena_bytes},
                            {"predicted_file_bytes", v.file_bytes},
                            {"predicted_peak_bytes", v.state_bytes + v.step_bytes},
                            {"predicted_activation_bytes", v.activation_bytes},
                            {"predicted_memory", std::move(memory)}});
  }
  root["not_deterministic"] = json::array();
  for (const NotDeterministic& n : not_deterministic) {
    root["not_deterministic"].push_back({{"vcu", n.vcu}, {"op", n.op}, {"calls", n.calls}});
  }
  root["offload"] = json::array();
  for (const VcuOffload& o : offload) {
    root["offload"].push_back({{"states", Name(o.states)},
                               {"update_on_host", o.update_on_host},
                               {"activations", o.activations}});
  }
  root["substitutes"] = json::array();
  for (const Substitute& s : substitutes) {
    root["substitutes"].push_back(
        {{"vcu", s.vcu}, {"op", s.op}, {"by", s.by}, {"calls", s.calls}, {"seconds", s.seconds}});
  }
  return root.dump(1);
}

StatusOr<Plan> Plan::FromJson(const std::string& text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || root.value("format", json()) != "openclaw-plan") {
    return DataLoss("plan: not a plan file or damaged");
  }
  try {
    Plan plan;
    plan.micro_batch = root.at("micro_batch").get<int64_t>();
    plan.micro_batches = root.at("micro_batches").get<int>();
    plan.schedule = root.at("schedule").get<std::string>();
    plan.shard = root.value("shard", 0);
    plan.shard_weights = root.value("shard_weights", std::vector<double>());
    if (root.at("recompute").is_boolean()) {
      return InvalidArgument("plan: it was written by an earlier version; plan again");
    }
    plan.recompute = root.at("recompute").at("policy").get<std::string>();
    for (const json& n : root.at("recompute").at("nodes")) {
      plan.recomputed.push_back({n.at(0).get<int>(), n.at(1).get<int>()});
    }
    plan.graph_fingerprint = root.at("graph").get<std::string>();
    plan.advice = root.value("advice", std::vector<std::string>());
    plan.predicted_step_seconds = root.value("predicted_step_seconds", 0.0);
    for (const json& name : root.value("compute_types", json::array())) {
      OC_ASSIGN_OR_RETURN(const DType dtype, ParseDType(name.get<std::string>()));
      plan.compute_types.push_back(dtype);
    }
    for (const json& s : root.at("stages")) {
      plan.stages.push_back({s.at("first_node").get<int>(), s.at("last_node").get<int>(),
                             s.at("vcus").get<std::vector<int>>(),
                             s.at("owner").get<std::vector<int>>()});
    }
    for (const json& v : root.value("vcus", json::array())) {
      VcuPrediction p{.name = v.value("name", ""),
                      .step_seconds = v.value("predicted_step_seconds", 0.0),
                      .bubble_fraction = v.value("predicted_bubble_fraction", 0.0),
                      .state_bytes = v.value("predicted_state_bytes", int64_t{0}),
                      .step_bytes = v.value("predicted_step_bytes", int64_t{0}),
                      .host_bytes = v.value("predicted_host_bytes", int64_t{0}),
                      .host_arena_bytes = v.value("predicted_host_arena_bytes", int64_t{0}),
                      .file_bytes = v.value("predicted_file_bytes", int64_t{0}),
                      .activation_bytes = v.value("predicted_activation_bytes", int64_t{0})};
      const json memory = v.value("predicted_memory", json::object());
      for (int u = 0; u < kMemoryUses; ++u) {
        p.memory.bytes[u] = memory.value(Name(static_cast<MemoryUse>(u)), int64_t{0});
      }
      plan.vcus.push_back(std::move(p));
    }
    for (const json& o : root.value("offload", json::array())) {
      VcuOffload one{.update_on_host = o.value("update_on_host", false),
                     .activations = o.value("activations", std::vector<int>())};
      OC_ASSIGN_OR_RETURN(one.states, ParseStateHome(o.at("states").get<std::string>()));
      plan.offload.push_back(std::move(one));
    }
    for (const json& n : root.value("not_deterministic", json::array())) {
      plan.not_deterministic.push_back(
          {n.value("vcu", ""), n.value("op", ""), n.value("calls", 0)});
    }
    for (const json& s : root.value("substitutes", json::array())) {
      plan.substitutes.push_back({s.value("vcu", ""), s.value("op", ""), s.value("by", ""),
                                  s.value("calls", 0), s.value("seconds", 0.0)});
    }
    return plan;
  } catch (const json::exception& e) {
    return DataLoss("plan: ", e.what());
  }
}

std::string GraphFingerprint(const Graph& graph) {
  std::string text = graph.name;
  for (const Value& v : graph.values) {
    if (v.producer == kNone) absl::StrAppend(&text, ";", v.name, " ", v.type.ToString());
  }
  for (const Node& node : graph.nodes) {
    absl::StrAppend(&text, ";", node.def->name, "@", node.def->version, node.attrs.ToString());
    for (int v : node.inputs) absl::StrAppend(&text, ",", v);
  }
  return absl::StrFormat("%016x", StreamOf(text.data(), text.size()));
}

int StageOf(const Plan& plan, const Node& node) {
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    if (node.origin <= plan.stages[s].last_origin) return s;
  }
  return plan.pipeline_depth() - 1;
}

Plan SingleVcuPlan(const Graph& graph, int vcu, int64_t micro_batch, int micro_batches) {
  Plan plan;
  plan.micro_batch = micro_batch;
  plan.micro_batches = micro_batches;
  plan.stages.push_back({0, LastOrigin(graph), {vcu}, std::vector<int>(micro_batches, vcu)});
  plan.graph_fingerprint = GraphFingerprint(graph);
  return plan;
}

}  // namespace oc
