// The canonical text, and what is made of it: hash and difference.
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <charconv>
#include <map>

#include "openclaw/core/rng.h"
#include "openclaw/launcher/config/config.h"
#include "openclaw/optim/learning_rate.h"
#include "openclaw/optim/optimizer.h"

namespace oc {
namespace {

// Every key with its value as YAML, in canonical order; keys of one section stand together.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

std::string Text(int64_t value) { return absl::StrCat(value); }

// The shortest text that reads back as the same number.
std::string Text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

std::string Text(bool value) { return value ? "true" : "false"; }

// In quotes, unless it is plainly a word or a path.
std::string Text(const std::string& value) {
  bool plain = !value.empty() && value.find_first_not_of("/.~_-0123456789") != std::string::npos;
  for (char c : value)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' ||
                      c == '_' || c == '-');
  for (const char* word : {"auto", "null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    plain = plain && value != word;
  }
  if (plain && (std::isalpha(static_cast<unsigned char>(value[0])) || value[0] == '/'))
    return value;
  std::string quoted = "\"";
  for (char c : value) {
    static constexpr char kHex[] = "0123456789abcdef";
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (u < 0x20 || u == 0x7f) {
      quoted += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

template <typename T>
std::string Text(const std::vector<T>& list) {
  std::vector<std::string> parts;
  for (const T& item : list) parts.push_back(Text(item));
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string Text(const LossScaleConfig& scale) {
  using Mode = LossScaleConfig::Mode;
  if (scale.mode == Mode::kFixed) return Text(scale.value);
  return scale.mode == Mode::kDynamic ? "dynamic" : "auto";
}

template <typename T>
std::string AutoText(const std::optional<T>& value) {
  return value ? Text(*value) : "auto";
}

void AddModel(const ModelConfig& model, KeyValues* out) {
  const auto add = [out](const std::string& key, std::string value) {
    out->push_back({"model." + key, std::move(value)});
  };
  if (!model.name.empty()) add("name", Text(model.name));
  if (!model.preset.empty()) add("preset", Text(model.preset));
  if (!model.graph.empty()) add("graph", Text(model.graph));
  if (!model.weights.empty()) add("weights", Text(model.weights));
  for (const auto& [key, value] : model.ints) add(key, Text(value));
  for (const auto& [key, value] : model.doubles) add(key, Text(value));
  for (const auto& [key, value] : model.strings) add(key, Text(value));
  for (const auto& [key, value] : model.lists) add(key, Text(value));
}

void AddData(const DataConfig& data, KeyValues* out) {
  out->push_back({"data.format", Text(data.format)});
  const auto add = [&](const std::string& key, const std::vector<std::string>& files,
                       const std::string& images, const std::string& labels) {
    if (!files.empty()) out->push_back({key, Text(files)});
    if (!images.empty()) out->push_back({key + ".images", Text(images)});
    if (!labels.empty()) out->push_back({key + ".labels", Text(labels)});
  };
  add("data.train", data.train, data.train_images, data.train_labels);
  add("data.validation", data.validation, data.validation_images, data.validation_labels);
  out->push_back({"data.workers", Text(int64_t{data.workers})});
}

std::string ClusterText(const ClusterConfig& cluster) {
  if (!cluster.file.empty()) return Text(cluster.file);
  if (cluster.entries.empty()) return "auto";
  std::vector<std::string> parts;
  for (const ClusterEntry& entry : cluster.entries) {
    std::string part = absl::StrCat("{device: ", Text(entry.device));
    if (entry.cores > 0) absl::StrAppend(&part, ", cores: ", entry.cores);
    if (entry.memory_bytes > 0) absl::StrAppend(&part, ", memory: ", entry.memory_bytes);
    if (!entry.options.empty()) {
      std::vector<std::string> own;
      for (const auto& [key, value] : entry.options) own.push_back(Text(key) + ": " + Text(value));
      absl::StrAppend(&part, ", ", Text(entry.device), ": {", absl::StrJoin(own, ", "), "}");
    }
    parts.push_back(part + "}");
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string GroupsText(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> parts;
  for (const ParameterGroup& g : groups) {
    std::vector<std::string> keys;
    if (!g.name.empty()) keys.push_back("name: " + Text(g.name));
    keys.push_back("match: " + Text(g.match));
    keys.push_back("lr_scale: " + Text(g.lr_scale));
    if (g.weight_decay) keys.push_back("weight_decay: " + Text(*g.weight_decay));
    if (g.decay_all) keys.push_back("decay_all: true");
    if (g.use_muon) keys.push_back("use_muon: " + Text(*g.use_muon));
    parts.push_back(absl::StrCat("{", absl::StrJoin(keys, ", "), "}"));
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

// The keys that the method and the schedule take.
void AddOptimizer(const OptimizerConfig& o, KeyValues* out) {
  const auto add = [out](const std::string& key, std::string value) {
    out->push_back({"optimizer." + key, std::move(value)});
  };
  const std::map<std::string, std::string> of_method = {
      {"betas", Text(o.betas)},
      {"eps", Text(o.eps)},
      {"momentum", Text(o.momentum)},
      {"nesterov", Text(o.nesterov)},
      {"weight_decay", Text(o.weight_decay)},
      {"beta2_decay", Text(o.beta2_decay)},
      {"eps1", Text(o.eps1)},
      {"eps2", Text(o.eps2)},
      {"d", Text(o.d)},
      {"ns_steps", Text(o.ns_steps)},
      {"ns_coefficients", Text(o.ns_coefficients)},
      {"adjust_lr_fn", Text(o.adjust_lr_fn)},
      {"adamw", absl::StrCat("{lr: ", Text(o.adamw.lr), ", betas: ", Text(o.adamw.betas),
                             ", eps: ", Text(o.adamw.eps),
                             ", weight_decay: ", Text(o.adamw.weight_decay), "}")}};
  const ScheduleConfig& s = o.schedule;
  const std::map<std::string, std::string> of_schedule = {
      {"final_ratio", Text(s.final_ratio)},
      {"power", Text(s.power)},
      {"decay_steps", AutoText(s.decay_steps)},
      {"decay_ratio", Text(s.decay_ratio)},
      {"decay_shape", Text(s.decay_shape)},
      {"step_size", s.step_size ? Text(*s.step_size) : "null"},
      {"milestones", s.milestones ? Text(*s.milestones) : "null"},
      {"gamma", Text(s.gamma)}};
  add("name", Text(o.name));
  add("lr", Text(o.lr));
  for (const std::string& key : HybridOptimizer::ConfigKeys(o.name)) add(key, of_method.at(key));
  add("clip_norm", o.clip_norm ? Text(*o.clip_norm) : "none");
  add("clip_value", o.clip_value ? Text(*o.clip_value) : "none");
  add("schedule.name", Text(s.name));
  add("schedule.warmup_steps", Text(s.warmup_steps));
  for (const std::string& key : ScheduleKeys(s.name)) {
    add("schedule." + key, of_schedule.at(key));
  }
  if (!o.groups.empty()) add("groups", GroupsText(o.groups));
  if (o.ema) {
    add("ema.decay", Text(o.ema->decay));
  }
}

std::string BudgetText(const ActivationBudget& budget) {
  if (budget.percent) return Text(*budget.percent) + "%";
  return budget.bytes ? Text(*budget.bytes) : "none";
}

KeyValues Flatten(const ExperimentConfig& c) {
  KeyValues out;
  if (!c.name.empty()) out.push_back({"name", Text(c.name)});
  AddModel(c.model, &out);
  AddData(c.data, &out);
  const auto add = [&out](const char* key, std::string value) {
    out.push_back({key, std::move(value)});
  };
  if (c.train.steps) add("train.steps", Text(*c.train.steps));
  if (c.train.epochs) add("train.epochs", Text(*c.train.epochs));
  add("train.micro_batch", Text(c.train.micro_batch));
  add("train.global_batch", AutoText(c.train.global_batch));
  add("train.seed", absl::StrCat(c.train.seed));
  add("train.evaluate_every", Text(c.train.evaluate_every));
  add("train.deterministic", Text(c.train.deterministic));
  add("train.capture", Text(c.train.capture));
  AddOptimizer(c.optimizer, &out);
  add("precision.amp_level", c.precision.amp_level ? Name(*c.precision.amp_level) : "auto");
  add("precision.dtype", Name(c.precision.dtype));
  add("precision.loss_scale", Text(c.precision.loss_scale));
  add("precision.growth_interval", Text(c.precision.loss_scale.growth_interval));
  add("comm_options.gradient_accumulation", AutoText(c.comm_options.gradient_accumulation));
  add("comm_options.allreduce_algorithm", Name(c.comm_options.allreduce_algorithm));
  add("comm_options.pipeline_depth", AutoText(c.comm_options.pipeline_depth));
  add("comm_options.timeout_seconds", Text(c.comm_options.timeout_seconds));
  add("parallel.data_parallel", AutoText(c.parallel.data_parallel));
  add("parallel.schedule", c.parallel.schedule);
  add("parallel.recompute", c.parallel.recompute_modules.empty()
                                ? c.parallel.recompute
                                : Text(c.parallel.recompute_modules));
  add("parallel.activation_budget", BudgetText(c.parallel.activation_budget));
  add("parallel.shard", c.parallel.shard ? absl::StrCat(*c.parallel.shard) : "auto");
  add("parallel.shard_by", Text(c.parallel.shard_by));
  add("parallel.balance", c.parallel.balance);
  const OffloadConfig& offload = c.parallel.offload;
  add("parallel.offload.optimizer", offload.optimizer);
  if (!offload.path.empty()) add("parallel.offload.path", Text(offload.path));
  add("parallel.offload.update", offload.update);
  add("parallel.offload.activations",
      offload.activations.empty() ? "none" : Text(offload.activations));
  add("parallel.stages", c.parallel.stages.empty() ? "auto" : Text(c.parallel.stages));
  add("cluster", ClusterText(c.cluster));
  add("plugins", Text(c.cluster.plugins));
  add("checkpoint.every", Text(c.checkpoint.every));
  add("checkpoint.keep", Text(int64_t{c.checkpoint.keep}));
  add("checkpoint.resume", c.checkpoint.resume == "auto" ? "auto" : Text(c.checkpoint.resume));
  add("log.every", Text(c.log.every));
  add("log.tensorboard", Text(c.log.tensorboard));
  return out;
}

}  // namespace

std::string FormatConfig(const ExperimentConfig& config) {
  std::string text;
  std::vector<std::string> open;  // the sections that the last key stood in
  for (const auto& [path, value] : Flatten(config)) {
    std::vector<std::string> parts = absl::StrSplit(path, '.');
    const std::string key = parts.back();
    parts.pop_back();
    size_t shared = 0;
    while (shared < open.size() && shared < parts.size() && open[shared] == parts[shared]) ++shared;
    for (size_t i = shared; i < parts.size(); ++i) {
      absl::StrAppend(&text, std::string(2 * i, ' '), parts[i], ":\n");
    }
    absl::StrAppend(&text, std::string(2 * parts.size(), ' '), key, ": ", value, "\n");
    open = std::move(parts);
  }
  return text;
}

uint64_t ConfigHash(const ExperimentConfig& config) {
  const std::string text = FormatConfig(config);
  return StreamOf(text.data(), text.size());
}

std::string ConfigDiff(const ExperimentConfig& a, const ExperimentConfig& b) {
  const KeyValues left = Flatten(a), right = Flatten(b);
  const std::map<std::string, std::string> in_a(left.begin(), left.end());
  const std::map<std::string, std::string> in_b(right.begin(), right.end());
  const auto value = [](const std::map<std::string, std::string>& map, const std::string& key) {
    const auto it = map.find(key);
    return it == map.end() ? std::string("(unset)") : it->second;
  };
  std::vector<std::string> parts;
  for (const auto& [key, text] : left) {
    const std::string other = value(in_b, key);
    if (text != other) parts.push_back(absl::StrCat(key, " ", text, " vs ", other));
  }
  for (const auto& [key, text] : right) {
    if (in_a.count(key) == 0) parts.push_back(absl::StrCat(key, " (unset) vs ", text));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace oc
