// State divided over replicas trains as state that all hold: the same bits where each replica takes
// one micro-batch a step, whatever is divided, over how many, by which optimizer, at which
// precision.
#include <gtest/gtest.h>

#include <cmath>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "test_files.h"

namespace oc {
namespace {

using testing::TempDir;

struct Setting {
  int vcus = 2;
  int depth = 1;
  int shard = 0;
  int micro_batches = 0;  // 0: one a replica
  HybridOptimizer optimizer =
      HybridOptimizer(AdamW{.lr = 2e-3, .weight_decay = 0.1}, {.clip_norm = 0.5, .ema_decay = 0.9});
  AmpLevel level = AmpLevel::kO0;
  DType half = DType::kBF16;
  std::vector<double> weights;
  std::vector<int> owner;  // of the micro-batches of the one stage
  std::string offload;     // a folder that states are offloaded to
  std::string resume;      // a checkpoint
  std::string save;        // a folder
  int steps = 3;
};

struct Outcome {
  std::map<std::string, std::vector<std::byte>> variables;
  std::vector<double> losses, norms;
  std::string checkpoint, plan;
  int64_t state_bytes = 0, step_bytes = 0;  // the most of a VCU
  double validation = 0;
  int overlaps = 0;  // of a bucket's reduction with a backward's computation, over all steps
};

// Vocabulary times width is more than a chunk of the norm: parts end inside it.
StatusOr<Graph> Model() {
  return models::Gpt2(
      {.layers = 2, .width = 64, .heads = 2, .context = 16, .vocabulary = 1100, .dropout = 0.1});
}

// Op costs, measured once for all runs of this program.
const std::string& Profile() {
  static const TempDir dir;
  static const std::string path = dir.File("profile.json");
  return path;
}

// How often in the last step a bucket was reduced while a backward computed on the same VCU.
int Overlaps(ElasticPipeline& pipeline) {
  const std::vector<TraceSpan> spans = pipeline.executor().spans();
  const auto command = [&](const TraceSpan& s) -> const Command& {
    return pipeline.program().vcus[s.vcu].commands[s.command];
  };
  int overlaps = 0;
  for (const TraceSpan& r : spans) {
    if (command(r).kind != CommandKind::kCollective || command(r).bucket == kNone) continue;
    for (const TraceSpan& b : spans) {
      const bool backward =
          b.vcu == r.vcu && command(b).kind == CommandKind::kCompute && command(b).name[0] == 'B';
      overlaps += backward && b.begin_nanos < r.end_nanos && r.begin_nanos < b.end_nanos ? 1 : 0;
    }
  }
  return overlaps;
}

Status Train(const Setting& s, Outcome& result) {
  OC_ASSIGN_OR_RETURN(const Graph model, Model());
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = s.vcus}));
  const int replicas = s.vcus / s.depth;
  const int micro_batches = s.micro_batches == 0 ? replicas : s.micro_batches;
  PipelineOptions options = {.micro_batch = 2,
                             .global_batch = 2 * micro_batches,
                             .pipeline_depth = s.depth,
                             .data_parallel = replicas,
                             .schedule = "1f1b",
                             .recompute = "none",
                             .balance = Balance::kEven,
                             .amp_level = s.level,
                             .half = s.half,
                             .shard = s.shard,
                             .seed = 5,
                             .total_steps = 20,
                             .timeout_seconds = 60,
                             .profile_path = Profile(),
                             .profile_seconds = 0.02};
  if (!s.offload.empty()) {
    options.offload.optimizer = "file";
    options.offload.path = s.offload;
  }
  const auto data = MakeSyntheticTokens({.size = 256, .context = 16, .vocabulary = 1100});
  OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(model, cluster, s.optimizer, options));
  if (!s.weights.empty() || !s.owner.empty()) {
    OC_ASSIGN_OR_RETURN(Plan plan, Plan::FromJson(pipeline->plan().ToJson()));
    plan.shard_weights = s.weights;
    if (!s.owner.empty()) plan.stages[0].owner = s.owner;
    options.plan_json = plan.ToJson();
    options.epoch = 1;
    pipeline.reset();
    OC_ASSIGN_OR_RETURN(pipeline, ElasticPipeline::Create(model, cluster, s.optimizer, options));
  }
  result.plan = pipeline->plan().ToJson();
  if (!s.resume.empty()) OC_RETURN_IF_ERROR(pipeline->Load(s.resume));
  OC_ASSIGN_OR_RETURN(Batches batches, pipeline->UseData(*data, s.steps));
  for (const Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(batch));
    result.losses.push_back(step.loss);
    result.norms.push_back(step.grad_norm);
    result.overlaps += Overlaps(*pipeline);
  }
  for (const auto& vcu : cluster.vcus()) {
    const VcuProgram& p = pipeline->program().vcus[vcu->index()];
    result.state_bytes = std::max(result.state_bytes, p.state_bytes);
    result.step_bytes = std::max(result.step_bytes, p.step_bytes);
    for (const auto* list : {&p.state, &p.gradients}) {
      for (const StateEntry& e : *list) {
        OC_ASSIGN_OR_RETURN(const Tensor value, pipeline->ReadVariable(e.name));
        result.variables[e.name].assign(value.bytes().begin(), value.bytes().end());
      }
    }
  }
  if (!s.save.empty()) {
    OC_ASSIGN_OR_RETURN(result.checkpoint, pipeline->Save(s.save));
  }
  const auto validation =
      MakeSyntheticTokens({.size = 19, .context = 16, .vocabulary = 1100, .split = 1});
  OC_ASSIGN_OR_RETURN(const EvalResult eval, pipeline->Evaluate(*validation));
  result.validation = eval.loss;
  // What evaluation gathered changed nothing.
  for (const auto& [name, bytes] : result.variables) {
    if (name.rfind("grad.", 0) == 0) continue;
    OC_ASSIGN_OR_RETURN(const Tensor value, pipeline->ReadVariable(name));
    if (!std::equal(bytes.begin(), bytes.end(), value.bytes().begin())) {
      return Internal("evaluation changed ", name);
    }
  }
  return OkStatus();
}

