#include "openclaw/core/safetensors.h"

#include <numeric>

#include "openclaw/core/crc32c.h"

#include "../runtime/test_files.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;
using testing::Raw;
using testing::TempDir;

// A file with the given header and `data_bytes` zero bytes.
std::string WithHeader(const std::string& header, size_t data_bytes) {
  return Raw<uint64_t>({header.size()}) + header + std::string(data_bytes, '\0');
}

Tensor Counting(DType dtype, const Shape& shape) {
  Tensor tensor({dtype, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set(i, static_cast<double>(i % 100));
  return tensor;
}

TEST(Crc32c, MatchesPublishedValues) {
  const std::string digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(zeros), 0x8a9136aau);
  const auto all = std::as_bytes(std::span(digits));
  EXPECT_EQ(Crc32c(all.subspan(4), Crc32c(all.first(4))), 0xe3069283u);
}

TEST(Safetensors, RoundTripsEveryDType) {
  TempDir dir;
  std::vector<SafetensorsEntry> entries;
  std::vector<Tensor> tensors;
  for (DType dtype : {DType::kBool, DType::kU8, DType::kBF16, DType::kF16, DType::kF32, DType::kI32,
                      DType::kF64, DType::kI64}) {
    tensors.push_back(Counting(dtype, {3, 5}));
    entries.push_back({Name(dtype), tensors.back().type()});
  }
  tensors.push_back(Counting(DType::kF32, {}));
  entries.push_back({"scalar", tensors.back().type()});
  tensors.push_back(Counting(DType::kF32, {0, 7}));
  entries.push_back({"none", tensors.back().type()});

  const std::string path = dir.File("all.safetensors");
  auto writer = SafetensorsWriter::Create(path, entries, {{"step", "3"}});
  ASSERT_OK(writer);
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_OK(writer->Write(entries[i].name, tensors[i].bytes()));
  }
  ASSERT_OK(writer->Finish());

  auto reader = SafetensorsReader::Open(path);
  ASSERT_OK(reader);
  EXPECT_EQ(reader->file_bytes(), writer->file_bytes());
  EXPECT_EQ(reader->metadata().at("step"), "3");
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto tensor = reader->Read(entries[i].name);
    ASSERT_OK(tensor);
    EXPECT_EQ(tensor->type(), entries[i].type);
    EXPECT_TRUE(std::equal(tensor->bytes().begin(), tensor->bytes().end(),
                           tensors[i].bytes().begin(), tensors[i].bytes().end()));
    EXPECT_EQ(reader->Find(entries[i].name)->offset % SizeInBytes(tensor->dtype()), 0);
  }
}

TEST(Safetensors, WritesTheFormatThatOthersRead) {
  TempDir dir;
  const Tensor tensor = Tensor::Of<float>({2}, {1.5f, -2});
  const std::string path = dir.File("x");
  auto writer = SafetensorsWriter::Create(path, {{"w", tensor.type()}}, {});
  ASSERT_OK(writer);
  ASSERT_OK(writer->Write("w", tensor.bytes()));
  ASSERT_OK(writer->Finish());
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.append(64 - 8 - header.size(), ' ');
  EXPECT_EQ(testing::ReadFile(path),
            Raw<uint64_t>({header.size()}) + header + Raw<float>({1.5f, -2}));
}

