// .oc files: round trips, and everything that can be wrong with one.
#include "openclaw/graph/file/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "openclaw/core/crc32c.h"
#include "openclaw/core/rng.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/file/encode.h"
#include "openclaw/graph/initialize.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/text/printer.h"

namespace oc {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GraphFileTest : public ::testing::Test {
 protected:
  GraphFileTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("graph_file_", info->name(), "_", getpid());
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "model.oc").string();
  }
  ~GraphFileTest() override { std::filesystem::remove_all(folder_); }

  std::string ReadAll() const {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void Write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // A file with one graph section of the given content.
  void WriteSection(const std::string& content, uint32_t type = 1) const {
    const uint64_t length = content.size();
    std::string head(reinterpret_cast<const char*>(&type), 4);
    std::string size(reinterpret_cast<const char*>(&length), 8);
    const std::string covered = head + size + content;
    const uint32_t crc = Crc32c(std::as_bytes(std::span(covered)));
    const uint32_t version = 1, sections = 1;
    std::string bytes = "OPENCLAW";
    bytes.append(reinterpret_cast<const char*>(&version), 4);
    bytes.append(reinterpret_cast<const char*>(&sections), 4);
    bytes += head;
    bytes.append(reinterpret_cast<const char*>(&crc), 4);
    Write(bytes + size + content);
  }
  void ExpectError(StatusCode code, const std::string& message) const {
    const Status status = LoadGraph(path_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr(message)));
  }

  std::filesystem::path folder_;
  std::string path_;
};

// A file of less than a kilobyte.
Graph TinyModel() {
  GraphBuilder b("tiny");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 2}});
  const Val w = b.Parameter("w", {DType::kF32, {3, 2}}, Initializer::Normal(0, 1));
  b.PushScope("fc");
  b.Output("y", b.Linear(x, w));
  return *b.Finish();
}

Graph SmallModel() {
  return *models::Mlp({.input = {2, 2, 1}, .hidden = {3}, .classes = 2, .dropout = 0.5});
}

std::vector<std::pair<std::string, Tensor>> Weights(const Graph& graph) {
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const Variable& v : graph.parameters) {
    const Value& value = graph.value(v.value);
    Tensor t(value.type);
    OC_CHECK(Initialize(v.init, value.name, 1, value.type, t.bytes()).ok());
    weights.emplace_back(value.name, t);
  }
  return weights;
}

TEST_F(GraphFileTest, GraphsRoundTrip) {
  const Graph forward[] = {
      SmallModel(),
      *models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2}),
      *models::Gpt2({.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11})};
  for (const Graph& model : forward) {
    for (const Graph& graph : {model, *Differentiate(model)}) {
      ASSERT_TRUE(SaveGraph(path_, graph).ok());
      const auto loaded = LoadGraph(path_);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(Print(loaded->graph), Print(graph));
      EXPECT_FALSE(loaded->weights.has_value());
      for (size_t i = 0; i < graph.values.size(); ++i) {
        EXPECT_EQ(loaded->graph.values[i].name, graph.values[i].name);
        EXPECT_EQ(loaded->graph.values[i].opaque, graph.values[i].opaque);
      }
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(GraphFileTest, WeightsRoundTrip) {
  const Graph graph = SmallModel();
  const auto weights = Weights(graph);
  ASSERT_TRUE(SaveGraph(path_, graph, weights).ok());
  const auto loaded = LoadGraph(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->weights.has_value());
  EXPECT_EQ(loaded->weights->entries().size(), weights.size());
  for (const auto& [name, tensor] : weights) {
    const auto read = loaded->weights->Read(name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->type(), tensor.type());
    EXPECT_TRUE(std::equal(read->bytes().begin(), read->bytes().end(), tensor.bytes().begin()));
  }
}

// A writer of its own may leave initial values out: then the weights must have them.
TEST_F(GraphFileTest, AVariableNeedsAnInitialValueOrAWeight) {
  GraphBuilder b("tiny");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 2}});
  const Val w = b.Parameter("w", {DType::kF32, {3, 2}}, Initializer::Constant(0));
  b.Output("y", b.Linear(x, w));
  const Graph graph = *b.Finish();
  std::string bytes = *EncodeGraph(graph);
  const std::string variable = {0x22, 6, 8, 1, 0x12, 0, 0x18, 1};  // value 1, init {}, decay
  ASSERT_NE(bytes.find(variable), std::string::npos);
  bytes.replace(bytes.find(variable), variable.size(), {0x22, 4, 8, 1, 0x18, 1});
  WriteSection(bytes);
  ExpectError(StatusCode::kInvalidArgument,
              "variable w of graph tiny has neither an initial value nor a weight");

  // The same graph section before the weights section of a whole file.
  const std::string head = ReadAll();
  ASSERT_TRUE(SaveGraph(path_, graph, Weights(graph)).ok());
  std::string whole = ReadAll();
  const std::string kept = whole.substr(16 + 16 + EncodeGraph(graph)->size());
  Write(whole.substr(0, 16) + head.substr(16) + kept);
  const auto loaded = LoadGraph(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_NE(loaded->weights->Find("w"), nullptr);
}

