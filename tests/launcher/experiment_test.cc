// Experiments whose model is a `.oc` file: where its variables begin.
#include "openclaw/launcher/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "openclaw/graph/file/graph_file.h"
#include "openclaw/graph/initialize.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/launcher/commands.h"

namespace oc {
namespace {

using ::testing::HasSubstr;
using Weights = std::vector<std::pair<std::string, Tensor>>;

class GraphExperimentTest : public ::testing::Test {
 protected:
  GraphExperimentTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("experiment_", info->name(), "_", getpid());
    std::filesystem::create_directories(folder_);
    model_ = *models::Gpt2({.layers = 1, .width = 8, .heads = 2, .context = 8, .vocabulary = 256});
    std::ofstream text(Path("text.txt"));
    for (int i = 0; i < 100; ++i) text << "line " << i * i << "\n";
    flags_.config_path = Path("experiment.yaml");
    std::ofstream(flags_.config_path) << R"(
model: {graph: model.oc}
data: {format: text, train: [text.txt]}
train: {steps: 1, micro_batch: 2, seed: 5}
optimizer: {name: sgd, lr: 0.1}
comm_options: {gradient_accumulation: 2, pipeline_depth: 2}
parallel: {stages: [transformer.h.0]}
log: {tensorboard: false}
)";
  }
  ~GraphExperimentTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Values that no initialisation of the experiment's gives, of all parameters but `without`.
  Weights MakeWeights(uint64_t seed, const std::string& without = "") const {
    Weights weights;
    for (const Variable& v : model_.parameters) {
      const Value& value = model_.value(v.value);
      if (value.name == without) continue;
      Tensor t(value.type);
      OC_CHECK(
          Initialize(Initializer::Normal(0, 0.5), value.name, seed, value.type, t.bytes()).ok());
      weights.emplace_back(value.name, t);
    }
    return weights;
  }
  void WriteSafetensors(const std::string& name, const Weights& weights) const {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [key, value] : weights) entries.push_back({key, value.type()});
    auto writer = SafetensorsWriter::Create(Path(name), entries, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [key, value] : weights) ASSERT_TRUE(writer->Write(key, value.bytes()).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  // Opens the experiment and gives the first values of all parameters.
  StatusOr<std::map<std::string, Tensor>> FirstValues() const {
    OC_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadExperiment(flags_));
    OC_ASSIGN_OR_RETURN(const Experiment experiment, OpenExperiment(config));
    OC_ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(config));
    OC_ASSIGN_OR_RETURN(auto pipeline, OpenPipeline(experiment, cluster, "", ""));
    std::map<std::string, Tensor> values;
    for (const Variable& v : model_.parameters) {
      const std::string& name = model_.value(v.value).name;
      OC_ASSIGN_OR_RETURN(values[name], pipeline->ReadVariable(name));
    }
    OC_RETURN_IF_ERROR(cluster.Leave(10));
    return values;
  }
  static void ExpectSame(const std::map<std::string, Tensor>& values, const Weights& expected) {
    for (const auto& [name, tensor] : expected) {
      const Tensor& value = values.at(name);
      ASSERT_EQ(value.num_elements(), tensor.num_elements()) << name;
      for (int64_t i = 0; i < value.num_elements(); ++i) {
        ASSERT_EQ(value.at(i), tensor.at(i)) << name << " " << i;
      }
    }
  }

  std::filesystem::path folder_;
  Graph model_;
  ExperimentFlags flags_;
};

TEST_F(GraphExperimentTest, BeginsWithTheStoredWeights) {
  const std::string left_out = model_.value(model_.parameters[0].value).name;
  Weights weights = MakeWeights(1, left_out);
  Tensor& first = weights[0].second;  // of another dtype than the model's
  Tensor half({DType::kBF16, first.shape()});
  for (int64_t i = 0; i < half.num_elements(); ++i) half.set(i, first.at(i));
  first = half;
  ASSERT_TRUE(SaveGraph(Path("model.oc"), model_, weights).ok());

  const auto values = FirstValues();
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectSame(*values, weights);
  // What the file has no weight of begins as its initialiser says.
  const Variable& v = model_.parameters[0];
  Tensor initial(model_.value(v.value).type);
  ASSERT_TRUE(Initialize(v.init, left_out, 5, initial.type(), initial.bytes()).ok());
  ExpectSame(*values, {{left_out, initial}});
}

TEST_F(GraphExperimentTest, AWeightsFileGoesBeforeTheStoredOnes) {
  ASSERT_TRUE(SaveGraph(Path("model.oc"), model_, MakeWeights(1)).ok());
  WriteSafetensors("w.safetensors", MakeWeights(2));
  flags_.overrides = {"model.weights=" + Path("w.safetensors")};
  const auto values = FirstValues();
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectSame(*values, MakeWeights(2));
}

TEST_F(GraphExperimentTest, AWeightsFileHoldsEveryParameterInItsShape) {
  ASSERT_TRUE(SaveGraph(Path("model.oc"), model_, MakeWeights(1)).ok());
  const std::string name = model_.value(model_.parameters[2].value).name;
  WriteSafetensors("w.safetensors", MakeWeights(2, name));
  flags_.overrides = {"model.weights=" + Path("w.safetensors")};
  EXPECT_THAT(FirstValues().status().ToString(), HasSubstr("it holds no " + name));
  Weights weights = MakeWeights(2);
  weights[2].second = Tensor({DType::kF32, {3, 1}});
  WriteSafetensors("w.safetensors", weights);
  EXPECT_THAT(FirstValues().status().ToString(), HasSubstr(name + " is f32[3, 1], the model has"));
}

// The first step's loss is that of the weights, wherever they came from.
TEST_F(GraphExperimentTest, TrainingBeginsWithThem) {
  const auto first_line = [&](const std::string& run) {
    ExperimentFlags flags = flags_;
    flags.run_dir = Path(run);
    const CommandResult result = Train(flags);
    EXPECT_TRUE(result.status.ok()) << result.status;
    std::ifstream metrics(Path(run + "/metrics.jsonl"));
    std::string line;
    std::getline(metrics, line);
    return line.substr(0, line.find(",\"lr\""));
  };
  ASSERT_TRUE(SaveGraph(Path("model.oc"), model_, MakeWeights(1)).ok());
  const std::string stored = first_line("stored");
  EXPECT_THAT(stored, HasSubstr("{\"step\":1,\"loss\":"));
  ASSERT_TRUE(SaveGraph(Path("model.oc"), model_).ok());
  EXPECT_NE(first_line("initialised"), stored);
  WriteSafetensors("w.safetensors", MakeWeights(1));
  flags_.overrides = {"model.weights=" + Path("w.safetensors")};
  EXPECT_EQ(first_line("given"), stored);
}

}  // namespace
}  // namespace oc
