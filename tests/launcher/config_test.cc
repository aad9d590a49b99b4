#include "openclaw/launcher/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Every key, line by line, so that messages can be checked for their line.
constexpr char kFull[] = R"(name: everything
model: {name: gpt2, layers: 4, width: 256, heads: 4, context: 256, dropout: 0.1}
data: {format: text, train: [train.txt], validation: val.txt, workers: 2}
train: {steps: 200, micro_batch: 8, global_batch: 64, seed: 7, evaluate_every: 50, deterministic: true, capture: false}
optimizer:
  name: adamw
  lr: 6.0e-4
  betas: [0.9, 0.95]
  eps: 1e-9
  weight_decay: 0.1
  clip_norm: 1.0
  schedule: {name: cosine, warmup_steps: 20, final_ratio: 0.1}
precision: {amp_level: O2, dtype: f16}
comm_options: {gradient_accumulation: 4, allreduce_algorithm: hybrid, pipeline_depth: 2, timeout_seconds: 5}
parallel: {data_parallel: 2, schedule: 1f1b, recompute: marked, activation_budget: 40%, shard: 1, stages: [blocks.1, blocks.2], offload: {optimizer: file, path: /scratch, update: device, activations: ["transformer.h.*"]}}
cluster: [{device: cpu, cores: 1, memory: 4GiB}, {device: opencl, memory: 512MiB, opencl: {speed: 2.5, types: [f32, i32]}}]
checkpoint: {every: 100, keep: 5, resume: none}
log: {every: 10, tensorboard: false}
)";

constexpr char kSmall[] = R"(model: {name: mlp, hidden: [512, 256], classes: 10}
data: {format: idx, train: {images: a, labels: b}}
train: {epochs: 2}
)";

StatusOr<ExperimentConfig> Small(const std::vector<std::string>& overrides) {
  return ParseConfig(kSmall, "small.yaml", overrides);
}

