#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/graph/models/models.h"
#include "openclaw/launcher/config/config.h"
#include "openclaw/launcher/config/model_keys.h"

namespace oc {
namespace {

// An experiment whose model section is `model`.
StatusOr<ExperimentConfig> WithModel(const std::string& model) {
  return ParseConfig(
      absl::StrCat("model: ", model, "\ndata: {format: text, train: x}\ntrain: {steps: 1}\n"),
      "models.yaml");
}

// A small value for a key.
std::string Value(const config::ModelKey& key) {
  if (!key.words.empty()) return key.words[0];
  if (!key.ints.empty()) return absl::StrCat(key.ints[0]);
  if (key.type == config::ModelKey::Type::kInts) return "[8, 8]";
  if (key.type == config::ModelKey::Type::kDouble) return absl::StrCat(key.lo);
  return key.name == "heads" || key.name == "kv_heads" || key.name == "layers" ? "2" : "16";
}

TEST(Models, TakeTheKeysOfTheTable) {
  models::DataFeatures images, tokens;
  images.inputs["images"] = {DType::kF32, Shape{28, 28, 1}};
  tokens.inputs["tokens"] = {DType::kI32, Shape{16}};
  for (const config::ModelKeys& known : config::KnownModels()) {
    std::string section = absl::StrCat("{name: ", known.name);
    bool reads_tokens = false;
    for (const config::ModelKey& key : known.keys) {
      absl::StrAppend(&section, ", ", key.name, ": ", Value(key));
      reads_tokens = reads_tokens || key.name == "context";
    }
    const auto experiment = WithModel(section + "}");
    ASSERT_TRUE(experiment.ok()) << experiment.status();
    const auto graph = models::BuildModel(experiment->model, reads_tokens ? tokens : images);
    EXPECT_TRUE(graph.ok()) << section << ": " << graph.status();
  }
}

TEST(Models, PresetsAreThoseOfTheTable) {
  std::vector<std::string> table;
  for (const config::ModelKeys& known : config::KnownModels()) {
    table.insert(table.end(), known.presets.begin(), known.presets.end());
  }
  EXPECT_THAT(table, ::testing::UnorderedElementsAreArray(models::PresetNames()));
  for (const std::string& preset : table) {
    const auto experiment = WithModel(absl::StrCat("{preset: ", preset, "}"));
    EXPECT_TRUE(experiment.ok()) << experiment.status();
  }
}

}  // namespace
}  // namespace oc