TEST(Safetensors, WritesAndReadsParts) {
  TempDir dir;
  const Tensor tensor = Counting(DType::kI32, {10, 3});
  auto writer = SafetensorsWriter::Create(dir.File("x"), {{"t", tensor.type()}}, {});
  ASSERT_OK(writer);
  EXPECT_OK(writer->Write("t", tensor.bytes().subspan(60), 60));
  ExpectError(writer->Finish(), StatusCode::kFailedPrecondition, "60 of 120 bytes of t");
  EXPECT_OK(writer->Write("t", tensor.bytes().first(60)));
  ExpectError(writer->Write("t", tensor.bytes(), 4), StatusCode::kInvalidArgument, "do not fit");
  ExpectError(writer->Write("u", tensor.bytes()), StatusCode::kInvalidArgument, "no tensor 'u'");
  ASSERT_OK(writer->Finish());

  auto reader = SafetensorsReader::Open(dir.File("x"));
  ASSERT_OK(reader);
  Tensor rows({DType::kI32, {4, 3}});
  EXPECT_OK(reader->ReadRows("t", 5, 9, rows.bytes()));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(rows.at(i), 15 + static_cast<double>(i));
  ExpectError(reader->ReadRows("t", 7, 11, rows.bytes()), StatusCode::kInvalidArgument,
              "rows 7 to 11 of 't'");
  ExpectError(reader->ReadRows("t", 5, 8, rows.bytes()), StatusCode::kInvalidArgument, "48 bytes");
  ExpectError(reader->Read("u"), StatusCode::kInvalidArgument, "no tensor 'u'");
}

TEST(Safetensors, RefusesBadDeclarations) {
  TempDir dir;
  const auto create = [&](std::vector<SafetensorsEntry> entries) {
    return SafetensorsWriter::Create(dir.File("x"), std::move(entries), {}).status();
  };
  const TensorType type{DType::kF32, {2}};
  ExpectError(create({{"a", type}, {"a", type}}), StatusCode::kInvalidArgument, "twice");
  ExpectError(create({{"a", {DType::kF32, {Dim("B")}}}}), StatusCode::kInvalidArgument,
              "not bound");
  EXPECT_FALSE(SafetensorsWriter::Create(dir.File("no/x"), {{"a", type}}, {}).ok());
}

TEST(Safetensors, RefusesBrokenFiles) {
  TempDir dir;
  const auto open = [&](const std::string& bytes) {
    return SafetensorsReader::Open(dir.Write("x", bytes)).status();
  };
  const std::string w = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_OK(open(WithHeader(w, 8)));
  EXPECT_OK(open(WithHeader("{}", 0)));
  ExpectError(SafetensorsReader::Open(dir.File("absent")), StatusCode::kInvalidArgument,
              "No such file");
  ExpectError(open(""), StatusCode::kDataLoss, "0 bytes are too few");
  ExpectError(open("this is a text file"), StatusCode::kInvalidArgument, "not a safetensors file");
  ExpectError(open(WithHeader(w, 8).substr(0, 40)), StatusCode::kDataLoss, "cut off in its header");
  ExpectError(open(WithHeader(w, 5)), StatusCode::kDataLoss, "cut off: tensor 'w' ends at byte");
  ExpectError(open(WithHeader(w, 9)), StatusCode::kInvalidArgument, "1 bytes after the last");
  ExpectError(open(WithHeader("{\"w\": 3", 0)), StatusCode::kDataLoss, "no JSON object");
  ExpectError(open(WithHeader("[1]", 0)), StatusCode::kDataLoss, "no JSON object");

  const auto refuse = [&](const std::string& header, size_t bytes, const std::string& text) {
    ExpectError(open(WithHeader(header, bytes)), StatusCode::kInvalidArgument, text);
  };
  refuse(R"({"w":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8,
         "tensor 'w': dtype 'Q4' is unknown; known are F32");
  refuse(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
         "f32[3] takes 12 bytes, its data_offsets give 8");
  refuse(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "bad size");
  refuse(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0]}})",
         0, "too large");
  refuse(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "out of order");
  refuse(R"({"w":{"dtype":"F32","shape":[2]}})", 8, "needs data_offsets");
  refuse(R"({"w":[]})", 0, "tensor 'w': needs dtype");
  refuse(R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},
             "b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
         8, "tensor 'b' begins at byte");
  refuse(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
             "b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
         8, "a gap after");
  refuse(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
             "a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
         2, "two tensors are called 'a'");
}

}  // namespace
}  // namespace oc
