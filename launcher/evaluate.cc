#include <cstdio>

#include "openclaw/launcher/commands.h"

namespace oc {

StatusOr<std::string> FindCheckpoint(const std::string& given, const std::string& run_dir) {
  if (!given.empty()) return given;
  if (run_dir.empty())
    return InvalidArgument("name a checkpoint: --checkpoint FOLDER, or --run-dir of the run");
  OC_ASSIGN_OR_RETURN(auto newest, LatestCheckpoint(run_dir + "/checkpoints"));
  if (!newest.has_value()) return InvalidArgument("no checkpoint in ", run_dir, "/checkpoints");
  return *newest;
}

Status EvaluateCheckpoint(const ExperimentFlags& flags, const std::string& checkpoint, bool ema) {
  OC_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadExperiment(flags));
  OC_ASSIGN_OR_RETURN(const std::string path, FindCheckpoint(checkpoint, flags.run_dir));
  OC_ASSIGN_OR_RETURN(const Experiment experiment, OpenExperiment(config));
  if (experiment.data.validation == nullptr) {
    return InvalidArgument("eval: the experiment names no validation data");
  }
  OC_ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(config));
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      OpenPipeline(experiment, cluster, ProfilePath(flags.run_dir), ""));
  OC_RETURN_IF_ERROR(pipeline->LoadModel(path, ema));
  OC_ASSIGN_OR_RETURN(const EvalResult result, pipeline->Evaluate(*experiment.data.validation));
  if (cluster.job().rank() == 0) {
    std::printf("checkpoint %s, step %lld\n  validation loss %.6f over %.0f %s\n", path.c_str(),
                static_cast<long long>(pipeline->step()), result.loss, result.count,
                experiment.counts_tokens ? "tokens" : "samples");
    if (result.accuracy()) std::printf("  validation accuracy %.4f\n", *result.accuracy());
    if (experiment.data.unigram_entropy) {
      std::printf("  unigram entropy %.4f\n", *experiment.data.unigram_entropy);
    }
  }
  return cluster.Leave(config.comm_options.timeout_seconds);
}

}  // namespace oc
