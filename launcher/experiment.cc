#include "openclaw/launcher/experiment.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "openclaw/graph/file/graph_file.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/launcher/config/cluster_file.h"

namespace oc {

namespace fs = std::filesystem;

StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return absl::UnavailableError(absl::StrCat("read ", path, ": ", std::strerror(errno)));
  }
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Status WriteFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, path, error);
  if (!out || error) {
    return absl::UnavailableError(absl::StrCat(
        "write ", path, ": ", error ? error.message() : std::string(std::strerror(errno))));
  }
  return OkStatus();
}

StatusOr<ExperimentConfig> LoadExperiment(const ExperimentFlags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (!flags.amp_level.empty()) overrides.push_back("precision.amp_level=" + flags.amp_level);
  OC_ASSIGN_OR_RETURN(ExperimentConfig config, LoadConfig(flags.config_path, overrides));
  OC_RETURN_IF_ERROR(CheckBuilt(config));
  return config;
}

StatusOr<Experiment> OpenExperiment(const ExperimentConfig& config) {
  Experiment e;
  e.config = config;
  DataHints hints;
  std::optional<Graph> file_model;
  if (!config.model.graph.empty()) {
    OC_ASSIGN_OR_RETURN(LoadedGraph loaded, LoadGraph(config.model.graph, BuiltinOps()));
    file_model = std::move(loaded.graph);
    e.weights = std::move(loaded.weights);
    const int tokens = file_model->FindValue("tokens");
    if (tokens != kNone) hints.context = file_model->value(tokens).type.shape[-1].size();
  } else {
    hints.context = models::ContextOf(config.model);
  }
  for (const char* key : {"classes", "vocabulary"}) {
    auto it = config.model.ints.find(key);
    if (it != config.model.ints.end()) hints.classes = it->second;
  }
  OC_ASSIGN_OR_RETURN(e.data, OpenData(config.data, hints));
  e.counts_tokens = config.data.format == "text" || config.data.format == "tokens";
  if (file_model.has_value()) {
    e.model = std::move(*file_model);
    return e;
  }
  models::DataFeatures features;
  for (const Feature& f : e.data.train->features()) features.inputs[f.name] = f.type;
  (e.counts_tokens ? features.vocabulary : features.classes) = e.data.classes;
  OC_ASSIGN_OR_RETURN(e.model, models::BuildModel(config.model, features));
  return e;
}

StatusOr<Cluster> OpenCluster(const ExperimentConfig& config) {
  DiscoverOptions options;
  options.config = config.cluster;
  options.timeout_seconds = config.comm_options.timeout_seconds;
  options.deterministic = config.train.deterministic;
  if (config.comm_options.pipeline_depth || config.parallel.data_parallel) {
    options.vcus = static_cast<int>(config.comm_options.pipeline_depth.value_or(1) *
                                    config.parallel.data_parallel.value_or(1));
  }
  std::vector<std::string> kinds;  // that a file claims, by entry
  if (!config.cluster.file.empty()) {
    OC_ASSIGN_OR_RETURN(const ClusterSpec file,
                        LoadCluster(config.cluster.file, /*need_links=*/false));
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    OC_ASSIGN_OR_RETURN(options.config.entries, EntriesOn(file, host));
    options.config.file.clear();
    for (const VcuSpec& v : file.vcus) {
      if (v.host.empty() || v.host == host) kinds.push_back(v.kind);
    }
  }
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover(options));
  for (const auto& vcu : cluster.vcus()) {
    // Alone a process has all entries, under a launcher the one of its local rank.
    const size_t entry = cluster.job().world_size() > 1 ? cluster.job().local_rank() : vcu->index();
    if (kinds.empty() || kinds[entry % kinds.size()].empty()) continue;
    if (kinds[entry % kinds.size()] != vcu->slice().kind()) {
      return InvalidArgument(config.cluster.file, ": VCU ", entry % kinds.size(), " is said to be ",
                             kinds[entry % kinds.size()], ", this host has ", vcu->slice().kind());
    }
  }
  OC_ASSIGN_OR_RETURN(auto texts, cluster.job().AllGather(FormatConfig(config), "configuration",
                                                          options.timeout_seconds));
  OC_ASSIGN_OR_RETURN(const ExperimentConfig first, ParseConfig(texts[0], "rank 0"));
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    OC_ASSIGN_OR_RETURN(const ExperimentConfig other,
                        ParseConfig(texts[r], absl::StrCat("rank ", r)));
    return InvalidArgument("ranks 0 and ", r,
                           " have different configurations: ", ConfigDiff(first, other));
  }
  return cluster;
}

