// Shape rules and costs of images, norms, losses, embeddings and attention. Values are the business
// of tests/conformance/ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/graph/autodiff.h"

namespace oc {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// All outputs' types as text, or the error.
std::string Infer(const std::string& op, const std::vector<std::string>& inputs,
                  const Attributes& attrs = {}) {
  GraphBuilder b("test");
  std::vector<Val> vals;
  for (const std::string& text : inputs) {
    vals.push_back(b.Data(absl::StrCat("input", vals.size()), *TensorType::Parse(text)));
  }
  std::string result;
  for (Val v : b.OpN(op, vals, attrs)) {
    absl::StrAppend(&result, result.empty() ? "" : " ", b.type(v).ToString());
  }
  return b.status().ok() ? result : std::string(b.status().message());
}

TEST(NnShapes, KeepNamedDimensions) {
  EXPECT_EQ(Infer("conv2d", {"f32[B, 8, 9, 6]", "f32[4, 3, 3, 2]", "f32[4]"},
                  {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0, 0, 2}}, {"groups", int64_t{2}}}),
            "f32[B, 4, 10, 4]");
  EXPECT_EQ(Infer("conv2d", {"bf16[2*B, 9, 9, 1]", "bf16[1, 1, 3, 3]"}, {{"dilation", Ints{4, 3}}}),
            "bf16[2*B, 1, 3, 1]");
  EXPECT_EQ(Infer("max_pool2d", {"f32[B, 7, 6, 5]"}, {{"kernel", Ints{2, 3}}}),
            "f32[B, 3, 2, 5] u8[B, 3, 2, 5]");
  EXPECT_EQ(Infer("avg_pool2d", {"f16[B, 4, 4, C]"}, {{"kernel", Ints{4, 4}}}), "f16[B, 1, 1, C]");
  EXPECT_EQ(Infer("batch_norm", {"bf16[B, 4, 4, 3]", "bf16[3]", "bf16[3]", "f32[3]", "f32[3]"}),
            "bf16[B, 4, 4, 3] f32[3] f32[3]");
  EXPECT_EQ(Infer("layer_norm", {"f64[B, T, 8]"}), "f64[B, T, 8] f64[B, T] f64[B, T]");
  EXPECT_EQ(Infer("rms_norm", {"f16[B, T, 8]", "f16[8]"}), "f16[B, T, 8] f32[B, T]");
  EXPECT_EQ(Infer("cross_entropy", {"f32[B, T, 11]", "i32[B, T]"}), "f32[] f32[B, T]");
  EXPECT_EQ(Infer("count_valid", {"i32[B, T]"}), "f32[]");
  EXPECT_EQ(Infer("embedding", {"i32[B, T]", "bf16[11, 8]"}), "bf16[B, T, 8]");
  EXPECT_EQ(Infer("rope", {"f32[B, T, 32]"}, {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}}),
            "f32[B, T, 32]");
  EXPECT_EQ(
      Infer("attention", {"bf16[B, T, 32]"}, {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}}),
      "bf16[B, T, 16] f32[B, 4, T]");
}

TEST(NnShapes, RefuseWhatDoesNotFit) {
  const std::string image = "f32[B, 8, 8, 3]";
  EXPECT_THAT(Infer("conv2d", {"f32[B, H, 8, 3]", "f32[4, 3, 3, 3]"}), HasSubstr("known numbers"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 2, 3, 3]"}), HasSubstr("channels"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 3, 9, 3]"}), HasSubstr("does not fit"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 3, 3, 3]"}, {{"stride", Ints{0, 1}}}),
              HasSubstr("stride is (0, 1)"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 3, 3, 3]"}, {{"padding", Ints{1, 1}}}),
              HasSubstr("wants 4 values"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 1, 3, 3]"}, {{"groups", int64_t{3}}}),
              HasSubstr("groups"));
  EXPECT_THAT(Infer("conv2d", {image, "f32[4, 3, 3, 3]", "f32[3]"}), HasSubstr("bias"));
  EXPECT_THAT(
      Infer("max_pool2d", {image}, {{"kernel", Ints{17, 17}}, {"padding", Ints{8, 8, 8, 8}}}),
      HasSubstr("256 positions"));
  EXPECT_THAT(Infer("max_pool2d", {image}, {{"kernel", Ints{2, 2}}, {"padding", Ints{2, 0, 0, 0}}}),
              HasSubstr("must be smaller"));
  EXPECT_THAT(Infer("batch_norm", {"bf16[B, 3]", "bf16[3]", "bf16[3]", "bf16[3]", "f32[3]"}),
              HasSubstr("running_mean"));
  EXPECT_THAT(Infer("layer_norm", {"f32[B, 3]", "f32[4]"}), HasSubstr("gamma"));
  EXPECT_THAT(Infer("cross_entropy", {"f32[B, 3]", "i64[B]"}), HasSubstr("labels"));
  EXPECT_THAT(Infer("embedding", {"f32[B]", "f32[4, 3]"}), HasSubstr("want i32"));
  EXPECT_THAT(Infer("attention", {"f32[B, T, 30]"}, {{"heads", int64_t{4}}}),
              HasSubstr("multiple of heads"));
  EXPECT_THAT(
      Infer("attention", {"f32[B, T, 32]"}, {{"heads", int64_t{4}}, {"kv_heads", int64_t{3}}}),
      HasSubstr("multiple of kv_heads"));
  EXPECT_THAT(Infer("rope", {"f32[B, T, 9]"}, {{"heads", int64_t{1}}}), HasSubstr("even"));
}

double Flops(const std::string& op, const std::vector<std::string>& inputs,
             const Attributes& attrs) {
  const OpDef* def = BuiltinOps()->Find(op);
  std::vector<TensorType> types;
  for (const std::string& text : inputs) types.push_back(*TensorType::Parse(text));
  const auto outputs = def->infer({types, attrs});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return DefaultCost(*def, {types, attrs}, *outputs).flops;
}

TEST(NnCosts, CountMultiplicationsAndAdditions) {
  EXPECT_EQ(Flops("conv2d", {"f32[2, 8, 8, 4]", "f32[6, 2, 3, 3]"}, {{"groups", int64_t{2}}}),
            2.0 * (2 * 6 * 6 * 6) * (2 * 3 * 3));
  const Attributes heads = {{"heads", int64_t{2}}, {"causal", false}};
  EXPECT_EQ(Flops("attention", {"f32[3, 16, 24]"}, heads), 3 * 2 * 2 * (2.0 * 16 * 16 * 4));
  // A causal row t sees t + 1 keys.
  EXPECT_EQ(Flops("attention", {"f32[3, 16, 24]"}, {{"heads", int64_t{2}}}),
            3 * 2 * 2 * (2.0 * 16 * 17 / 2 * 4));
}

TEST(NnGradients, SavedOutputsHaveNone) {
  GraphBuilder b("saved");
  const Val x = b.Parameter("x", {DType::kF32, {4, 3}}, {});
  const std::vector<Val> y = b.OpN("layer_norm", {x});
  const Val labels = b.Data("labels", {DType::kI32, {4}});
  b.Loss(b.ReduceSum(y[2], {}), b.Op("count_valid", {labels}));
  const auto graph = b.Finish();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(std::string(Differentiate(*graph).status().message()),
              HasSubstr("has no gradient of its own"));
}

}  // namespace
}  // namespace oc
