// A small training run and all that it leaves behind, for tests that compare runs bit by bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "test_files.h"

namespace oc::testing {

// Every file of a folder, by its path in it.
inline std::map<std::string, std::string> FilesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), folder).string()] =
        ReadFile(entry.path().string());
  }
  return files;
}

// A GPT whose dropout, clipping, decay and averages all take part; or a ResNet, with running
// statistics.
struct TrainingRun {
  bool images = false;
  std::vector<ClusterEntry> entries = {{.device = "cpu", .cores = 1}};
  bool deterministic = false;
  PipelineOptions options = {.micro_batch = 2, .global_batch = 4, .profile_seconds = 0.02};
  OptimizerOptions optimizer = {.clip_norm = 1, .ema_decay = 0.9};
  std::string load;  // a checkpoint to begin with
  int64_t steps = 4, width = 32, context = 16;
  const DeviceRegistry* registry = nullptr;

  // What it leaves.
  std::vector<double> losses = {};
  std::map<std::string, std::string> files = {};  // of its last checkpoint
  std::string checkpoint = {};                    // its path, as long as the folder lives
  Plan plan = {};
  std::vector<int64_t> peaks = {}, host_peaks = {};  // achieved, by VCU
  double predicted_seconds = 0;

  Status Run(const TempDir& folder, const std::string& name) {
    DiscoverOptions discover;
    discover.config = {.entries = entries};
    discover.deterministic = deterministic;
    discover.registry = registry;
    OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover(discover));
    OC_ASSIGN_OR_RETURN(
        const Graph model,
        images ? models::ResNet({.input = {8, 8, 1}, .classes = 5, .stem = "small", .width = 8})
               : models::Gpt2({.layers = 2,
                               .width = width,
                               .heads = 2,
                               .context = context,
                               .vocabulary = 53,
                               .dropout = 0.1}));
    const HybridOptimizer with(AdamW{.lr = 0.01, .weight_decay = 0.1}, optimizer);
    // Before the pipeline, so that it outlives what reads it ahead.
    const auto data = images
                          ? MakeSyntheticImages({.size = 64, .height = 8, .width = 8, .classes = 5})
                          : MakeSyntheticTokens({.size = 64, .context = context, .vocabulary = 53});
    OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(model, cluster, with, options));
    if (!load.empty()) OC_RETURN_IF_ERROR(pipeline->Load(load));
    OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(*data, steps));
    for (const Batch& batch : batches) {
      OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(batch));
      losses.push_back(step.loss);
    }
    plan = pipeline->plan();
    predicted_seconds = plan.predicted_step_seconds;
    for (const auto& vcu : cluster.vcus()) {
      peaks.push_back(vcu->PeakBytes());
      host_peaks.push_back(vcu->HostPeakBytes());
    }
    OC_ASSIGN_OR_RETURN(checkpoint, pipeline->Save(folder.File(name)));
    files = FilesIn(checkpoint);
    return OkStatus();
  }

  // The tensors of the checkpoint alone: all but the manifest, which holds the plan.
  std::map<std::string, std::string> tensors() const {
    std::map<std::string, std::string> result = files;
    result.erase("manifest.json");
    return result;
  }
};

}  // namespace oc::testing
