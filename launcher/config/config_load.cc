#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <filesystem>

#include "openclaw/launcher/config/config.h"
#include "openclaw/launcher/config/device_options.h"
#include "openclaw/launcher/config/model_keys.h"
#include "openclaw/launcher/config/optimizer_section.h"
#include "openclaw/launcher/config/section.h"
#include "openclaw/launcher/config/yaml_value.h"

namespace oc {
namespace {

using config::Errors;
using config::kMaxDouble;
using config::kMaxInt;
using config::ModelKey;
using config::ModelKeys;
using config::ReadDeviceOptions;
using config::ReadOptimizer;
using config::Section;
using config::YamlEntry;
using config::YamlValue;

// Above this a batch or a count is a slip, and products of three of them still fit 64 bits.
constexpr int64_t kMaxCount = 1 << 20;

// Keys of which only one may be given.
const std::vector<std::vector<std::string>>& ExclusiveKeys() {
  static const std::vector<std::vector<std::string>> kKeys = {
      {"train.steps", "train.epochs"},
      {"model.name", "model.preset", "model.graph"},
  };
  return kKeys;
}

// Removes the key at `path` from the document, where it is.
void Remove(const std::string& path, YamlValue* value) {
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  for (size_t i = 0; i < value->entries.size(); ++i) {
    if (value->entries[i].key != key) continue;
    if (dot != std::string::npos) return Remove(path.substr(dot + 1), &value->entries[i].value);
    value->entries.erase(value->entries.begin() + i);
    return;
  }
}

Status ApplyOverrides(const std::vector<std::string>& overrides, YamlValue* root) {
  std::vector<std::string> set;
  for (const std::string& assignment : overrides) {
    OC_ASSIGN_OR_RETURN(std::string path, config::ApplyOverride(assignment, root));
    set.push_back(std::move(path));
  }
  const auto given = [&](const std::string& key) {
    return std::find(set.begin(), set.end(), key) != set.end();
  };
  for (const auto& keys : ExclusiveKeys()) {
    if (std::none_of(keys.begin(), keys.end(), given)) continue;
    for (const std::string& key : keys) {
      if (!given(key)) Remove(key, root);
    }
  }
  return OkStatus();
}

void ReadModelKey(const ModelKey& key, Section* section, ModelConfig* model) {
  const int64_t lo = static_cast<int64_t>(key.lo), hi = static_cast<int64_t>(key.hi);
  switch (key.type) {
    case ModelKey::Type::kInt: {
      const YamlValue* value = section->Raw(key.name);
      if (value == nullptr) return;
      int64_t number = -1;
      section->Int(key.name, lo, hi, &number);
      if (number < 0) return;  // reported
      if (!key.ints.empty() && std::count(key.ints.begin(), key.ints.end(), number) == 0) {
        const std::string list = absl::StrJoin(key.ints, ", ");
        return section->FailValue(key.name, *value, "one of " + list);
      }
      model->ints[key.name] = number;
      return;
    }
    case ModelKey::Type::kDouble: {
      if (section->Raw(key.name) == nullptr) return;
      double number = -1;
      section->OpenDouble(key.name, key.lo, false, key.hi, true, &number);
      if (number >= 0) model->doubles[key.name] = number;
      return;
    }
    case ModelKey::Type::kWord: {
      std::string word;
      section->Enum(key.name, key.words, &word);
      if (!word.empty()) model->strings[key.name] = word;
      return;
    }
    case ModelKey::Type::kInts: {
      if (section->Raw(key.name) == nullptr) return;
      section->Ints(key.name, lo, hi, &model->lists[key.name]);
      return;
    }
  }
}

void ReadModel(const YamlValue* value, Errors* errors, ModelConfig* model) {
  Section section(value, "model", errors);
  std::vector<std::string> names, presets;
  for (const ModelKeys& known : config::KnownModels()) {
    names.push_back(known.name);
    presets.insert(presets.end(), known.presets.begin(), known.presets.end());
  }
  const YamlValue* name = section.Raw("name");
  const YamlValue* preset = section.Raw("preset");
  const YamlValue* graph = section.Raw("graph");
  section.String("weights", &model->weights);
  const int given = (name != nullptr) + (preset != nullptr) + (graph != nullptr);
  if (given == 0) {
    return section.Fail("name", absl::StrCat("is missing: give one of name (",
                                             absl::StrJoin(names, ", "), "), preset and graph"));
  }
  if (given > 1) {
    return section.Fail(graph != nullptr ? "graph" : "preset",
                        "excludes the others: give one of model.name, model.preset, model.graph");
  }
  const ModelKeys* keys = nullptr;
  if (graph != nullptr) {
    section.String("graph", &model->graph);
    return section.Finish();
  }
  if (name != nullptr) {
    section.Enum("name", names, &model->name);
    keys = config::FindModel(model->name);
  } else {
    section.Enum("preset", presets, &model->preset);
    keys = config::FindModelOfPreset(model->preset);
  }
  if (keys == nullptr) return;  // reported; which keys it takes is not known
  for (const ModelKey& key : keys->keys) ReadModelKey(key, &section, model);
  section.Finish();
}

void ReadImagePair(const std::string& key, const YamlValue* value, Section* data, Errors* errors,
                   std::string* images, std::string* labels) {
  if (value == nullptr) return;
  Section pair(value, data->Path(key), errors);
  pair.String("images", images);
  pair.String("labels", labels);
  pair.Finish();
  if (value->kind == YamlValue::Kind::kMap && images->empty() != labels->empty()) {
    data->Fail(key, "must name both images and labels");
  }
}

void ReadData(const YamlValue* value, Errors* errors, DataConfig* data) {
  Section section(value, "data", errors);
  section.Enum("format", {"text", "tokens", "idx"}, &data->format);
  section.Int("workers", 1, 256, &data->workers);
  if (section.Raw("format") == nullptr) {
    section.Fail("format", "is missing: one of text, tokens, idx");
  }
  if (section.Raw("train") == nullptr) section.Fail("train", "is missing: the training files");
  if (data->format == "idx") {
    ReadImagePair("train", section.Raw("train"), &section, errors, &data->train_images,
                  &data->train_labels);
    ReadImagePair("validation", section.Raw("validation"), &section, errors,
                  &data->validation_images, &data->validation_labels);
  } else if (!data->format.empty()) {
    section.Strings("train", &data->train);
    section.Strings("validation", &data->validation);
  } else {
    section.Raw("validation");
  }
  section.Finish();
}

// auto, dynamic, or the number that it is fixed at.
void ReadLossScale(Section& section, LossScaleConfig* scale) {
  using Mode = LossScaleConfig::Mode;
  const YamlValue* value = section.Raw("loss_scale");
  const bool word = value != nullptr && value->kind == YamlValue::Kind::kScalar;
  if (value == nullptr || Section::IsAuto(*value)) {
    scale->mode = Mode::kAuto;
  } else if (word && value->scalar == "dynamic") {
    scale->mode = Mode::kDynamic;
  } else {
    scale->mode = Mode::kFixed;
    section.Double("loss_scale", 0x1p-100, 0x1p100, &scale->value);
  }
  section.Int("growth_interval", 1, kMaxInt, &scale->growth_interval);
}

void ReadPrecision(const YamlValue* value, Errors* errors, PrecisionConfig* precision) {
  Section section(value, "precision", errors);
  std::string level = Name(*precision->amp_level), dtype = Name(precision->dtype);
  std::vector<std::string> levels;
  const AmpLevel all[] = {AmpLevel::kO0, AmpLevel::kO1, AmpLevel::kO2, AmpLevel::kO3,
                          AmpLevel::kO2Fp8};
  for (AmpLevel l : all) levels.push_back(Name(l));
  levels.push_back("auto");
  section.Enum("amp_level", levels, &level);
  if (level == "auto") precision->amp_level.reset();
  for (AmpLevel l : all) {
    if (level == Name(l)) precision->amp_level = l;
  }
  section.Enum("dtype", {"bf16", "f16"}, &dtype);
  precision->dtype = dtype == "f16" ? DType::kF16 : DType::kBF16;
  ReadLossScale(section, &precision->loss_scale);
  section.Finish();
}

// A word, or a list of modules.
void ReadRecompute(Section& section, ParallelConfig* parallel) {
  const YamlValue* value = section.Raw("recompute");
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kList) {
    section.Enum("recompute", {"auto", "none", "marked", "full"}, &parallel->recompute);
  } else if (value->items.empty()) {
    section.FailValue("recompute", *value, "auto, none, marked, full, or a list of modules");
  } else {
    section.Strings("recompute", &parallel->recompute_modules);
  }
}

// none, a share such as 40%, or a memory size.
void ReadActivationBudget(Section& section, ActivationBudget* budget) {
  const YamlValue* value = section.Raw("activation_budget");
  if (value == nullptr || (value->kind == YamlValue::Kind::kScalar && value->scalar == "none")) {
    return;
  }
  double percent = 0;
  const bool share = value->kind == YamlValue::Kind::kScalar && value->scalar.ends_with("%");
  if (share && absl::SimpleAtod(value->scalar.substr(0, value->scalar.size() - 1), &percent) &&
      percent > 0 && percent <= 100) {
    budget->percent = percent;
    return;
  }
  const auto bytes = value->kind == YamlValue::Kind::kScalar && !share
                         ? config::ParseBytes(value->scalar)
                         : StatusOr<int64_t>(InvalidArgument("no size"));
  if (!bytes.ok()) {
    return section.FailValue("activation_budget", *value,
                             "a share of the activations, such as 40%, a memory size, such as "
                             "512MiB, or none");
  }
  budget->bytes = *bytes;
}

void ReadOffload(const YamlValue* value, Errors* errors, OffloadConfig* offload) {
  Section section(value, "parallel.offload", errors);
  section.Enum("optimizer", {"none", "host", "file", "auto"}, &offload->optimizer);
  section.String("path", &offload->path);
  section.Enum("update", {"auto", "device", "host"}, &offload->update);
  if (const YamlValue* list = section.Raw("activations"); list && list->ToString() != "none") {
    section.Strings("activations", &offload->activations);
  }
  section.Finish();
}

void ReadParallel(const YamlValue* value, Errors* errors, ParallelConfig* parallel) {
  Section section(value, "parallel", errors);
  section.AutoInt("data_parallel", 1, kMaxCount, &parallel->data_parallel);
  section.Enum("schedule", {"auto", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"},
               &parallel->schedule);
  ReadRecompute(section, parallel);
  ReadActivationBudget(section, &parallel->activation_budget);
  std::optional<int64_t> shard = parallel->shard;
  section.AutoInt("shard", 0, 3, &shard);
  parallel->shard = shard;
  section.Enum("shard_by", {"equal", "memory", "speed"}, &parallel->shard_by);
  section.Enum("balance", {"measured", "even"}, &parallel->balance);
  ReadOffload(section.Raw("offload"), errors, &parallel->offload);
  if (const YamlValue* stages = section.Raw("stages"); stages && !Section::IsAuto(*stages)) {
    if (stages->kind == YamlValue::Kind::kList) {
      section.Strings("stages", &parallel->stages);
    } else {
      section.FailValue("stages", *stages, "auto or a list of modules to cut after");
    }
  }
  section.Finish();
}

void ReadCluster(const YamlValue* value, Errors* errors, ClusterConfig* cluster) {
  if (value == nullptr || value->kind == YamlValue::Kind::kNull || Section::IsAuto(*value)) return;
  if (value->kind == YamlValue::Kind::kScalar && !value->scalar.empty()) {
    cluster->file = value->scalar;
    return;
  }
  if (value->kind != YamlValue::Kind::kList || value->items.empty()) {
    errors->Add(value->where, absl::StrCat("`cluster` is `", value->ToString(),
                                           "`, which must be auto, a file, or a list of VCUs such "
                                           "as [{device: cpu, cores: 1, memory: 4GiB}]"));
    return;
  }
  for (size_t i = 0; i < value->items.size(); ++i) {
    Section section(&value->items[i], absl::StrCat("cluster.", i), errors);
    ClusterEntry entry;
    section.String("device", &entry.device);
    section.Int("cores", 1, kMaxCount, &entry.cores);
    section.Bytes("memory", &entry.memory_bytes);
    if (section.Raw("device") == nullptr) {
      section.Fail("device", "is missing, such as cpu");
    } else if (const YamlValue* own = section.Raw(entry.device)) {
      ReadDeviceOptions(*own, entry.device, &section, &entry.options);
    }
    section.Finish();
    cluster->entries.push_back(std::move(entry));
  }
}

// micro_batch x gradient_accumulation x data_parallel = global_batch, where all are known. Without
// gradient_accumulation any number of micro-batches will do that gives each replica one, for shares
// may be unequal; without data_parallel what is known must divide it. Chooses an automatic
// micro-batch.
void CheckBatch(bool auto_micro_batch, Section* train, ExperimentConfig* c) {
  const int64_t accumulation = c->comm_options.gradient_accumulation.value_or(1);
  const int64_t replicas = c->parallel.data_parallel.value_or(1);
  const auto text = [](const std::optional<int64_t>& v) {
    return v ? absl::StrCat(*v) : std::string("auto");
  };
  if (!c->train.global_batch) return;
  const int64_t global = *c->train.global_batch;
  if (auto_micro_batch && global % (accumulation * replicas) == 0) {
    const int64_t share = global / (accumulation * replicas);
    c->train.micro_batch = share;
    if (!c->comm_options.gradient_accumulation) {
      c->train.micro_batch = TrainConfig().micro_batch;
      while (share % c->train.micro_batch != 0) --c->train.micro_batch;
    }
  }
  const int64_t known = c->train.micro_batch * accumulation * replicas;
  const bool all = c->comm_options.gradient_accumulation && c->parallel.data_parallel;
  if (!c->comm_options.gradient_accumulation) {
    if (global % c->train.micro_batch == 0 && global >= known) return;
    train->Fail(
        "global_batch",
        absl::StrCat("is ", global, ", which does not divide into micro-batches of ",
                     c->train.micro_batch, " (train.micro_batch), at least one for each of ",
                     replicas, replicas == 1 ? " replica" : " replicas",
                     " (parallel.data_parallel); change one of them"));
    return;
  }
  if (all ? known == global : global % known == 0) return;
  train->Fail(
      "global_batch",
      absl::StrCat("is ", global, ", but train.micro_batch ", c->train.micro_batch,
                   " x comm_options.gradient_accumulation ",
                   text(c->comm_options.gradient_accumulation), " x parallel.data_parallel ",
                   text(c->parallel.data_parallel), all ? " = " : ": it is no multiple of ", known,
                   "; change one of them, or set one to auto"));
}

void ReadTrain(const YamlValue* value, Errors* errors, ExperimentConfig* c) {
  TrainConfig& train = c->train;
  Section section(value, "train", errors);
  const YamlValue* steps = section.Raw("steps");
  const YamlValue* epochs = section.Raw("epochs");
  if (steps != nullptr && epochs != nullptr) {
    section.Fail("epochs", absl::StrCat("excludes `train.steps` (", section.Where("steps"),
                                        "): give one of them"));
  } else if (steps == nullptr && epochs == nullptr) {
    section.Fail("steps", "is missing: give train.steps or train.epochs");
  }
  if (steps != nullptr) {
    int64_t number = 0;
    section.Int("steps", 1, kMaxInt, &number);
    if (number > 0) train.steps = number;
  }
  if (epochs != nullptr) {
    double number = 0;
    section.OpenDouble("epochs", 0, true, kMaxDouble, false, &number);
    if (number > 0) train.epochs = number;
  }
  std::optional<int64_t> micro_batch = train.micro_batch;
  section.AutoInt("micro_batch", 1, kMaxCount, &micro_batch);
  train.micro_batch = micro_batch.value_or(train.micro_batch);
  section.AutoInt("global_batch", 1, int64_t{1} << 40, &train.global_batch);
  section.Unsigned("seed", &train.seed);
  section.Int("evaluate_every", 0, kMaxInt, &train.evaluate_every);
  section.Bool("deterministic", &train.deterministic);
  section.Bool("capture", &train.capture);
  section.Finish();
  if (errors->empty()) CheckBatch(!micro_batch.has_value(), &section, c);
}

void ReadCommOptions(const YamlValue* value, Errors* errors, CommConfig* comm) {
  Section section(value, "comm_options", errors);
  section.AutoInt("gradient_accumulation", 1, kMaxCount, &comm->gradient_accumulation);
  section.AutoInt("pipeline_depth", 1, kMaxCount, &comm->pipeline_depth);
  section.OpenDouble("timeout_seconds", 0, true, 1e6, false, &comm->timeout_seconds);
  std::string algorithm = Name(comm->allreduce_algorithm);
  std::vector<std::string> algorithms;
  const AllReduce all[] = {AllReduce::kAuto, AllReduce::kRing, AllReduce::kTree,
                           AllReduce::kHybrid};
  for (AllReduce a : all) algorithms.push_back(Name(a));
  section.Enum("allreduce_algorithm", algorithms, &algorithm);
  for (AllReduce a : all) {
    if (algorithm == Name(a)) comm->allreduce_algorithm = a;
  }
  section.Finish();
}

StatusOr<ExperimentConfig> FromYaml(const YamlValue& root) {
  ExperimentConfig c;
  Errors errors;
  if (root.kind == YamlValue::Kind::kNull) {
    return InvalidArgument(root.where, ": the experiment file is empty");
  }
  Section top(&root, "", &errors);
  top.String("name", &c.name);
  ReadModel(top.Raw("model"), &errors, &c.model);
  ReadData(top.Raw("data"), &errors, &c.data);
  ReadOptimizer(top.Raw("optimizer"), &errors, &c.optimizer);
  ReadPrecision(top.Raw("precision"), &errors, &c.precision);
  ReadCommOptions(top.Raw("comm_options"), &errors, &c.comm_options);
  ReadParallel(top.Raw("parallel"), &errors, &c.parallel);
  ReadCluster(top.Raw("cluster"), &errors, &c.cluster);
  top.Strings("plugins", &c.cluster.plugins);

  Section checkpoint(top.Raw("checkpoint"), "checkpoint", &errors);
  checkpoint.Int("every", 0, kMaxInt, &c.checkpoint.every);
  checkpoint.Int("keep", 1, 1000000, &c.checkpoint.keep);
  checkpoint.String("resume", &c.checkpoint.resume);
  checkpoint.Finish();

  Section log(top.Raw("log"), "log", &errors);
  log.Int("every", 1, kMaxInt, &c.log.every);
  log.Bool("tensorboard", &c.log.tensorboard);
  log.Finish();

  // Last: it compares the batch with what the other sections hold.
  ReadTrain(top.Raw("train"), &errors, &c);
  top.Finish();
  OC_RETURN_IF_ERROR(errors.ToStatus());
  return c;
}

// Takes a relative path from beside the experiment file where only there it exists.
void ResolvePath(const std::filesystem::path& folder, std::string* path) {
  std::error_code ignored;
  if (path->empty() || std::filesystem::path(*path).is_absolute() ||
      std::filesystem::exists(*path, ignored)) {
    return;
  }
  const std::filesystem::path beside = folder / *path;
  if (std::filesystem::exists(beside, ignored)) *path = beside.string();
}

}  // namespace

StatusOr<ExperimentConfig> ParseConfig(const std::string& text, const std::string& source,
                                       const std::vector<std::string>& overrides) {
  OC_ASSIGN_OR_RETURN(YamlValue root, config::ParseYaml(text, source));
  OC_RETURN_IF_ERROR(ApplyOverrides(overrides, &root));
  return FromYaml(root);
}

StatusOr<ExperimentConfig> LoadConfig(const std::string& path,
                                      const std::vector<std::string>& overrides) {
  OC_ASSIGN_OR_RETURN(std::string text, config::ReadTextFile(path));
  OC_ASSIGN_OR_RETURN(ExperimentConfig c, ParseConfig(text, path, overrides));
  const std::filesystem::path file(path);
  if (c.name.empty()) c.name = file.stem().string();
  const std::filesystem::path folder = file.parent_path();
  for (std::vector<std::string>* list : {&c.data.train, &c.data.validation, &c.cluster.plugins}) {
    for (std::string& item : *list) ResolvePath(folder, &item);
  }
  for (std::string* item :
       {&c.data.train_images, &c.data.train_labels, &c.data.validation_images,
        &c.data.validation_labels, &c.model.graph, &c.model.weights, &c.cluster.file}) {
    ResolvePath(folder, item);
  }
  return c;
}

}  // namespace oc
