// From an experiment's `model` section to a graph.
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>

#include "openclaw/core/nearest_name.h"
#include "openclaw/graph/models/models.h"

namespace oc::models {
namespace {

// The keys of a ModelConfig, each taken once by the model; what is left over is an error.
class Keys {
 public:
  Keys(std::string model, const ModelConfig& config) : model_(std::move(model)), config_(config) {}

  void Take(const std::string& key, int64_t* value) { TakeFrom(config_.ints, key, value); }
  void Take(const std::string& key, std::string* value) { TakeFrom(config_.strings, key, value); }
  void Take(const std::string& key, std::vector<int64_t>* value) {
    TakeFrom(config_.lists, key, value);
  }
  void Take(const std::string& key, double* value) {
    TakeFrom(config_.doubles, key, value);
    // A whole number is a number too.
    int64_t whole = 0;
    if (config_.ints.count(key) != 0) {
      TakeFrom(config_.ints, key, &whole);
      *value = static_cast<double>(whole);
    }
  }
  bool Has(const std::string& key) const { return config_.ints.count(key) != 0; }

  // kInvalidArgument names a key that was not taken, or that has a value of another type.
  Status Finish() const {
    OC_RETURN_IF_ERROR(CheckAll(config_.ints));
    OC_RETURN_IF_ERROR(CheckAll(config_.doubles));
    OC_RETURN_IF_ERROR(CheckAll(config_.strings));
    return CheckAll(config_.lists);
  }

 private:
  template <typename T>
  void TakeFrom(const std::map<std::string, T>& values, const std::string& key, T* value) {
    taken_.push_back(key);
    if (auto it = values.find(key); it != values.end()) {
      *value = it->second;
      found_.insert(key);
    }
  }
  template <typename T>
  Status CheckAll(const std::map<std::string, T>& values) const {
    for (const auto& [key, value] : values) {
      if (std::find(taken_.begin(), taken_.end(), key) != taken_.end()) {
        if (found_.count(key) != 0) continue;
        return InvalidArgument("model ", model_, ": key '", key, "' has a value of the wrong type");
      }
      const std::string nearest = NearestName(key, taken_);
      return InvalidArgument("model ", model_, " takes no key '", key, "'",
                             nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"),
                             " It takes ", absl::StrJoin(taken_, ", "));
    }
    return OkStatus();
  }

