// What every command of `ocl` does with an experiment file before it does its own work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/safetensors.h"
#include "openclaw/launcher/config/config.h"
#include "openclaw/runtime/data/open.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {

struct ExperimentFlags {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string run_dir;    // empty: runs/NAME-TIME
  std::string plan_path;  // a plan to run again
  std::string amp_level;  // over precision.amp_level
};

struct Experiment {
  ExperimentConfig config;
  DataSets data;
  Graph model;
  std::optional<SafetensorsReader> weights;  // stored in the file of model.graph
  bool counts_tokens = false;                // text and tokens: throughput is in tokens
};

// Loads and checks the file. Nothing else is touched: its errors come before any process waits.
StatusOr<ExperimentConfig> LoadExperiment(const ExperimentFlags& flags);
// Opens the data and builds the model.
StatusOr<Experiment> OpenExperiment(const ExperimentConfig& config);
// The live cluster that the configuration asks for; all processes compare their configurations.
StatusOr<Cluster> OpenCluster(const ExperimentConfig& config);
// The pipeline, its variables as they begin: from model.weights, else from the weights that are
// stored with the graph, else as the model initialises them. Op costs are read from and kept in
// `profile_path`; empty: not kept.
StatusOr<std::unique_ptr<ElasticPipeline>> OpenPipeline(const Experiment& experiment,
                                                        Cluster& cluster,
                                                        const std::string& profile_path,
                                                        const std::string& plan_path,
                                                        bool profile_parts = false);
// Where a run folder keeps op costs; empty for none.
std::string ProfilePath(const std::string& run_dir);
// The same on every process: the flag's, or runs/NAME-TIME. Made by rank 0.
StatusOr<std::string> MakeRunDir(const ExperimentFlags& flags, const ExperimentConfig& config,
                                 Job& job);
// The options of planning that the configuration gives.
PipelineOptions MakePipelineOptions(const ExperimentConfig& config);

// Whole files. kUnavailable names the path and why; writing goes through a temporary name.
StatusOr<std::string> ReadFile(const std::string& path);
Status WriteFile(const std::string& path, const std::string& text);

}  // namespace oc
