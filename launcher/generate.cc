#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "openclaw/core/logging.h"
#include "openclaw/core/rng.h"
#include "openclaw/launcher/commands.h"

namespace oc {
namespace {

// One token from the logits of a position; `u` in [0, 1).
int32_t Choose(const float* logits, int64_t vocabulary, const GenerateFlags& flags, double u) {
  std::vector<int32_t> order(static_cast<size_t>(vocabulary));
  std::iota(order.begin(), order.end(), 0);
  const int64_t k = flags.temperature <= 0 ? 1
                    : flags.top_k > 0      ? std::min(flags.top_k, vocabulary)
                                           : vocabulary;
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  if (k == 1) return order[0];
  std::vector<double> weights(static_cast<size_t>(k));
  double total = 0;
  for (int64_t i = 0; i < k; ++i) {
    weights[i] = std::exp((logits[order[i]] - logits[order[0]]) / flags.temperature);
    total += weights[i];
  }
  double rest = u * total;
  for (int64_t i = 0; i < k; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[k - 1];
}

Status Check(const GenerateFlags& flags) {
  if (flags.tokens < 1)
    return InvalidArgument("generate: --tokens ", flags.tokens, " is not positive");
  if (!(flags.temperature >= 0))
    return InvalidArgument("generate: --temperature ", flags.temperature, " is negative");
  if (flags.top_k < 0) return InvalidArgument("generate: --top-k ", flags.top_k, " is negative");
  return OkStatus();
}

}  // namespace

Status Generate(const ExperimentFlags& flags, const GenerateFlags& generate) {
  OC_RETURN_IF_ERROR(Check(generate));
  OC_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadExperiment(flags));
  if (config.data.format == "tokens") {
    return Unimplemented(
        "generate: data.format 'tokens'; there is text (bytes), other tokenizers are not built");
  }
  if (config.data.format != "text") {
    return InvalidArgument("generate: the model is no language model: data.format is '",
                           config.data.format, "', not text");
  }
  OC_ASSIGN_OR_RETURN(const std::string path, FindCheckpoint(generate.checkpoint, flags.run_dir));
  OC_ASSIGN_OR_RETURN(const Experiment experiment, OpenExperiment(config));
  OC_ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(config));
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      OpenPipeline(experiment, cluster, ProfilePath(flags.run_dir), ""));
  OC_RETURN_IF_ERROR(pipeline->LoadModel(path, generate.ema));
  const int tokens_value = pipeline->joint().FindValue("tokens");
  if (tokens_value == kNone) return InvalidArgument("generate: the model reads no tokens");
  const int64_t context = pipeline->joint().value(tokens_value).type.shape[-1].size();
  const bool first = cluster.job().rank() == 0;
  if (first)
    OC_LOG_INFO("every token runs the whole context of ", context, " anew: there is no cache yet");

  // The text so far; without a prompt it begins with a line break.
  std::string text = generate.prompt.empty() ? "\n" : generate.prompt;
  if (first) std::fputs(generate.prompt.c_str(), stdout);
  const Philox rng(generate.seed);
  for (int64_t n = 0; n < generate.tokens; ++n) {
    const int64_t used = std::min<int64_t>(context, static_cast<int64_t>(text.size()));
    Tensor tokens({DType::kI32, {1, context}});
    for (int64_t i = 0; i < used; ++i) {
      tokens.data<int32_t>()[i] = static_cast<unsigned char>(text[text.size() - used + i]);
    }
    OC_ASSIGN_OR_RETURN(const Tensor logits, pipeline->Forward({{"tokens", tokens}}, "logits"));
    const int64_t vocabulary = logits.shape()[-1].size();
    const float* row = logits.data<float>() + (used - 1) * vocabulary;
    const double u = UniformFloat(rng.Word(1, static_cast<uint64_t>(n)));
    const char next = static_cast<char>(Choose(row, vocabulary, generate, u));
    text.push_back(next);
    if (first) {
      std::fputc(next, stdout);
      std::fflush(stdout);
    }
  }
  if (first) std::fputc('\n', stdout);
  return cluster.Leave(config.comm_options.timeout_seconds);
}

}  // namespace oc
