// Which keys the `model` section takes, by model: a table. What the keys mean is the business of
// graph/models. Internal to launcher/config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oc::config {

struct ModelKey {
  enum class Type { kInt, kDouble, kWord, kInts };
  std::string name;
  Type type = Type::kInt;
  double lo = 1, hi = 1e9;         // of numbers, ends included; kDouble: hi excluded
  std::vector<std::string> words;  // kWord: the allowed ones
  std::vector<int64_t> ints;       // kInt: the allowed ones, empty: all of [lo, hi]
};

struct ModelKeys {
  std::string name;
  std::vector<ModelKey> keys;
  std::vector<std::string> presets;  // of this model
};

// All known models.
const std::vector<ModelKeys>& KnownModels();
// By name, or by one of its presets. Null where there is none.
const ModelKeys* FindModel(const std::string& name);
const ModelKeys* FindModelOfPreset(const std::string& preset);

}  // namespace oc::config