TEST_F(GraphFileTest, NamesMayBeAnyBytes) {
  GraphBuilder b("\xff\xfe");
  b.PushScope("b\xfc");
  b.Output("\x80", b.Relu(b.Data("\xe4", {DType::kF32, {2}})));
  const Graph graph = *b.Finish();
  ASSERT_TRUE(SaveGraph(path_, graph).ok());
  EXPECT_EQ(Print(LoadGraph(path_)->graph), Print(graph));
}

TEST_F(GraphFileTest, SavesOnlyWhatLoads) {
  const Graph graph = SmallModel();
  auto weights = Weights(graph);
  weights[0].first = "stranger";
  EXPECT_THAT(SaveGraph(path_, graph, weights).ToString(), HasSubstr("stranger is no parameter"));
  weights = Weights(graph);
  weights[0].second = Tensor({DType::kF32, {1}});
  EXPECT_THAT(SaveGraph(path_, graph, weights).ToString(), HasSubstr("f32[1]"));
  weights = Weights(graph);
  weights.push_back(weights[0]);
  EXPECT_FALSE(SaveGraph(path_, graph, weights).ok());
  Graph damaged = graph;
  damaged.nodes[0].inputs[0] = 999;
  EXPECT_FALSE(SaveGraph(path_, damaged).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
  EXPECT_FALSE(SaveGraph((folder_ / "no" / "folder" / "x.oc").string(), graph).ok());
}

TEST_F(GraphFileTest, WrongFiles) {
  EXPECT_EQ(LoadGraph(path_).status().code(), StatusCode::kInvalidArgument);  // there is none
  Write("PK\x03\x04 something else");
  ExpectError(StatusCode::kInvalidArgument, "not a .oc file");
  Write("");
  ExpectError(StatusCode::kDataLoss, "cut off");
  Write("OPENCLAW");
  ExpectError(StatusCode::kDataLoss, "cut off");
  ASSERT_TRUE(SaveGraph(path_, SmallModel()).ok());
  const std::string good = ReadAll();
  std::string bytes = good;
  bytes[8] = 9;
  Write(bytes);
  ExpectError(StatusCode::kInvalidArgument, "version 9, known is version 1");
  bytes = good;
  bytes[good.size() - 1] ^= 1;
  Write(bytes);
  ExpectError(StatusCode::kDataLoss, "checksum of its graph differs");
  Write(good + "x");
  ExpectError(StatusCode::kDataLoss, "1 bytes after the last section");
  bytes = good;
  bytes.replace(24, 8, std::string(8, '\x7f'));  // the section's length
  Write(bytes);
  ExpectError(StatusCode::kDataLoss, "cut off: section 1 has 9187201950435737471 bytes");
  WriteSection("\x01\x02\x03garbage");
  ExpectError(StatusCode::kDataLoss, "no graph message");
  WriteSection("anything", 77);
  ExpectError(StatusCode::kInvalidArgument, "holds no graph");
}

// What a graph message may say that no builder lets through.
TEST_F(GraphFileTest, WrongGraphs) {
  const auto expect = [&](const std::string& message, auto change) {
    std::shared_ptr<OpRegistry> ops = NewRegistryWithBuiltinOps();
    OpDef newer;
    newer.name = "newer";
    newer.version = 4;
    newer.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
      return args.inputs;
    };
    OC_CHECK(ops->Add(newer).ok());
    newer.name = "rleu";
    OC_CHECK(ops->Add(newer).ok());
    GraphBuilder b("odd", ops);
    const Val x = b.Data("x", {DType::kF32, {2}});
    change(b, x);
    std::string bytes = *EncodeGraph(*b.Finish());
    WriteSection(bytes);
    ExpectError(StatusCode::kInvalidArgument, message);
  };
  expect("unknown op 'rleu'; did you mean 'relu'?",
         [](GraphBuilder& b, Val x) { b.Op("rleu", {x}); });
  expect("unknown op 'newer'", [](GraphBuilder& b, Val x) { b.Op("newer", {x}); });

  // The bytes of a right message, with one part replaced by another of the same length.
  GraphBuilder b("g");
  const Val x = b.Data("x", {DType::kF32, {5}});
  const Val y = b.Op("cast", {x}, {{"dtype", DType::kBF16}});
  b.Output("y", b.Op("copy", {y}));
  const std::string good = *EncodeGraph(*b.Finish());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    OC_CHECK(at != std::string::npos);
    WriteSection(bytes.replace(at, from.size(), to));
  };
  replaced(std::string("\x22\x01\x01", 3), std::string("\x22\x01\x02", 3));  // outputs: 1 -> 2
  ExpectError(StatusCode::kInvalidArgument, "has another producer");
  replaced(std::string("\x1a\x01\x00", 3), std::string("\x1a\x01\x02", 3));  // inputs: 0 -> 2
  ExpectError(StatusCode::kInvalidArgument, "a cycle, or nodes out of order");
  replaced(std::string("\x1a\x01\x00", 3), std::string("\x1a\x01\x63", 3));  // inputs: 0 -> 99
  ExpectError(StatusCode::kInvalidArgument, "reads value 99");
  replaced(std::string("\x10\x01", 2), std::string("\x10\x02", 2));  // cast's version
  ExpectError(StatusCode::kInvalidArgument, "a newer release wrote it");
  replaced(std::string("\x40\x02", 2), std::string("\x40\x63", 2));  // the attribute's dtype
  ExpectError(StatusCode::kInvalidArgument, "unknown dtype number 99");
  replaced(std::string("\x08\x05", 2), std::string("\x08\x06", 2));  // x is f32[6]: y cannot be [5]
  ExpectError(StatusCode::kInvalidArgument, "its op gives bf16[6]");
  replaced("dtype", "dtyqe");
  ExpectError(StatusCode::kInvalidArgument, "unknown attribute dtyqe");
}

