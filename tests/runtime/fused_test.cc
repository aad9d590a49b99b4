// Fused ops change what is launched, not what is computed: sim units, whose kernels of fused ops
// give the bits of the ops that they stand for, train alike with and without them.
#include <gtest/gtest.h>

#include "openclaw/graph/fuse.h"
#include "training_run.h"

namespace oc {
namespace {

using testing::TempDir;
using testing::TrainingRun;

std::string AllFusedOps() {
  std::string list;
  for (const std::string& op : FusedOps()) list += (list.empty() ? "" : ",") + op;
  return list;
}

int FusedCalls(const Program& program) {
  int calls = 0;
  for (const VcuProgram& vcu : program.vcus) {
    for (const Segment& segment : vcu.segments) {
      for (const Call& call : segment.calls) calls += IsFused(call.def->name) ? 1 : 0;
    }
  }
  return calls;
}

TrainingRun On(int vcus, const std::string& lacks) {
  TrainingRun run;
  std::map<std::string, std::string> options;
  if (!lacks.empty()) options["lacks"] = lacks;
  run.entries.assign(vcus, {.device = "sim", .cores = 1, .options = options});
  run.steps = 3;
  return run;
}

TEST(FusedOps, TrainToTheSameBits) {
  const TempDir folder;
  for (const int depth : {1, 2}) {
    for (const AmpLevel level : {AmpLevel::kO0, AmpLevel::kO2}) {
      SCOPED_TRACE(depth);
      SCOPED_TRACE(Name(level));
      TrainingRun fused = On(depth, ""), plain = On(depth, AllFusedOps());
      for (TrainingRun* run : {&fused, &plain}) {
        run->options.pipeline_depth = depth;
        run->options.amp_level = level;
      }
      Status status = fused.Run(folder, "fused");
      ASSERT_TRUE(status.ok()) << status;
      plain.options.plan_json = fused.plan.ToJson();
      status = plain.Run(folder, "plain");
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(fused.losses, plain.losses);
      EXPECT_TRUE(fused.tensors() == plain.tensors());
    }
  }
}

// Where nothing reads what GELU was taken of again, the two share memory and are not fused.
TEST(FusedOps, EvaluateAlike) {
  const auto data = MakeSyntheticTokens({.size = 16, .context = 16, .vocabulary = 53});
  std::vector<double> losses;
  for (const std::string& lacks : {std::string(), AllFusedOps()}) {
    const TrainingRun run = On(1, lacks);
    auto cluster = Cluster::Discover({.config = {.entries = run.entries}});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    auto model =
        models::Gpt2({.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 53});
    ASSERT_TRUE(model.ok()) << model.status();
    auto pipeline = ElasticPipeline::Create(*model, *cluster, Sgd{.lr = 0.1}, run.options);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_EQ(FusedCalls((*pipeline)->program()) > 0, lacks.empty());
    auto evaluated = (*pipeline)->Evaluate(*data);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    losses.push_back(evaluated->loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace oc
