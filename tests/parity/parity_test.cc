// Forward and gradients of each model against PyTorch in float64, on the cpu device: the norm-wise
// error of each tensor is at most twice that of PyTorch's own float32. parity.json is made by
// make_parity.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "openclaw/core/rng.h"
#include "openclaw/devices/cpu/cpu.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"

#include "../graph/interpreter.h"

namespace oc {
namespace {

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverCpusWithReference() {
  return DiscoverCpus(ReferenceKernels());
}

using nlohmann::json;

// Element i of tensor `name`, in [-1, 1): as in make_parity.py.
double Uniform(const std::string& name, uint64_t i) {
  uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + StreamOf(name.data(), name.size());
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-23 - 1.0;
}

Tensor Weight(const std::string& name, const TensorType& type) {
  Tensor t(type);
  double scale = 0.1, shift = 0;
  if (type.shape.rank() > 1) {
    scale = std::sqrt(3.0 * static_cast<double>(type.shape[0].size()) /
                      static_cast<double>(type.shape.num_elements()));
  } else if (name.ends_with("weight")) {
    shift = 1.0;
  }
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, shift + scale * Uniform(name, i));
  return t;
}

std::map<std::string, Tensor> Inputs(const Graph& joint) {
  std::map<std::string, Tensor> values;
  for (const Value& v : joint.values) {
    if (v.kind == ValueKind::kParameter) values[v.name] = Weight(v.name, v.type);
    if (v.kind == ValueKind::kState) values[v.name] = Tensor(v.type);
    if (v.kind == ValueKind::kScalar) values[v.name] = Tensor(v.type);
    if (v.kind == ValueKind::kData) {
      Tensor t(v.type);
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        if (v.name == "images") t.set(i, Uniform("images", i));
        if (v.name == "labels") t.set(i, static_cast<double>(i % 10));
        if (v.name == "tokens") t.set(i, std::floor((Uniform("tokens", i) + 1.0) * 0.5 * 61));
      }
      values[v.name] = t;
    }
  }
  if (values.count("targets") != 0) {
    const Tensor& tokens = values["tokens"];
    Tensor& targets = values["targets"];
    const int64_t context = tokens.shape()[1].size();
    for (int64_t i = 0; i < targets.num_elements(); ++i) {
      const int64_t next = (i + 1) % context == 0 ? i + 1 - context : i + 1;
      targets.set(i, i < context / 2 ? -1 : tokens.at(next));
    }
  }
  return values;
}

class ParityTest : public ::testing::TestWithParam<std::string> {};

StatusOr<Graph> Model(const std::string& name) {
  if (name == "mlp") return models::Mlp({.hidden = {96, 64}});
  if (name == "lenet") return models::LeNet({});
  if (name == "resnet18") {
    return models::ResNet(
        {.input = {28, 28, 1}, .depth = 18, .classes = 10, .stem = "small", .width = 8});
  }
  if (name == "gpt") {
    return models::Gpt2({.layers = 2, .width = 32, .heads = 2, .context = 24, .vocabulary = 61});
  }
  return models::Llama({.layers = 2,
                        .width = 32,
                        .heads = 4,
                        .kv_heads = 2,
                        .ffn = 48,
                        .context = 24,
                        .vocabulary = 61});
}

TEST_P(ParityTest, ErrorsAreNoMoreThanTwicePyTorchs) {
  std::ifstream file(PARITY_JSON);
  ASSERT_TRUE(file) << PARITY_JSON;
  const json expected = json::parse(file)["models"][GetParam()];
  auto model = Model(GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  const bool classifier = model->FindValue("images") != kNone;
  auto bound = model->Bind({{"B", classifier ? 16 : 4}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  auto joint = Differentiate(*bound);
  ASSERT_TRUE(joint.ok()) << joint.status();
  ASSERT_EQ(RunPasses(*joint, DefaultPasses(), {}), OkStatus());
  for (int threads : {1, 2}) {
    auto slice = test::FirstSlice(ThroughTable<&DiscoverCpusWithReference>("cpu"), threads);
    ASSERT_TRUE(slice.ok()) << slice.status();
    std::map<std::string, Tensor> inputs = Inputs(*joint);
    const int64_t valid = classifier ? 16 : 4 * 24 - 12;
    inputs["global_count"] = Tensor::Of<float>({}, {static_cast<float>(valid)});
    auto values = test::Interpret(*joint, inputs, *slice->slice);
    ASSERT_TRUE(values.ok()) << values.status();
    int compared = 0;
    const auto compare = [&](const std::string& name, const std::function<double(int64_t)>& at,
                             int64_t size) {
      ASSERT_TRUE(expected.contains(name)) << name;
      const json& e = expected[name];
      ASSERT_EQ(e["size"].get<int64_t>(), size) << name;
      double sum = 0;
      const auto samples = e["samples"].get<std::vector<double>>();
      for (size_t i = 0; i < samples.size(); ++i) {
        const int64_t place = static_cast<int64_t>(i * 2654435761ull % static_cast<uint64_t>(size));
        sum += std::pow(at(place) - samples[i], 2);
      }
      // What the samples say of the whole tensor's error; a few units in the last place are always
      // granted.
      const double error =
          std::sqrt(sum * static_cast<double>(size) / static_cast<double>(samples.size())) /
          e["norm"].get<double>();
      EXPECT_LE(error, 2 * e["torch_f32_error"].get<double>() + 1.2e-7)
          << name << ", PyTorch's is " << e["torch_f32_error"].get<double>() << ", threads "
          << threads;
      ++compared;
    };
    const double loss = (*values)[joint->loss_sum].at(0) / static_cast<double>(valid);
    compare(
        "loss", [&](int64_t) { return loss; }, 1);
    for (const Accumulator& a : joint->accumulators) {
      if (a.kind != Accumulator::Kind::kGradient) continue;
      const auto gradient = [&](int64_t i) {
        double sum = 0;
        for (int v : a.contributions) sum += (*values)[v].at(i);
        return sum;
      };
      compare(a.name, gradient, joint->value(a.target).type.shape.num_elements());
    }
    EXPECT_EQ(compared, static_cast<int>(expected.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ParityTest,
                         ::testing::Values("mlp", "lenet", "resnet18", "gpt", "llama"));

}  // namespace
}  // namespace oc