TEST_F(GraphFileTest, AVersionOfAnOpThatIsNewerIsAnError) {
  const auto registry = [](int version) {
    std::shared_ptr<OpRegistry> ops = NewRegistryWithBuiltinOps();
    OpDef def;
    def.name = "mine";
    def.version = version;
    def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
      return args.inputs;
    };
    OC_CHECK(ops->Add(def).ok());
    return ops;
  };
  GraphBuilder b("g", registry(2));
  b.Output("y", b.Op("mine", {b.Data("x", {DType::kF32, {5}})}));
  ASSERT_TRUE(SaveGraph(path_, *b.Finish()).ok());
  EXPECT_TRUE(LoadGraph(path_, registry(2)).ok());
  EXPECT_THAT(LoadGraph(path_, registry(1)).status().ToString(),
              AllOf(HasSubstr("op mine is of version 2, known is version 1"), HasSubstr("newer")));
}

TEST_F(GraphFileTest, EveryTruncationIsAnError) {
  const Graph graph = TinyModel();
  ASSERT_TRUE(SaveGraph(path_, graph, Weights(graph)).ok());
  const std::string good = ReadAll();
  for (size_t size = 0; size < good.size(); ++size) {
    Write(good.substr(0, size));
    const Status status = LoadGraph(path_).status();
    ASSERT_FALSE(status.ok()) << size;
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size << status;
  }
}

TEST_F(GraphFileTest, EveryFlippedByteIsAnErrorOrChangesNothing) {
  const Graph graph = TinyModel();
  ASSERT_TRUE(SaveGraph(path_, graph, Weights(graph)).ok());
  const std::string good = ReadAll();
  const Philox rng(5);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 + rng.Word(1, at) % 255));
    Write(bytes);
    const auto loaded = LoadGraph(path_);
    ASSERT_FALSE(loaded.ok()) << at;
    ASSERT_TRUE(loaded.status().code() == StatusCode::kDataLoss ||
                loaded.status().code() == StatusCode::kInvalidArgument)
        << at << loaded.status();
  }
}

// With a right checksum around it: what somebody might craft.
TEST_F(GraphFileTest, DamagedMessagesNeverCrash) {
  const Philox rng(6);
  std::vector<std::string> messages;
  for (const Graph& model :
       {SmallModel(), *models::LeNet({.input = {12, 12, 1}, .classes = 3}),
        *models::Gpt2({.layers = 1, .width = 4, .heads = 2, .context = 3, .vocabulary = 5}),
        *models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2})}) {
    messages.push_back(*EncodeGraph(*Differentiate(model)));
  }
  int accepted = 0;
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string bytes = messages[rng.Word(round, 0) % messages.size()];
    for (uint64_t change = 0; change <= rng.Word(round, 1) % 3; ++change) {
      bytes[rng.Word(round, 2 + 2 * change) % bytes.size()] =
          static_cast<char>(rng.Word(round, 3 + 2 * change));
    }
    const auto graph = DecodeGraph(bytes, BuiltinOps());
    if (graph.ok()) {
      ++accepted;
      EXPECT_TRUE(Verify(*graph).ok());
      const auto again = EncodeGraph(*graph);
      if (again.ok()) {
        EXPECT_TRUE(DecodeGraph(*again, BuiltinOps()).ok());
      }
    }
  }
  EXPECT_LT(accepted, 1500);
}

}  // namespace
}  // namespace oc