// The message of the error, which must be kInvalidArgument.
std::string Error(const StatusOr<ExperimentConfig>& config) {
  if (config.ok()) return "(ok)";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

std::string ErrorOf(const std::string& text) { return Error(ParseConfig(text, "x.yaml")); }

// kFull with one piece of text replaced.
std::string Edited(const std::string& from, const std::string& to) {
  std::string text = kFull;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Config, ReadsEveryKey) {
  const StatusOr<ExperimentConfig> config = ParseConfig(kFull, "full.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const ExperimentConfig& c = *config;
  EXPECT_EQ(c.name, "everything");
  EXPECT_EQ(c.model.name, "gpt2");
  EXPECT_EQ(c.model.ints.at("layers"), 4);
  EXPECT_EQ(c.model.doubles.at("dropout"), 0.1);
  EXPECT_THAT(c.data.train, ElementsAre("train.txt"));
  EXPECT_THAT(c.data.validation, ElementsAre("val.txt"));
  EXPECT_EQ(c.data.workers, 2);
  EXPECT_EQ(c.train.steps, 200);
  EXPECT_EQ(c.train.epochs, std::nullopt);
  EXPECT_EQ(c.train.micro_batch, 8);
  EXPECT_EQ(c.train.global_batch, 64);
  EXPECT_EQ(c.train.seed, 7u);
  EXPECT_EQ(c.train.evaluate_every, 50);
  EXPECT_TRUE(c.train.deterministic);
  EXPECT_FALSE(c.train.capture);
  EXPECT_EQ(c.optimizer.lr, 6e-4);
  EXPECT_THAT(c.optimizer.betas, ElementsAre(0.9, 0.95));
  EXPECT_EQ(c.optimizer.eps, 1e-9);
  EXPECT_EQ(c.optimizer.weight_decay, 0.1);
  EXPECT_EQ(c.optimizer.clip_norm, 1.0);
  EXPECT_EQ(c.optimizer.schedule.name, "cosine");
  EXPECT_EQ(c.optimizer.schedule.warmup_steps, 20);
  EXPECT_EQ(c.optimizer.schedule.final_ratio, 0.1);
  EXPECT_EQ(c.precision.amp_level, AmpLevel::kO2);
  EXPECT_EQ(c.precision.dtype, DType::kF16);
  EXPECT_EQ(c.comm_options.gradient_accumulation, 4);
  EXPECT_EQ(c.comm_options.allreduce_algorithm, AllReduce::kHybrid);
  EXPECT_EQ(c.parallel.offload.optimizer, "file");
  EXPECT_EQ(c.parallel.offload.path, "/scratch");
  EXPECT_EQ(c.parallel.offload.update, "device");
  EXPECT_THAT(c.parallel.offload.activations, ElementsAre("transformer.h.*"));
  EXPECT_EQ(c.comm_options.pipeline_depth, 2);
  EXPECT_EQ(c.comm_options.timeout_seconds, 5);
  EXPECT_EQ(c.parallel.data_parallel, 2);
  EXPECT_EQ(c.parallel.schedule, "1f1b");
  EXPECT_EQ(c.parallel.recompute, "marked");
  EXPECT_EQ(c.parallel.activation_budget.percent, 40);
  EXPECT_EQ(c.parallel.shard, 1);
  EXPECT_THAT(c.parallel.stages, ElementsAre("blocks.1", "blocks.2"));
  ASSERT_EQ(c.cluster.entries.size(), 2u);
  EXPECT_EQ(c.cluster.entries[0].cores, 1);
  EXPECT_EQ(c.cluster.entries[0].memory_bytes, int64_t{4} << 30);
  EXPECT_EQ(c.cluster.entries[1].device, "opencl");
  EXPECT_EQ(c.cluster.entries[1].memory_bytes, 512 << 20);
  EXPECT_TRUE(c.cluster.entries[0].options.empty());
  EXPECT_THAT(c.cluster.entries[1].options,
              ElementsAre(Pair("speed", "2.5"), Pair("types", "f32,i32")));
  EXPECT_EQ(c.checkpoint.every, 100);
  EXPECT_EQ(c.checkpoint.keep, 5);
  EXPECT_EQ(c.checkpoint.resume, "none");
  EXPECT_EQ(c.log.every, 10);
  EXPECT_FALSE(c.log.tensorboard);
}

TEST(Config, AutoAndDefaults) {
  const StatusOr<ExperimentConfig> config = ParseConfig(R"(
model: {preset: gpt2-124m, weights: w.safetensors}
data: {format: tokens, train: [a.bin, b.bin]}
train: {steps: 5, global_batch: auto}
comm_options: {gradient_accumulation: auto, pipeline_depth: auto}
parallel: {data_parallel: auto, stages: auto}
cluster: auto
checkpoint: {resume: auto}
)",
                                                        "auto.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.preset, "gpt2-124m");
  EXPECT_EQ(config->model.weights, "w.safetensors");
  EXPECT_EQ(config->train.global_batch, std::nullopt);
  EXPECT_EQ(config->comm_options.gradient_accumulation, std::nullopt);
  EXPECT_EQ(config->comm_options.pipeline_depth, std::nullopt);
  EXPECT_EQ(config->parallel.data_parallel, std::nullopt);
  EXPECT_TRUE(config->parallel.stages.empty());
  EXPECT_TRUE(config->cluster.entries.empty() && config->cluster.file.empty());
  EXPECT_EQ(config->optimizer.name, "adamw");
  const StatusOr<ExperimentConfig> file = Small({"cluster=my_cluster.yaml"});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->cluster.file, "my_cluster.yaml");
}

TEST(Config, OverridesReplaceValues) {
  const StatusOr<ExperimentConfig> c =
      Small({"optimizer.lr=3e-4", "optimizer.schedule={name: linear}", "model.hidden=[7]",
             "data.train.labels=other", "train.steps=10", "cluster=[{device: cpu}]",
             "cluster.0.memory=1.5GiB"});
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->optimizer.lr, 3e-4);
  EXPECT_EQ(c->optimizer.schedule.name, "linear");
  EXPECT_THAT(c->model.lists.at("hidden"), ElementsAre(7));
  EXPECT_EQ(c->data.train_images, "a");
  EXPECT_EQ(c->data.train_labels, "other");
  EXPECT_EQ(c->cluster.entries.at(0).memory_bytes, 3 << 29);
  // Steps on the command line take the place of the file's epochs.
  EXPECT_EQ(c->train.steps, 10);
  EXPECT_EQ(c->train.epochs, std::nullopt);
}