Outcome TrainWith(const Setting& s) {
  Outcome result;
  EXPECT_EQ(Train(s, result), OkStatus()) << "shard " << s.shard << " over " << s.vcus;
  return result;
}

void ExpectSame(const Outcome& a, const Outcome& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.validation, b.validation) << what;
  ASSERT_EQ(a.variables.size(), b.variables.size()) << what;
  for (const auto& [name, bytes] : a.variables) {
    const auto other = b.variables.find(name);
    ASSERT_TRUE(other != b.variables.end()) << what << " " << name;
    EXPECT_TRUE(bytes == other->second) << what << " " << name;
  }
}

double Furthest(const Outcome& a, const Outcome& b) {
  double furthest = 0;
  for (const auto& [name, bytes] : a.variables) {
    const auto* x = reinterpret_cast<const float*>(bytes.data());
    const auto* y = reinterpret_cast<const float*>(b.variables.at(name).data());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < bytes.size() / 4; ++i) {
      difference += std::pow(x[i] - y[i], 2);
      norm += std::pow(x[i], 2);
    }
    furthest = std::max(furthest, std::sqrt(difference / std::max(norm, 1e-30)));
  }
  return furthest;
}

void CompareStages(Setting s, const std::string& what) {
  s.shard = 0;
  const Outcome plain = TrainWith(s);
  ASSERT_FALSE(plain.losses.empty()) << what;
  for (int shard : {1, 2, 3}) {
    s.shard = shard;
    const Outcome divided = TrainWith(s);
    ExpectSame(plain, divided, absl::StrCat(what, " shard ", shard));
    EXPECT_LT(divided.state_bytes, plain.state_bytes) << what << " shard " << shard;
  }
}

TEST(Shard, TwoReplicas) { CompareStages({.vcus = 2}, "two"); }
TEST(Shard, ThreeReplicas) { CompareStages({.vcus = 3}, "three"); }
TEST(Shard, FourReplicas) { CompareStages({.vcus = 4}, "four"); }

TEST(Shard, MixedPrecision) {
  CompareStages({.vcus = 3, .level = AmpLevel::kO2}, "bf16");
  CompareStages({.vcus = 2, .level = AmpLevel::kO2, .half = DType::kF16}, "f16, loss scaled");
  CompareStages({.vcus = 2, .level = AmpLevel::kO3}, "O3");
}

TEST(Shard, OptimizersOfWholeTensors) {
  CompareStages({.vcus = 3, .optimizer = HybridOptimizer(Lamb{.lr = 1e-2}, {.clip_norm = 1})},
                "lamb");
  CompareStages({.vcus = 2, .optimizer = HybridOptimizer(Muon{.lr = 1e-2}, {.clip_norm = 1})},
                "muon");
  CompareStages({.vcus = 2, .optimizer = HybridOptimizer(Adafactor{.lr = 1e-2})}, "adafactor");
}

// Two pipelines of two stages; the embedding is read on both.
TEST(Shard, PipelinesWithATiedWeight) { CompareStages({.vcus = 4, .depth = 2}, "2 x 2"); }

