// IDX, text and token files: what they give, and how broken ones are refused.
#include <zlib.h>

#include <cmath>
#include <filesystem>

#include "openclaw/runtime/data/idx.h"
#include "openclaw/runtime/data/micro_batch.h"
#include "openclaw/runtime/data/open.h"
#include "openclaw/runtime/data/tokens.h"
#include "test_files.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;
using testing::Idx;
using testing::Raw;
using testing::TempDir;

std::string Gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

template <typename T>
std::vector<T> Values(const MicroBatch& batch, int feature) {
  const auto bytes = batch.bytes(feature);
  const T* data = reinterpret_cast<const T*>(bytes.data());
  return {data, data + bytes.size() / sizeof(T)};
}

// The rows of one feature of some samples.
template <typename T>
std::vector<T> ReadAll(const Dataset& dataset, int feature, const std::vector<int64_t>& indices) {
  MicroBatch batch(dataset, static_cast<int64_t>(indices.size()));
  const Status status = batch.Fill(indices);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return Values<T>(batch, feature);
}

TEST(Idx, GivesNormalisedImagesAndLabels) {
  TempDir dir;
  const std::string images = dir.Write("images", Idx({2, 2, 1}, {0, 255, 255, 0}));
  const std::string labels = Gzip(dir.File("labels.gz"), Idx({2}, {3, 1}));
  auto dataset = IdxDataset::Open(images, labels, {});
  ASSERT_OK(dataset);
  EXPECT_EQ((*dataset)->size(), 2);
  EXPECT_EQ((*dataset)->classes(), 4);
  EXPECT_EQ((*dataset)->features()[0].type.ToString(), "f32[2, 1, 1]");
  EXPECT_EQ((*dataset)->features()[1].type.ToString(), "i32[]");
  // Mean and deviation of {0, 1, 1, 0} are both one half.
  EXPECT_EQ(ReadAll<float>(**dataset, 0, {1, 0}), (std::vector<float>{1, -1, -1, 1}));
  EXPECT_EQ(ReadAll<int32_t>(**dataset, 1, {1, 0}), (std::vector<int32_t>{1, 3}));
}

TEST(Idx, TakesChannelsAndAGivenNormalisation) {
  TempDir dir;
  const std::string images = dir.Write("images", Idx({1, 1, 1, 3}, {0, 51, 255}));
  const std::string labels = dir.Write("labels", Idx({1}, {0}));
  auto dataset =
      IdxDataset::Open(images, labels, {.classes = 7, .normalisation = Normalisation{0.0, 0.5}});
  ASSERT_OK(dataset);
  EXPECT_EQ((*dataset)->classes(), 7);
  EXPECT_EQ(ReadAll<float>(**dataset, 0, {0}), (std::vector<float>{0, 0.4f, 2}));
}

