// What reducing gradients beside the last backward gains over reducing them behind it: two replicas
// of a GPT on one core each, both ways in turn, medians of whole steps. One JSON line a shard.
//
//   overlap [--seconds 20] [--micro-batch 4] [--accumulation 1]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "in_memory.h"
#include "openclaw/core/clock.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

struct Wishes {
  double seconds = 20;  // of both ways together, a shard
  int64_t micro_batch = 4;
  int64_t accumulation = 1;
};

// One way, with VCUs of its own.
struct Way {
  std::optional<Cluster> cluster;
  std::unique_ptr<ElasticPipeline> pipeline;
  std::optional<Batches> batches;
  std::optional<Batches::Iterator> batch;
  std::vector<double> seconds;
  double predicted() const { return pipeline->plan().predicted_step_seconds; }
};

Status Open(const Graph& model, const Dataset& data, const Wishes& wishes, int shard, bool overlap,
            Way& way) {
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = 2}));
  way.cluster.emplace(std::move(cluster));
  const HybridOptimizer adamw(AdamW{.lr = 1e-4, .weight_decay = 0.1}, {.clip_norm = 1.0});
  OC_ASSIGN_OR_RETURN(way.pipeline,
                      ElasticPipeline::Create(model, *way.cluster, adamw,
                                              {.micro_batch = wishes.micro_batch,
                                               .gradient_accumulation = wishes.accumulation,
                                               .pipeline_depth = 1,
                                               .data_parallel = 2,
                                               .recompute = "none",
                                               .shard = shard,
                                               .overlap_reductions = overlap,
                                               .profile_seconds = 0.5}));
  OC_ASSIGN_OR_RETURN(Batches batches, way.pipeline->UseData(data, 1 << 20));
  way.batches.emplace(std::move(batches));
  way.batch.emplace(way.batches->begin());
  return OkStatus();
}

Status StepOnce(Way& way, bool counts) {
  const double begin = NowSeconds();
  OC_RETURN_IF_ERROR(way.pipeline->Step(**way.batch).status());
  if (counts) way.seconds.push_back(NowSeconds() - begin);
  ++*way.batch;
  return OkStatus();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Status Run(const Wishes& wishes, int shard) {
  OC_ASSIGN_OR_RETURN(
      const Graph model,
      models::Gpt2({.layers = 4, .width = 256, .heads = 4, .context = 256, .vocabulary = 256}));
  const auto tokens = MakeSyntheticTokens({.size = 64, .context = 256, .vocabulary = 256});
  const InMemory data(*tokens);
  Way beside, behind;
  OC_RETURN_IF_ERROR(Open(model, data, wishes, shard, /*overlap=*/true, beside));
  OC_RETURN_IF_ERROR(Open(model, data, wishes, shard, /*overlap=*/false, behind));
  const double begin = NowSeconds();
  for (int round = 0; round < 2 || NowSeconds() - begin < wishes.seconds; ++round) {
    OC_RETURN_IF_ERROR(StepOnce(round % 2 == 0 ? beside : behind, round > 3));
    OC_RETURN_IF_ERROR(StepOnce(round % 2 == 0 ? behind : beside, round > 3));
  }
  if (beside.seconds.empty()) return InvalidArgument("overlap: --seconds is too short");
  const double with = Median(beside.seconds), without = Median(behind.seconds);
  std::printf(
      "{\"shard\": %d, \"micro_batch\": %d, \"accumulation\": %d, \"steps\": %d, "
      "\"beside_ms\": %.3f, \"behind_ms\": %.3f, \"ratio\": %.4f, "
      "\"predicted_beside_ms\": %.3f, \"predicted_behind_ms\": %.3f}\n",
      shard, static_cast<int>(wishes.micro_batch), static_cast<int>(wishes.accumulation),
      static_cast<int>(beside.seconds.size()), with * 1e3, without * 1e3, without / with,
      beside.predicted() * 1e3, behind.predicted() * 1e3);
  std::fflush(stdout);
  for (Way* way : {&beside, &behind}) {
    way->pipeline.reset();
    OC_RETURN_IF_ERROR(way->cluster->Leave(30));
  }
  return OkStatus();
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  oc::Wishes wishes;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) wishes.seconds = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--micro-batch") == 0) wishes.micro_batch = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--accumulation") == 0) wishes.accumulation = std::atoi(argv[i + 1]);
  }
  for (int shard : {0, 1}) {
    const oc::Status status = oc::Run(wishes, shard);
    if (!status.ok()) {
      std::fprintf(stderr, "overlap: %s\n", status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