// With several micro-batches a replica stages 0 and 1 sum the same way; from 2 on each round is
// reduced by itself, and the sum over rounds is rounded elsewhere.
TEST(Shard, SeveralMicroBatches) {
  for (Setting s :
       {Setting{.vcus = 2, .micro_batches = 6},
        Setting{
            .vcus = 3, .micro_batches = 8, .weights = {1, 2, 3}, .owner = {0, 0, 0, 0, 0, 1, 1, 2}},
        Setting{.vcus = 4, .depth = 2, .micro_batches = 8}}) {
    s.optimizer = HybridOptimizer(Sgd{.lr = 0.05, .momentum = 0.9}, {.clip_norm = 0.5});
    const Outcome plain = TrainWith(s);
    s.shard = 1;
    ExpectSame(plain, TrainWith(s), absl::StrCat(s.vcus, " VCUs, shard 1"));
    for (int shard : {2, 3}) {
      s.shard = shard;
      const Outcome divided = TrainWith(s);
      EXPECT_LE(Furthest(plain, divided), 1e-6) << s.vcus << " VCUs, shard " << shard;
    }
  }
}

// Parts of unlike sizes: the bits are those of the plain run with the same division.
TEST(Shard, UnequalParts) { CompareStages({.vcus = 3, .weights = {1, 2, 5}}, "unequal parts"); }

// With dropout and a loss scale, N steps, a checkpoint and N more are 2N.
TEST(Shard, CheckpointsGoOn) {
  TempDir dir;
  for (int shard : {1, 2, 3}) {
    Setting s = {
        .vcus = 2, .shard = shard, .level = AmpLevel::kO2, .half = DType::kF16, .steps = 4};
    const Outcome whole = TrainWith(s);
    s.steps = 2;
    s.save = dir.File(absl::StrCat("shard", shard));
    const Outcome half = TrainWith(s);
    s.save.clear();
    s.resume = half.checkpoint;
    const Outcome rest = TrainWith(s);
    EXPECT_EQ(std::vector<double>(whole.losses.begin() + 2, whole.losses.end()), rest.losses);
    for (const auto& [name, bytes] : whole.variables) {
      EXPECT_TRUE(bytes == rest.variables.at(name)) << shard << " " << name;
    }
    // Under any other division of as many replicas the same bits.
    for (int other : {0, 1, 2, 3}) {
      s.shard = other;
      ExpectSame(rest, TrainWith(s), absl::StrCat("from ", shard, " to ", other));
    }
  }
}

// What four hold parts of goes on where one holds all.
TEST(Shard, ACheckpointOfFourGoesOnAlone) {
  TempDir dir;
  const Outcome four = TrainWith({.vcus = 4, .shard = 3, .save = dir.File("four"), .steps = 2});
  const Outcome alone =
      TrainWith({.vcus = 1, .micro_batches = 4, .resume = four.checkpoint, .steps = 2});
  const Outcome same = TrainWith({.vcus = 4, .shard = 0, .resume = four.checkpoint, .steps = 2});
  ASSERT_EQ(alone.losses.size(), 2u);
  EXPECT_LE(Furthest(same, alone), 1e-3);
  // And back again.
  const Outcome saved =
      TrainWith({.vcus = 1, .micro_batches = 4, .save = dir.File("alone"), .steps = 2});
  const Outcome three = TrainWith({.vcus = 4, .shard = 3, .resume = saved.checkpoint, .steps = 2});
  const Outcome plain = TrainWith({.vcus = 4, .shard = 0, .resume = saved.checkpoint, .steps = 2});
  ExpectSame(plain, three, "from one");
}

// Each replica's part of the states lies in its file and is brought bucket by bucket.
TEST(Shard, OffloadedParts) {
  TempDir dir;
  Setting s = {.vcus = 2, .level = AmpLevel::kO2};
  const Outcome plain = TrainWith(s);
  for (int shard : {1, 2, 3}) {
    s.shard = shard;
    s.offload = dir.path();
    ExpectSame(plain, TrainWith(s), absl::StrCat("offloaded, shard ", shard));
  }
}

TEST(Shard, ReductionsRunBesideBackward) {
  for (int shard : {0, 1, 2, 3}) {
    EXPECT_GT(TrainWith({.vcus = 2, .shard = shard, .steps = 8}).overlaps, 0) << shard;
  }
}

TEST(Shard, MemoryFallsStageByStage) {
  // The embedding, of which one chunk alone is more than a third of all, sets the largest part.
  std::vector<Outcome> at;
  for (int shard : {0, 1, 2, 3}) {
    at.push_back(TrainWith({.vcus = 4, .shard = shard, .level = AmpLevel::kO2, .steps = 1}));
  }
  EXPECT_LT(at[1].state_bytes, 0.55 * at[0].state_bytes);
  EXPECT_LE(at[2].state_bytes, at[1].state_bytes);
  EXPECT_LE(at[3].state_bytes, at[2].state_bytes);
  EXPECT_LT(at[2].step_bytes, at[1].step_bytes);
  EXPECT_LT(at[3].step_bytes, at[2].step_bytes);
}

}  // namespace
}  // namespace oc