PipelineOptions MakePipelineOptions(const ExperimentConfig& c) {
  PipelineOptions o;
  o.micro_batch = c.train.micro_batch;
  o.global_batch = c.train.global_batch;
  o.gradient_accumulation = c.comm_options.gradient_accumulation;
  o.pipeline_depth = c.comm_options.pipeline_depth;
  o.data_parallel = c.parallel.data_parallel;
  o.schedule = c.parallel.schedule;
  o.recompute = c.parallel.recompute;
  o.recompute_modules = c.parallel.recompute_modules;
  o.activation_budget = c.parallel.activation_budget;
  o.stages = c.parallel.stages;
  o.balance = c.parallel.balance == "even" ? Balance::kEven : Balance::kMeasured;
  o.amp_level = c.precision.amp_level;
  o.half = c.precision.dtype;
  o.loss_scale = c.precision.loss_scale;
  o.allreduce_algorithm = c.comm_options.allreduce_algorithm;
  o.shard = c.parallel.shard;
  o.shard_by = c.parallel.shard_by == "memory"  ? ShardBy::kMemory
               : c.parallel.shard_by == "speed" ? ShardBy::kSpeed
                                                : ShardBy::kEqual;
  o.offload = c.parallel.offload;
  o.seed = c.train.seed;
  o.capture = c.train.capture;
  o.total_steps = c.train.steps.value_or(0);
  o.data_workers = c.data.workers;
  o.timeout_seconds = c.comm_options.timeout_seconds;
  return o;
}

StatusOr<std::unique_ptr<ElasticPipeline>> OpenPipeline(const Experiment& e, Cluster& cluster,
                                                        const std::string& profile_path,
                                                        const std::string& plan_path,
                                                        bool profile_parts) {
  OC_ASSIGN_OR_RETURN(const HybridOptimizer optimizer,
                      HybridOptimizer::FromConfig(e.config.optimizer));
  PipelineOptions options = MakePipelineOptions(e.config);
  options.profile_path = profile_path;
  options.profile_parts = profile_parts;
  if (!plan_path.empty()) {
    OC_ASSIGN_OR_RETURN(options.plan_json, ReadFile(plan_path));
  }
  OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(e.model, cluster, optimizer, options));
  if (!e.config.model.weights.empty()) {
    OC_RETURN_IF_ERROR(pipeline->LoadWeights(e.config.model.weights));
  } else if (e.weights.has_value()) {
    OC_RETURN_IF_ERROR(pipeline->LoadWeights(*e.weights));
  }
  return pipeline;
}

std::string ProfilePath(const std::string& run_dir) {
  return run_dir.empty() ? "" : run_dir + "/profile.json";
}

StatusOr<std::string> MakeRunDir(const ExperimentFlags& flags, const ExperimentConfig& config,
                                 Job& job) {
  std::string dir = flags.run_dir;
  if (job.rank() == 0) {
    if (dir.empty()) {
      char stamp[32];
      const std::time_t now = std::time(nullptr);
      std::tm local{};
      localtime_r(&now, &local);
      std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
      dir = absl::StrCat("runs/", config.name, "-", stamp);
    }
    std::error_code error;
    fs::create_directories(dir, error);
    if (error) dir = absl::StrCat("!make ", dir, ": ", error.message());
  }
  OC_ASSIGN_OR_RETURN(dir,
                      job.Broadcast(dir, 0, "run folder", config.comm_options.timeout_seconds));
  if (!dir.empty() && dir[0] == '!') return absl::UnavailableError(dir.substr(1));
  return dir;
}

}  // namespace oc