  std::string model_;
  const ModelConfig& config_;
  std::vector<std::string> taken_;
  std::set<std::string> found_;
};

// The shape of the data's images; an error where it has none.
StatusOr<Shape> ImageShape(const std::string& model, const DataFeatures& data) {
  auto it = data.inputs.find("images");
  if (it != data.inputs.end()) return it->second.shape;
  std::vector<std::string> names;
  for (const auto& [name, type] : data.inputs) names.push_back(name);
  return InvalidArgument("model ", model, " reads images, the data has ",
                         names.empty() ? "none" : absl::StrJoin(names, ", "));
}

Status CheckTokens(const std::string& model, int64_t context, const DataFeatures& data) {
  if (data.inputs.empty()) return OkStatus();
  if (auto it = data.inputs.find("tokens"); it != data.inputs.end()) {
    if (it->second.shape == Shape{context}) return OkStatus();
    return InvalidArgument("model ", model, ": context is ", context,
                           ", but the data gives tokens ", it->second.ToString());
  }
  std::vector<std::string> names;
  for (const auto& [name, type] : data.inputs) names.push_back(name);
  return InvalidArgument("model ", model, " reads tokens, the data has ",
                         absl::StrJoin(names, ", "));
}

// How many classes or tokens: the model's number where it is given, else the data's; never fewer.
Status Settle(const std::string& model, const char* what, bool given, int64_t known,
              int64_t* value) {
  if (!given && known > 0) *value = known;
  if (!given && known <= 0) {
    return InvalidArgument("model ", model, ": ", what,
                           " is not given, and the data does not tell");
  }
  if (known > *value) {
    return InvalidArgument("model ", model, ": ", what, " is ", *value, ", but the data has ",
                           known);
  }
  return OkStatus();
}

struct Preset {
  std::string name, model;
  std::map<std::string, int64_t> ints;
};

std::vector<Preset> Presets() {
  const auto gpt2 = [](int64_t layers, int64_t width, int64_t heads) {
    return std::map<std::string, int64_t>{{"layers", layers},
                                          {"width", width},
                                          {"heads", heads},
                                          {"context", 1024},
                                          {"vocabulary", 50257}};
  };
  const auto llama = [](int64_t layers, int64_t width, int64_t heads, int64_t kv_heads, int64_t ffn,
                        int64_t context) {
    return std::map<std::string, int64_t>{
        {"layers", layers}, {"width", width},     {"heads", heads},     {"kv_heads", kv_heads},
        {"ffn", ffn},       {"context", context}, {"vocabulary", 32000}};
  };
  std::vector<Preset> presets = {
      {"gpt2-124m", "gpt2", gpt2(12, 768, 12)},
      {"gpt2-350m", "gpt2", gpt2(24, 1024, 16)},
      {"gpt2-774m", "gpt2", gpt2(36, 1280, 20)},
      {"gpt2-1.5b", "gpt2", gpt2(48, 1600, 25)},
      {"llama-1.1b", "llama", llama(22, 2048, 32, 4, 5632, 2048)},
      {"llama-7b", "llama", llama(32, 4096, 32, 32, 11008, 4096)},
      {"llama-13b", "llama", llama(40, 5120, 40, 40, 13824, 4096)},
      {"llama-70b", "llama", llama(80, 8192, 64, 8, 28672, 4096)},
  };
  for (int64_t depth : {18, 34, 50, 101, 152}) {
    presets.push_back({absl::StrCat("resnet-", depth), "resnet", {{"depth", depth}}});
  }
  return presets;
}

StatusOr<Graph> BuildMlp(const ModelConfig& config, const DataFeatures& data) {
  MlpOptions options;
  Keys keys("mlp", config);
  keys.Take("hidden", &options.hidden);
  keys.Take("classes", &options.classes);
  keys.Take("dropout", &options.dropout);
  OC_RETURN_IF_ERROR(keys.Finish());
  OC_ASSIGN_OR_RETURN(options.input, ImageShape("mlp", data));
  OC_RETURN_IF_ERROR(Settle("mlp", "classes", keys.Has("classes"), data.classes, &options.classes));
  return Mlp(options);
}

StatusOr<Graph> BuildLeNet(const ModelConfig& config, const DataFeatures& data) {
  LeNetOptions options;
  Keys keys("lenet", config);
  keys.Take("classes", &options.classes);
  OC_RETURN_IF_ERROR(keys.Finish());
  OC_ASSIGN_OR_RETURN(options.input, ImageShape("lenet", data));
  OC_RETURN_IF_ERROR(
      Settle("lenet", "classes", keys.Has("classes"), data.classes, &options.classes));
  return LeNet(options);
}

StatusOr<Graph> BuildResNet(const ModelConfig& config, const DataFeatures& data) {
  ResNetOptions options;
  Keys keys("resnet", config);
  keys.Take("depth", &options.depth);
  keys.Take("classes", &options.classes);
  keys.Take("stem", &options.stem);
  keys.Take("width", &options.width);
  OC_RETURN_IF_ERROR(keys.Finish());
  OC_ASSIGN_OR_RETURN(options.input, ImageShape("resnet", data));
  OC_RETURN_IF_ERROR(
      Settle("resnet", "classes", keys.Has("classes"), data.classes, &options.classes));
  return ResNet(options);
}

StatusOr<Graph> BuildGpt2(const ModelConfig& config, const DataFeatures& data) {
  Gpt2Options options;
  Keys keys("gpt2", config);
  keys.Take("layers", &options.layers);
  keys.Take("width", &options.width);
  keys.Take("heads", &options.heads);
  keys.Take("context", &options.context);
  keys.Take("vocabulary", &options.vocabulary);
  keys.Take("dropout", &options.dropout);
  OC_RETURN_IF_ERROR(keys.Finish());
  OC_RETURN_IF_ERROR(CheckTokens("gpt2", options.context, data));
  OC_RETURN_IF_ERROR(
      Settle("gpt2", "vocabulary", keys.Has("vocabulary"), data.vocabulary, &options.vocabulary));
  return Gpt2(options);
}

StatusOr<Graph> BuildLlama(const ModelConfig& config, const DataFeatures& data) {
  LlamaOptions options;
  Keys keys("llama", config);
  keys.Take("layers", &options.layers);
  keys.Take("width", &options.width);
  keys.Take("heads", &options.heads);
  keys.Take("kv_heads", &options.kv_heads);
  keys.Take("ffn", &options.ffn);
  keys.Take("context", &options.context);
  keys.Take("vocabulary", &options.vocabulary);
  keys.Take("rope_base", &options.rope_base);
  OC_RETURN_IF_ERROR(keys.Finish());
  OC_RETURN_IF_ERROR(CheckTokens("llama", options.context, data));
  OC_RETURN_IF_ERROR(
      Settle("llama", "vocabulary", keys.Has("vocabulary"), data.vocabulary, &options.vocabulary));
  return Llama(options);
}

// "unknown model 'gtp2'; did you mean 'gpt2'? There are ...".
Status Unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return InvalidArgument("unknown ", what, " '", name, "'",
                         nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"),
                         " There are ", absl::StrJoin(known, ", "));
}

// A preset as the name and the keys that it stands for.
StatusOr<ModelConfig> Expand(const ModelConfig& config) {
  if (config.preset.empty()) return config;
  for (const Preset& preset : Presets()) {
    if (preset.name != config.preset) continue;
    ModelConfig full = config;
    full.name = preset.model;
    full.ints.insert(preset.ints.begin(), preset.ints.end());  // keeps what is there
    return full;
  }
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.push_back(preset.name);
  return Unknown("preset", config.preset, names);
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.push_back(preset.name);
  return names;
}

int64_t ContextOf(const ModelConfig& config) {
  const auto full = Expand(config);
  if (!full.ok()) return 0;
  if (auto it = full->ints.find("context"); it != full->ints.end()) return it->second;
  if (full->name == "gpt2") return Gpt2Options().context;
  return full->name == "llama" ? LlamaOptions().context : 0;
}

StatusOr<Graph> BuildModel(const ModelConfig& config, const DataFeatures& data) {
  OC_ASSIGN_OR_RETURN(const ModelConfig full, Expand(config));
  using Function = StatusOr<Graph> (*)(const ModelConfig&, const DataFeatures&);
  const std::map<std::string, Function> models = {{"mlp", BuildMlp},
                                                  {"lenet", BuildLeNet},
                                                  {"resnet", BuildResNet},
                                                  {"gpt2", BuildGpt2},
                                                  {"llama", BuildLlama}};
  if (auto it = models.find(full.name); it != models.end()) return it->second(full, data);
  std::vector<std::string> names;
  for (const auto& [name, function] : models) names.push_back(name);
  return Unknown("model", full.name, names);
}

}  // namespace oc::models