TEST(Config, BadOverridesNameTheCommandLine) {
  EXPECT_THAT(Error(Small({"optimizer.lr"})), HasSubstr("not of the form key.path=value"));
  EXPECT_THAT(Error(Small({"optimizer..lr=1"})), HasSubstr("not of the form key.path=value"));
  EXPECT_THAT(Error(Small({"optimizer.lr=[1"})), HasSubstr("command line (optimizer.lr=[1)"));
  EXPECT_THAT(Error(Small({"optimiser.lr=1"})),
              AllOf(HasSubstr("command line (optimiser.lr=1): unknown key `optimiser`"),
                    HasSubstr("`optimizer`?")));
  EXPECT_THAT(Error(Small({"train.epochs.x=1"})), HasSubstr("cannot set `x` inside the value `2`"));
  EXPECT_THAT(Error(Small({"cluster.0.memory=1GiB"})), HasSubstr("cluster"));
  EXPECT_THAT(Error(Small({"model.hidden.2=5"})), HasSubstr("no item of a list of 2"));
  EXPECT_THAT(Error(Small({"train.steps=5", "train.epochs=1"})),
              HasSubstr("excludes `train.steps`"));
}

TEST(Config, UnknownKeysNameLineAndNearest) {
  EXPECT_THAT(ErrorOf(Edited("weight_decay", "weight_decya")),
              HasSubstr("x.yaml:10: unknown key `optimizer.weight_decya`; did you mean "
                        "`weight_decay`?"));
  EXPECT_THAT(ErrorOf(Edited("warmup_steps", "warmup")),
              AllOf(HasSubstr("x.yaml:12: unknown key `optimizer.schedule.warmup`"),
                    HasSubstr("known here: name, warmup_steps, final_ratio")));
  EXPECT_THAT(ErrorOf(Edited("precision:", "precison:")),
              HasSubstr("x.yaml:13: unknown key `precison`; did you mean `precision`?"));
  EXPECT_THAT(ErrorOf(Edited("heads: 4", "head: 4")),
              HasSubstr("x.yaml:2: unknown key `model.head`; did you mean `heads`?"));
  EXPECT_THAT(ErrorOf(Edited("cores: 1", "core: 1")),
              HasSubstr("x.yaml:16: unknown key `cluster.0.core`; did you mean `cores`?"));
  // A key of another model is unknown here.
  EXPECT_THAT(Error(Small({"model.kv_heads=2"})), HasSubstr("unknown key `model.kv_heads`"));
}