TEST(Idx, RefusesBrokenFiles) {
  TempDir dir;
  const std::string good = Idx({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectError(ReadIdx(dir.File("absent")), StatusCode::kInvalidArgument, "no such file");
  ExpectError(ReadIdx(dir.path()), StatusCode::kInvalidArgument, "no such file");
  ExpectError(ReadIdx(dir.Write("empty", "")), StatusCode::kDataLoss, "too short");
  ExpectError(ReadIdx(dir.Write("text", "hello, world")), StatusCode::kInvalidArgument,
              "not an IDX file");
  ExpectError(ReadIdx(dir.Write("floats", Idx({1}, {0, 0, 0, 0}, 0x0D))),
              StatusCode::kInvalidArgument, "holds floats");
  ExpectError(ReadIdx(dir.Write("header", good.substr(0, 9))), StatusCode::kDataLoss,
              "cut off in its header");
  ExpectError(ReadIdx(dir.Write("short", good.substr(0, good.size() - 3))), StatusCode::kDataLoss,
              "but only 5 are there");
  ExpectError(ReadIdx(dir.Write("long", good + "x")), StatusCode::kDataLoss, "longer than");
  ExpectError(ReadIdx(dir.Write("huge", Idx({1 << 30, 1 << 30, 1 << 30}, {1}))),
              StatusCode::kDataLoss, "cannot hold that");
  EXPECT_OK(ReadIdx(dir.Write("good", good)));
}

TEST(Idx, RefusesBrokenGzipStreams) {
  TempDir dir;
  std::vector<uint8_t> noise(5000);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 31 >> 3);
  const std::string path = Gzip(dir.File("good.gz"), Idx({50, 10, 10}, noise));
  EXPECT_OK(ReadIdx(path));
  const std::string bytes = testing::ReadFile(path);
  ExpectError(ReadIdx(dir.Write("cut.gz", bytes.substr(0, bytes.size() / 2))),
              StatusCode::kDataLoss, "cut off");
  ExpectError(ReadIdx(dir.Write("trailer.gz", bytes.substr(0, bytes.size() - 5))),
              StatusCode::kDataLoss, "cut off");
  std::string flipped = bytes;
  flipped[bytes.size() - 6] ^= 1;  // the stream's checksum
  EXPECT_EQ(ReadIdx(dir.Write("flipped.gz", flipped)).status().code(), StatusCode::kDataLoss);
}

TEST(Idx, RefusesPairsThatDoNotFit) {
  TempDir dir;
  const std::string images = dir.Write("images", Idx({2, 1, 1}, {1, 2}));
  const std::string labels = dir.Write("labels", Idx({2}, {0, 11}));
  const std::string three = dir.Write("three", Idx({3}, {0, 1, 2}));
  ExpectError(IdxDataset::Open(labels, images, {}), StatusCode::kInvalidArgument, "swapped?");
  ExpectError(IdxDataset::Open(images, three, {}), StatusCode::kInvalidArgument,
              "2 images in " + images + " but 3 labels in " + three);
  ExpectError(IdxDataset::Open(images, labels, {.classes = 10}), StatusCode::kInvalidArgument,
              labels + ": label 11 of sample 1 is beyond the 10 classes");
  const std::string no_images = dir.Write("i0", Idx({0, 1, 1}, {}));
  const std::string no_labels = dir.Write("l0", Idx({0}, {}));
  ExpectError(IdxDataset::Open(no_images, no_labels, {}), StatusCode::kInvalidArgument, "none");
}

TEST(Text, GivesShiftedWindowsOverSeveralFiles) {
  TempDir dir;
  const std::string a = dir.Write("a", "abcde"), empty = dir.Write("e", ""),
                    b = dir.Write("b", "fghij");
  auto dataset = TokenDataset::OpenText({a, empty, b}, {.context = 4});
  ASSERT_OK(dataset);
  EXPECT_EQ((*dataset)->vocabulary(), 256);
  EXPECT_EQ((*dataset)->num_tokens(), 10);
  EXPECT_EQ((*dataset)->size(), 2);  // 9 targets
  EXPECT_EQ(ReadAll<int32_t>(**dataset, 0, {0, 1}),
            (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}));
  EXPECT_EQ(ReadAll<int32_t>(**dataset, 1, {0, 1}),
            (std::vector<int32_t>{'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}));
}

TEST(Text, RefusesWhatCannotBeTrainedOn) {
  TempDir dir;
  const std::string text = dir.Write("t", "abcd\x80xyz");
  ExpectError(TokenDataset::OpenText({}, {.context = 4}), StatusCode::kInvalidArgument, "no files");
  ExpectError(TokenDataset::OpenText({dir.File("absent")}, {.context = 4}),
              StatusCode::kInvalidArgument, dir.File("absent") + ": No such file");
  ExpectError(TokenDataset::OpenText({dir.path()}, {.context = 4}), StatusCode::kInvalidArgument,
              "not a regular file");
  ExpectError(TokenDataset::OpenText({text}, {.context = 8}), StatusCode::kInvalidArgument,
              "8 tokens, a sample of context 8 needs 9");
  ExpectError(TokenDataset::OpenText({text}, {.context = 0}), StatusCode::kInvalidArgument,
              "context");
  ExpectError(TokenDataset::OpenText({text}, {.context = 4, .vocabulary = 128}),
              StatusCode::kInvalidArgument,
              text + ": token 128 at byte 4 is beyond the vocabulary of 128");
}

std::string Header(int32_t version, int32_t count) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = version;
  header[2] = count;
  return Raw(header);
}

TEST(Tokens, ReadsRawFilesAndThoseOfLlmC) {
  TempDir dir;
  const std::string raw = dir.Write("raw.bin", Raw<uint16_t>({1, 50256, 3}));
  const std::string headed = dir.Write("h.bin", Header(1, 2) + Raw<uint16_t>({4, 5}));
  auto dataset = TokenDataset::OpenBin({raw, headed}, {.context = 2});
  ASSERT_OK(dataset);
  EXPECT_EQ((*dataset)->vocabulary(), 50257);
  EXPECT_EQ(ReadAll<int32_t>(**dataset, 0, {1, 0}), (std::vector<int32_t>{3, 4, 1, 50256}));
  EXPECT_EQ(ReadAll<int32_t>(**dataset, 1, {1, 0}), (std::vector<int32_t>{4, 5, 50256, 3}));
}

TEST(Tokens, RefusesBrokenFiles) {
  TempDir dir;
  const auto open = [&](const std::string& bytes) {
    return TokenDataset::OpenBin({dir.Write("x.bin", bytes)}, {.context = 1, .vocabulary = 100});
  };
  const std::string two = Raw<uint16_t>({4, 5});
  EXPECT_OK(open(Header(1, 2) + two));
  ExpectError(open("abc"), StatusCode::kInvalidArgument, "no whole number of 16-bit tokens");
  ExpectError(open(Header(1, 2).substr(0, 600)), StatusCode::kDataLoss, "cut off in its header");
  ExpectError(open(Header(2, 2) + two), StatusCode::kInvalidArgument, "version 2");
  ExpectError(open(Header(1, 3) + two), StatusCode::kDataLoss, "cut off");
  ExpectError(open(Header(1, 1) + two), StatusCode::kDataLoss, "too long");
  ExpectError(open(Raw<int32_t>({20240801, 7, 1})), StatusCode::kInvalidArgument, "32-bit tokens");
  ExpectError(open(Header(1, 2) + Raw<uint16_t>({4, 100})), StatusCode::kInvalidArgument,
              "x.bin: token 100 at byte 1026 is beyond the vocabulary of 100");
}

TEST(Tokens, UnigramEntropy) {
  EXPECT_DOUBLE_EQ(UnigramEntropy(std::vector<int64_t>{5, 5, 0, 5, 5}), std::log(4.0));
  EXPECT_DOUBLE_EQ(UnigramEntropy(std::vector<int64_t>{0, 7}), 0.0);
}

TEST(MicroBatch, NamesTheSampleThatCannotBeRead) {
  class Broken : public Dataset {
   public:
    Broken() : Dataset({{"x", {DType::kU8, {Dim(2)}}}}) {}
    int64_t size() const override { return 10; }
    Status Read(int64_t index, Sample& sample) const override {
      if (index == 7) throw std::runtime_error("bad pixel");
      sample.row<uint8_t>(0)[0] = sample.row<uint8_t>(0)[1] = static_cast<uint8_t>(index);
      return OkStatus();
    }
  } dataset;
  MicroBatch batch(dataset, 3);
  EXPECT_OK(batch.Fill(std::vector<int64_t>{4, 9}));
  EXPECT_EQ(batch.samples(), 2);
  EXPECT_EQ(Values<uint8_t>(batch, 0), (std::vector<uint8_t>{4, 4, 9, 9}));
  EXPECT_EQ(batch.tensor(0).type().ToString(), "u8[3, 2]");
  ExpectError(batch.Fill(std::vector<int64_t>{6, 7}), StatusCode::kInternal,
              "read sample 7: exception: bad pixel");
  EXPECT_EQ(batch.samples(), 0);
}

TEST(OpenData, OpensTextAndNamesTheKeyOfAnError) {
  TempDir dir;
  DataConfig config{.format = "text", .train = {dir.Write("t", "aabbaabbaabb")}};
  auto data = OpenData(config, {.context = 4});
  ASSERT_OK(data);
  EXPECT_EQ(data->classes, 256);
  EXPECT_EQ(data->validation, nullptr);
  EXPECT_DOUBLE_EQ(*data->unigram_entropy, std::log(2.0));
  config.validation = {dir.Write("v", "cccccc")};
  data = OpenData(config, {.context = 4});
  ASSERT_OK(data);
  EXPECT_EQ(data->validation->size(), 1);
  EXPECT_DOUBLE_EQ(*data->unigram_entropy, 0.0);

  config.validation = {dir.File("absent")};
  ExpectError(OpenData(config, {.context = 4}), StatusCode::kInvalidArgument, "data.validation: ");
  config.train.clear();
  ExpectError(OpenData(config, {.context = 4}), StatusCode::kInvalidArgument, "data.train: ");
  config.format = "csv";
  ExpectError(OpenData(config, {}), StatusCode::kInvalidArgument, "'csv' is unknown");
}

TEST(OpenData, NormalisesValidationAsTraining) {
  TempDir dir;
  DataConfig config{.format = "idx",
                    .train_images = dir.Write("ti", Idx({2, 1, 2}, {0, 255, 255, 0})),
                    .train_labels = dir.Write("tl", Idx({2}, {0, 1})),
                    .validation_images = dir.Write("vi", Idx({1, 1, 2}, {255, 255})),
                    .validation_labels = dir.Write("vl", Idx({1}, {1}))};
  auto data = OpenData(config, {});
  ASSERT_OK(data);
  EXPECT_EQ(data->classes, 2);
  EXPECT_EQ(ReadAll<float>(*data->validation, 0, {0}), (std::vector<float>{1, 1}));
  dir.Write("vl", Idx({1}, {2}));
  ExpectError(OpenData(config, {}), StatusCode::kInvalidArgument, "label 2 of sample 0");
  dir.Write("vl", Idx({1}, {1}));
  dir.Write("vi", Idx({1, 2, 2}, {1, 2, 3, 4}));
  ExpectError(OpenData(config, {}), StatusCode::kInvalidArgument, "f32[2, 2, 1]");
  config.validation_images.clear();
  ExpectError(OpenData(config, {}), StatusCode::kInvalidArgument, "needs two files");
}

TEST(OpenData, ReadsFashionMnist) {
  const std::string root = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(root)) {
    GTEST_SKIP() << root << " is missing: install the package dataset-fashion-mnist";
  }
  DataConfig config{.format = "idx",
                    .train_images = root + "train-images-idx3-ubyte.gz",
                    .train_labels = root + "train-labels-idx1-ubyte.gz",
                    .validation_images = root + "t10k-images-idx3-ubyte.gz",
                    .validation_labels = root + "t10k-labels-idx1-ubyte.gz"};
  auto data = OpenData(config, {.classes = 10});
  ASSERT_OK(data);
  EXPECT_EQ(data->train->size(), 60000);
  EXPECT_EQ(data->validation->size(), 10000);
  EXPECT_EQ(data->train->features()[0].type.ToString(), "f32[28, 28, 1]");
  const auto& train = static_cast<const IdxDataset&>(*data->train);
  EXPECT_NEAR(train.normalisation().mean, 0.2860, 1e-4);  // as published
  EXPECT_NEAR(train.normalisation().stddev, 0.3530, 1e-4);
  EXPECT_EQ(ReadAll<int32_t>(train, 1, {0, 1, 2, 3}), (std::vector<int32_t>{9, 0, 0, 3}));
  ExpectError(OpenData(config, {.classes = 9}), StatusCode::kInvalidArgument,
              "label 9 of sample 0 is beyond the 9 classes");
}

}  // namespace
}  // namespace oc
