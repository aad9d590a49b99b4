#include "openclaw/launcher/config/model_keys.h"

#include <algorithm>

namespace oc::config {
namespace {

using Type = ModelKey::Type;

ModelKey Int(const char* name, double hi = 1e9) { return {name, Type::kInt, 1, hi, {}, {}}; }
ModelKey OneOf(const char* name, std::vector<int64_t> ints) {
  return {name, Type::kInt, 1, 1e9, {}, std::move(ints)};
}
ModelKey OneOf(const char* name, std::vector<std::string> words) {
  return {name, Type::kWord, 0, 0, std::move(words), {}};
}
ModelKey Dropout() { return {"dropout", Type::kDouble, 0, 1, {}, {}}; }

}  // namespace

const std::vector<ModelKeys>& KnownModels() {
  static const std::vector<ModelKeys> kModels = {
      {"mlp", {{"hidden", Type::kInts, 1, 1e9, {}, {}}, Int("classes"), Dropout()}, {}},
      {"lenet", {Int("classes")}, {}},
      {"resnet",
       {OneOf("depth", std::vector<int64_t>{18, 34, 50, 101, 152}), Int("classes"),
        OneOf("stem", std::vector<std::string>{"small", "imagenet"}), Int("width")},
       {"resnet-18", "resnet-34", "resnet-50", "resnet-101", "resnet-152"}},
      {"gpt2",
       {Int("layers", 10000), Int("width"), Int("heads"), Int("context"), Int("vocabulary"),
        Dropout()},
       {"gpt2-124m", "gpt2-350m", "gpt2-774m", "gpt2-1.5b"}},
      {"llama",
       {Int("layers", 10000),
        Int("width"),
        Int("heads"),
        Int("kv_heads"),
        Int("context"),
        Int("vocabulary"),
        Int("ffn"),
        {"rope_base", Type::kDouble, 1, 1e12, {}, {}}},
       {"llama-1.1b", "llama-7b", "llama-13b", "llama-70b"}},
  };
  return kModels;
}

const ModelKeys* FindModel(const std::string& name) {
  for (const ModelKeys& model : KnownModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const ModelKeys* FindModelOfPreset(const std::string& preset) {
  for (const ModelKeys& model : KnownModels()) {
    if (std::count(model.presets.begin(), model.presets.end(), preset) > 0) return &model;
  }
  return nullptr;
}

}  // namespace oc::config