TEST(Config, WrongTypesAndRangesNameLineValueAndAllowed) {
  EXPECT_THAT(ErrorOf(Edited("6.0e-4", "fast")),
              HasSubstr("x.yaml:7: `optimizer.lr` is `fast`, which must be a number above 0"));
  EXPECT_THAT(ErrorOf(Edited("6.0e-4", "nan")), HasSubstr("`optimizer.lr` is `nan`"));
  EXPECT_THAT(ErrorOf(Edited("6.0e-4", "\"0.1\"")), HasSubstr("`optimizer.lr` is `\"0.1\"`"));
  EXPECT_THAT(ErrorOf(Edited("micro_batch: 8", "micro_batch: 0")),
              HasSubstr("x.yaml:4: `train.micro_batch` is `0`, which must be an integer in [1, "));
  EXPECT_THAT(ErrorOf(Edited("steps: 200", "steps: 2.5")),
              HasSubstr("`train.steps` is `2.5`, which must be an integer of at least 1"));
  EXPECT_THAT(ErrorOf(Edited("[0.9, 0.95]", "[0.9, 1.0]")),
              HasSubstr("`optimizer.betas` is `1.0`, which must be a number in [0, 1)"));
  EXPECT_THAT(ErrorOf(Edited("[0.9, 0.95]", "[0.9]")), HasSubstr("a list of 2 numbers"));
  EXPECT_THAT(ErrorOf(Edited("deterministic: true", "deterministic: maybe")),
              HasSubstr("which must be true or false"));
  EXPECT_THAT(ErrorOf(Edited("cosine", "cosin")),
              HasSubstr("`optimizer.schedule.name` is `cosin`, which must be one of constant, "));
  EXPECT_THAT(
      ErrorOf(Edited("O2", "O4")),
      HasSubstr("`precision.amp_level` is `O4`, which must be one of O0, O1, O2, O3, O2-fp8"));
  EXPECT_THAT(ErrorOf(Edited("shard: 1", "shard: 4")), HasSubstr("an integer in [0, 3]"));
  EXPECT_THAT(
      ErrorOf(Edited("optimizer: file", "optimizer: disk")),
      HasSubstr("`parallel.offload.optimizer` is `disk`, which must be one of none, host, "));
  EXPECT_THAT(ErrorOf(Edited("path: /scratch", "folder: /scratch")),
              HasSubstr("parallel.offload.folder"));
  EXPECT_THAT(ErrorOf(Edited("4GiB", "4Gig")),
              HasSubstr("x.yaml:16: `cluster.0.memory` is `4Gig`, which must be a memory size"));
  EXPECT_THAT(ErrorOf(Edited("{speed: 2.5, types: [f32, i32]}", "fast")),
              HasSubstr("x.yaml:16: `cluster.1.opencl` is `fast`, which must be a map of the "));
  EXPECT_THAT(ErrorOf(Edited("pipeline_depth: 2", "pipeline_depth: two")), HasSubstr("or auto"));
  EXPECT_THAT(ErrorOf(Edited("dropout: 0.1", "dropout: 1.0")), HasSubstr("a number in [0, 1)"));
  EXPECT_THAT(ErrorOf(Edited("data: {format: text", "data: {format: csv")),
              HasSubstr("one of text, tokens, idx"));
  EXPECT_THAT(ErrorOf(Edited("log: {every: 10, tensorboard: false}", "log: 10")),
              HasSubstr("`log` is `10`, which must be a map of keys"));
  EXPECT_THAT(Error(Small({"model={name: resnet, depth: 20}"})),
              HasSubstr("`model.depth` is `20`, which must be one of 18, 34, 50, 101, 152"));
  EXPECT_THAT(Error(Small({"model={name: resnet, stem: big}"})),
              HasSubstr("one of small, imagenet"));
  EXPECT_THAT(Error(Small({"model={name: bert}"})),
              HasSubstr("which must be one of mlp, lenet, resnet, gpt2, llama"));
  EXPECT_THAT(Error(Small({"model={preset: gpt2-1t}"})), HasSubstr("gpt2-124m, gpt2-350m, "));
  EXPECT_THAT(Error(Small({"model.hidden=512"})), HasSubstr("a list"));
}

TEST(Config, AllErrorsAreReportedTogether) {
  const std::string errors = Error(Small({"optimizer.lr=-1", "log.evry=2", "train.seed=x"}));
  EXPECT_THAT(errors,
              AllOf(HasSubstr("optimizer.lr"), HasSubstr("log.evry"), HasSubstr("train.seed")));
}

TEST(Config, BrokenYamlAndDuplicates) {
  EXPECT_THAT(ErrorOf("model: {name: mlp\ntrain: ["), HasSubstr("not YAML"));
  EXPECT_THAT(ErrorOf("model: {name: mlp}\nmodel: {name: lenet}\n"),
              HasSubstr("x.yaml:2: key `model` stands twice (first at x.yaml:1)"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf("- a\n- b\n"), HasSubstr("must be a map"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("2 YAML documents"));
}

TEST(Config, ExclusiveAndMissingKeys) {
  EXPECT_THAT(ErrorOf(Edited("steps: 200", "steps: 200, epochs: 2")),
              HasSubstr("`train.epochs` excludes `train.steps` (x.yaml:4)"));
  EXPECT_THAT(ErrorOf(Edited("steps: 200, ", "")), HasSubstr("give train.steps or train.epochs"));
  EXPECT_THAT(ErrorOf(Edited("name: gpt2", "name: gpt2, preset: gpt2-124m")),
              HasSubstr("`model.preset` excludes the others"));
  EXPECT_THAT(ErrorOf(Edited("name: gpt2, ", "")), HasSubstr("`model.name` is missing"));
  EXPECT_THAT(ErrorOf(Edited("format: text, ", "")), HasSubstr("`data.format` is missing"));
  EXPECT_THAT(ErrorOf(Edited("train: [train.txt], ", "")), HasSubstr("`data.train` is missing"));
  EXPECT_THAT(Error(Small({"data.train={images: a}"})), HasSubstr("both images and labels"));
  EXPECT_THAT(ErrorOf(Edited("name: gpt2, layers: 4", "graph: m.oc, layers: 4")),
              HasSubstr("unknown key `model.layers`"));
  EXPECT_THAT(Error(Small({"optimizer={name: sgd, nesterov: true}"})), HasSubstr("needs"));
}

TEST(Config, OptimizersHaveTheirOwnKeysAndDefaults) {
  const auto lion = Small({"optimizer={name: lion, betas: [0.95, 0.98]}"});
  ASSERT_TRUE(lion.ok()) << lion.status();
  EXPECT_EQ(lion->optimizer.lr, 1e-4);
  EXPECT_THAT(lion->optimizer.betas, ElementsAre(0.95, 0.98));
  const auto muon = Small({"optimizer={name: muon, adamw: {lr: 1e-3}, ns_steps: 6}"});
  ASSERT_TRUE(muon.ok()) << muon.status();
  EXPECT_EQ(muon->optimizer.momentum, 0.95);
  EXPECT_TRUE(muon->optimizer.nesterov);
  EXPECT_EQ(muon->optimizer.ns_steps, 6);
  EXPECT_EQ(muon->optimizer.adamw.lr, 1e-3);
  EXPECT_THAT(Error(Small({"optimizer={name: sgd, betas: [0.9, 0.99]}"})),
              AllOf(HasSubstr("`optimizer.betas` is a key of adam, adamw, lamb, lion"),
                    HasSubstr("here the name is sgd, which takes momentum, nesterov")));
  EXPECT_THAT(Error(Small({"optimizer={name: adafactor, beta2_decai: -0.8}"})),
              HasSubstr("unknown key `optimizer.beta2_decai`; did you mean `beta2_decay`?"));
  EXPECT_THAT(Error(Small({"optimizer={name: muon, adamw: {lrr: 1}}"})),
              HasSubstr("unknown key `optimizer.adamw.lrr`"));
  EXPECT_THAT(Error(Small({"optimizer.clip_value=0"})), HasSubstr("a number above 0"));
  EXPECT_THAT(Error(Small({"optimizer.ema={decay: 1}"})), HasSubstr("a number in (0, 1)"));
}

TEST(Config, SchedulesHaveTheirOwnKeys) {
  const auto wsd = Small({"optimizer.schedule={name: wsd, decay_steps: 50, decay_shape: sqrt}"});
  ASSERT_TRUE(wsd.ok()) << wsd.status();
  EXPECT_EQ(wsd->optimizer.schedule.decay_steps, 50);
  EXPECT_THAT(Error(Small({"optimizer.schedule={name: wsd, gamma: 0.5}"})),
              HasSubstr("`optimizer.schedule.gamma` is a key of step; here the name is wsd"));
  EXPECT_THAT(Error(Small({"optimizer.schedule={name: step}"})), HasSubstr("none was given"));
}

TEST(Config, GroupsAreAListOfMaps) {
  const auto c =
      Small({"optimizer.groups=[{name: norms, match: ['*.norm.*', bias], lr_scale: 0.5, "
             "weight_decay: 0, decay_all: true}]",
             "optimizer.ema={decay: 0.99}"});
  ASSERT_TRUE(c.ok()) << c.status();
  const ParameterGroup& group = c->optimizer.groups.at(0);
  EXPECT_THAT(group.match, ElementsAre("*.norm.*", "bias"));
  EXPECT_EQ(group.lr_scale, 0.5);
  EXPECT_EQ(group.weight_decay, 0);
  EXPECT_TRUE(group.decay_all);
  EXPECT_EQ(c->optimizer.ema->decay, 0.99);
  EXPECT_THAT(Error(Small({"optimizer.groups=[{match: a, lr: 1}]"})),
              HasSubstr("unknown key `optimizer.groups.0.lr`"));
  EXPECT_THAT(Error(Small({"optimizer.groups=[{lr_scale: 1}]"})), HasSubstr("is missing"));
  EXPECT_THAT(Error(Small({"optimizer.groups=5"})), HasSubstr("a list of maps"));
  EXPECT_THAT(Error(Small({"optimizer.groups=[{match: a, use_muon: true}]"})),
              HasSubstr("use_muon is of muon"));
}

TEST(Config, BatchesMustMultiply) {
  EXPECT_THAT(ErrorOf(Edited("global_batch: 64", "global_batch: 60")),
              HasSubstr("x.yaml:4: `train.global_batch` is 60, but train.micro_batch 8 x "
                        "comm_options.gradient_accumulation 4 x parallel.data_parallel 2 = 64"));
  // Unknown factors must still be able to make it up.
  EXPECT_THAT(Error(Small({"train.micro_batch=32", "train.global_batch=80"})),
              AllOf(HasSubstr("80"), HasSubstr("micro-batches of 32")));
  EXPECT_THAT(Error(Small({"train.micro_batch=32", "train.global_batch=96",
                           "comm_options.gradient_accumulation=2"})),
              AllOf(HasSubstr("96"), HasSubstr("auto"), HasSubstr("multiple")));
  // Replicas may take unequal shares, but none may go without.
  EXPECT_TRUE(
      Small({"train.micro_batch=32", "train.global_batch=96", "parallel.data_parallel=2"}).ok());
  EXPECT_THAT(
      Error(Small({"train.micro_batch=32", "train.global_batch=96", "parallel.data_parallel=4"})),
      HasSubstr("at least one for each of 4 replicas"));
  EXPECT_TRUE(Small({"train.micro_batch=32", "train.global_batch=96"}).ok());
  const auto automatic = Small({"train.micro_batch=auto", "train.global_batch=96"});
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  EXPECT_EQ(automatic->train.micro_batch, 32);
  const auto rest = Small(
      {"train.micro_batch=auto", "train.global_batch=96", "comm_options.gradient_accumulation=2"});
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->train.micro_batch, 48);
}

TEST(Config, CanonicalTextReadsBackEqual) {
  const std::vector<StatusOr<ExperimentConfig>> configs = {
      ParseConfig(kFull, "full.yaml"),
      Small({}),
      Small({"name=\"auto\"", "data.train.images=\"with \\\"quotes\\\" and \\n line.gz\"",
             "data.train.labels=\"123\"", "data.validation={images: ü, labels: 'a: b # c'}",
             "optimizer.lr=0.1234567890123456789", "train.seed=18446744073709551615"}),
      Small({"model={preset: llama-7b, context: 64}", "cluster=\"auto\"", "optimizer.clip_norm=2"}),
      Small({"model={graph: m.oc}", "cluster=[{device: cpu}]"}),
      Small({"optimizer={name: muon, adamw: {lr: 0.01}, clip_value: 0.5, ema: {decay: 0.9}, "
             "schedule: {name: step, milestones: [3, 5]}, "
             "groups: [{match: ['a.*', b], weight_decay: 0, use_muon: false}]}"}),
      Small({"optimizer={name: adafactor, schedule: {name: wsd, decay_ratio: 0.2}}"}),
      Small({"cluster=[{device: sim, sim: {speed: 2, latency_us: 1e3, name: 'a, b'}}]",
             "cluster.0.sim.speed=0.5"}),
  };
  for (const StatusOr<ExperimentConfig>& config : configs) {
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string text = FormatConfig(*config);
    const StatusOr<ExperimentConfig> again = ParseConfig(text, "canonical");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(FormatConfig(*again), text);
    EXPECT_EQ(ConfigDiff(*config, *again), "");
    EXPECT_EQ(ConfigHash(*config), ConfigHash(*again));
  }
  EXPECT_EQ(ParseConfig(FormatConfig(*configs[2]), "c")->data.train_images,
            "with \"quotes\" and \n line.gz");
  EXPECT_EQ(ParseConfig(FormatConfig(*configs[2]), "c")->train.seed, ~uint64_t{0});
}

TEST(Config, DiffNamesWhatDiffers) {
  const auto a = Small({"optimizer.lr=0.1"});
  const auto b = Small({"optimizer.lr=0.2", "train.seed=2", "model.dropout=0.5"});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(ConfigDiff(*a, *b),
            "train.seed 1 vs 2, optimizer.lr 0.1 vs 0.2, "
            "model.dropout (unset) vs 0.5");
  EXPECT_NE(ConfigHash(*a), ConfigHash(*b));
}

TEST(Config, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_TRUE(CheckBuilt(*Small({})).ok());
  EXPECT_TRUE(
      CheckBuilt(*Small({"parallel.schedule=1f1b", "parallel.recompute=full",
                         "comm_options.allreduce_algorithm=ring", "train.deterministic=true"}))
          .ok());
  for (const char* level : {"O0", "O1", "O2", "O3"}) {
    EXPECT_TRUE(CheckBuilt(*Small({absl::StrCat("precision.amp_level=", level)})).ok()) << level;
  }
  const std::vector<std::string> unbuilt = {"precision.amp_level=O2-fp8", "parallel.schedule=zb-h1",
                                            "comm_options.allreduce_algorithm=tree",
                                            "optimizer.schedule.name=inverse_sqrt"};
  for (const std::string& assignment : unbuilt) {
    const auto config = Small({assignment});
    ASSERT_TRUE(config.ok()) << config.status();
    const Status status = CheckBuilt(*config);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << assignment;
    const std::string message(status.message());
    const std::string key = assignment.substr(0, assignment.find('='));
    EXPECT_THAT(message, AllOf(HasSubstr(key), HasSubstr(assignment.substr(key.size() + 1)),
                               HasSubstr("there is")));
  }
}

TEST(Config, RecomputationIsAWordOrModulesAndItsBudgetAShareOrASize) {
  EXPECT_EQ(Small({})->parallel.recompute, "auto");
  EXPECT_FALSE(Small({})->parallel.activation_budget.any());
  const auto modules = Small({"parallel.recompute=[layers.0, 'layers.*.fc']"});
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_THAT(modules->parallel.recompute_modules, ElementsAre("layers.0", "layers.*.fc"));
  const auto size = Small({"parallel.activation_budget=512MiB"});
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->parallel.activation_budget.bytes, int64_t{512} << 20);
  const auto share = Small({"parallel.activation_budget=12.5%"});
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ(share->parallel.activation_budget.percent, 12.5);
  for (const auto* config : {&modules, &size, &share}) {  // as they are written, they read
    const auto again = ParseConfig(FormatConfig(**config), "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(FormatConfig(*again), FormatConfig(**config));
  }
  for (const char* bad : {"parallel.recompute=some", "parallel.recompute=[]",
                          "parallel.activation_budget=0%", "parallel.activation_budget=101%",
                          "parallel.activation_budget=lots", "parallel.activation_budget=-3"}) {
    const auto config = Small({bad});
    EXPECT_FALSE(config.ok()) << bad;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("must be")) << bad;
  }
}

TEST(Config, ShardAndLevelMayBeOpen) {
  const auto open = Small(
      {"parallel.shard=auto", "precision.amp_level=auto", "parallel.offload.activations=auto"});
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_FALSE(open->parallel.shard.has_value());
  EXPECT_FALSE(open->precision.amp_level.has_value());
  EXPECT_THAT(open->parallel.offload.activations, ElementsAre("auto"));
  EXPECT_TRUE(CheckBuilt(*open).ok());
  const auto again = ParseConfig(FormatConfig(*open), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ConfigDiff(*open, *again), "");
  const auto given = Small({});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->parallel.shard, 0);
  EXPECT_EQ(given->precision.amp_level, AmpLevel::kO0);
  EXPECT_THAT(Error(Small({"parallel.shard=4"})), HasSubstr("parallel.shard"));
}

TEST(Config, LossScaleIsAWordOrANumber) {
  using Mode = LossScaleConfig::Mode;
  EXPECT_EQ(Small({})->precision.loss_scale.mode, Mode::kAuto);
  EXPECT_EQ(Small({"precision.loss_scale=auto"})->precision.loss_scale.mode, Mode::kAuto);
  const auto dynamic = Small({"precision.loss_scale=dynamic", "precision.growth_interval=100"});
  ASSERT_TRUE(dynamic.ok()) << dynamic.status();
  EXPECT_EQ(dynamic->precision.loss_scale.mode, Mode::kDynamic);
  EXPECT_EQ(dynamic->precision.loss_scale.growth_interval, 100);
  const auto fixed = Small({"precision.loss_scale=1024"});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(fixed->precision.loss_scale.mode, Mode::kFixed);
  EXPECT_EQ(fixed->precision.loss_scale.value, 1024);
  // What is printed reads back.
  for (const auto* config : {&dynamic, &fixed}) {
    const auto again = ParseConfig(FormatConfig(**config), "printed");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->precision.loss_scale.mode, (*config)->precision.loss_scale.mode);
    EXPECT_EQ(again->precision.loss_scale.value, (*config)->precision.loss_scale.value);
  }
  for (const char* bad : {"0", "-1", "inf", "often"}) {
    const auto config = Small({absl::StrCat("precision.loss_scale=", bad)});
    ASSERT_FALSE(config.ok()) << bad;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("precision.loss_scale"));
  }
}

class ConfigFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / absl::StrCat("oc_config_", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(ConfigFile, PathsBesideTheFileAndItsName) {
  const std::string path = Write("tiny_mlp.yaml", kSmall);
  const std::string images = Write("a", "");
  const StatusOr<ExperimentConfig> config = LoadConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name, "tiny_mlp");
  EXPECT_EQ(config->data.train_images, images);
  EXPECT_EQ(config->data.train_labels, "b");  // is nowhere: the data reader says so
}

TEST_F(ConfigFile, AMissingFileIsNamed) {
  const auto config = LoadConfig((folder_ / "none.yaml").string());
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("none.yaml"));
  EXPECT_FALSE(LoadConfig(folder_.string()).ok());
}

}  // namespace
}  // namespace oc
