// Checkpoints of several writers: whole or not at all, and never silently wrong.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "openclaw/runtime/checkpoint/store.h"
#include "test_files.h"

namespace oc {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::ExpectError;
using testing::TempDir;

Tensor Counting(const Shape& shape, double start) {
  Tensor tensor({DType::kF32, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set(i, start + static_cast<double>(i));
  return tensor;
}

TensorSlice Rows(const std::string& name, const Tensor& tensor, int64_t begin, int64_t end) {
  const int64_t row = tensor.type().bytes() / NumRows(tensor.shape());
  return {name, tensor.type(), begin, end,
          tensor.bytes().subspan(begin * row, (end - begin) * row)};
}

void ExpectSame(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
}

// The state of a training at `step`, and how two ranks save it.
struct State {
  explicit State(int64_t step)
      : step(step),
        whole(Counting({4, 2}, static_cast<double>(step))),
        split(Counting({7, 3}, 100.0 * static_cast<double>(step))),
        scalar(Tensor::Of<int64_t>({}, {step})) {}
  Manifest manifest() const {
    Manifest m;
    m.step = step;
    m.seed = 42;
    m.data = {.samples = 128 * step, .dataset_size = 60000};
    m.optimizer = "adamw";
    m.schedule = "cosine";
    m.plan = R"({"stages":[1,2]})";
    m.config = "train: {steps: 10}\n";
    return m;
  }
  StatusOr<std::vector<ShardInfo>> WriteShards(const std::string& staging) const {
    OC_ASSIGN_OR_RETURN(
        ShardInfo a, WriteShard(staging, "rank-00000",
                                {TensorSlice::Whole("whole", whole), Rows("split", split, 0, 4)}));
    OC_ASSIGN_OR_RETURN(ShardInfo b,
                        WriteShard(staging, "rank-00001",
                                   {Rows("split", split, 4, 7), TensorSlice::Whole("n", scalar)}));
    // As it reaches rank 0.
    OC_ASSIGN_OR_RETURN(b, ShardInfo::FromJson(b.ToJson()));
    return std::vector{b, a};
  }
  StatusOr<std::string> Save(const std::string& dir, int keep = 0) const {
    OC_ASSIGN_OR_RETURN(const std::string staging, BeginCheckpoint(dir, step));
    OC_ASSIGN_OR_RETURN(const std::vector<ShardInfo> infos, WriteShards(staging));
    return CommitCheckpoint(dir, manifest(), infos, keep);
  }

  int64_t step;
  Tensor whole, split, scalar;
};

std::vector<std::string> Names(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void FlipByte(const std::string& path, int64_t from_end) {
  std::string bytes = testing::ReadFile(path);
  bytes[bytes.size() - from_end] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Checkpoint, RoundTripsShardsOfTwoRanks) {
  TempDir dir;
  const State state(120);
  const auto path = state.Save(dir.File("ck"));
  ASSERT_OK(path);
  EXPECT_EQ(*path, dir.File("ck/step-00000120"));
  EXPECT_EQ(Names(*path), (std::vector<std::string>{"manifest.json", "rank-00000.safetensors",
                                                    "rank-00001.safetensors"}));
  auto checkpoint = Checkpoint::Open(*path);
  ASSERT_OK(checkpoint);
  const Manifest& m = checkpoint->manifest();
  EXPECT_EQ(m.step, 120);
  EXPECT_EQ(m.seed, 42u);
  EXPECT_EQ(m.data.samples, 128 * 120);
  EXPECT_EQ(m.data.dataset_size, 60000);
  EXPECT_EQ(m.optimizer, "adamw");
  EXPECT_EQ(m.schedule, "cosine");
  EXPECT_EQ(m.plan, R"({"stages":[1,2]})");
  EXPECT_EQ(m.config, "train: {steps: 10}\n");
  EXPECT_OK(checkpoint->Verify());
  for (const auto& [name, tensor] : {std::pair<std::string, const Tensor&>("whole", state.whole),
                                     {"split", state.split},
                                     {"n", state.scalar}}) {
    const auto read = checkpoint->ReadTensor(name);
    ASSERT_OK(read);
    ExpectSame(*read, tensor);
  }
  // Rows over the border of the two files.
  Tensor rows({DType::kF32, {3, 3}});
  EXPECT_OK(checkpoint->ReadRows("split", 3, 6, rows.bytes()));
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(rows.at(i), state.split.at(9 + i));
  ExpectError(checkpoint->ReadTensor("absent"), StatusCode::kInvalidArgument, "'absent'");
  ExpectError(checkpoint->Read("whole", rows.bytes()), StatusCode::kInvalidArgument, "36 bytes");
}

TEST(Checkpoint, KeepsTheNewest) {
  TempDir dir;
  for (int64_t step : {5, 100000000, 20, 30}) ASSERT_OK(State(step).Save(dir.path(), 3));
  EXPECT_EQ(CheckpointSteps(dir.path()), (std::vector<int64_t>{20, 30, 100000000}));
  EXPECT_EQ(Names(dir.path()).size(), 3u);
  const auto newest = LatestCheckpoint(dir.path());
  ASSERT_OK(newest);
  EXPECT_EQ(*newest, dir.File("step-100000000"));
}

TEST(Checkpoint, ReplacesOneOfTheSameStep) {
  TempDir dir;
  ASSERT_OK(State(5).Save(dir.path()));
  State other(5);
  other.whole.set(0, -1);
  const auto path = other.Save(dir.path());
  ASSERT_OK(path);
  EXPECT_EQ(Names(dir.path()), (std::vector<std::string>{"step-00000005"}));
  auto checkpoint = Checkpoint::Open(*path);
  ASSERT_OK(checkpoint);
  EXPECT_EQ(checkpoint->ReadTensor("whole")->at(0), -1);
}

TEST(Checkpoint, RefusesShardsThatDoNotMakeAWhole) {
  TempDir dir;
  const State state(3);
  const std::string ck = dir.File("ck");
  const auto commit = [&](const std::vector<std::vector<TensorSlice>>& ranks) -> Status {
    OC_ASSIGN_OR_RETURN(const std::string staging, BeginCheckpoint(ck, 3));
    std::vector<ShardInfo> infos;
    for (const auto& slices : ranks) {
      OC_ASSIGN_OR_RETURN(ShardInfo info,
                          WriteShard(staging, absl::StrCat("rank-", infos.size()), slices));
      infos.push_back(info);
    }
    return CommitCheckpoint(ck, state.manifest(), infos, 0).status();
  };
  const Tensor& t = state.split;
  const auto invalid = StatusCode::kInvalidArgument;
  ExpectError(commit({{Rows("t", t, 0, 4)}, {Rows("t", t, 5, 7)}}), invalid, "rows up to 4 of 7");
  ExpectError(commit({{Rows("t", t, 0, 4)}}), invalid, "rows up to 4 of 7");
  ExpectError(commit({{Rows("t", t, 0, 4)}, {Rows("t", t, 3, 7)}}), invalid, "stored twice");
  ExpectError(commit({{TensorSlice::Whole("t", t)}, {TensorSlice::Whole("t", t)}}), invalid,
              "stored twice");
  ExpectError(commit({{Rows("t", t, 0, 4)}, {TensorSlice::Whole("t", state.whole)}}), invalid,
              "f32[4, 2] in rank-1");
  ExpectError(commit({{TensorSlice::Whole("t", t), TensorSlice::Whole("t", t)}}), invalid, "twice");
  TensorSlice wrong = TensorSlice::Whole("t", t);
  wrong.row_end = 6;
  ExpectError(commit({{wrong}}), invalid, "84 bytes for rows 0 to 6");
  EXPECT_TRUE(CheckpointSteps(ck).empty());

  // A rank's file that is gone when rank 0 commits.
  ASSERT_OK(BeginCheckpoint(ck, 3));
  auto infos = state.WriteShards(StagingPath(ck, 3));
  ASSERT_OK(infos);
  fs::remove(StagingPath(ck, 3) + "/rank-00001.safetensors");
  ExpectError(CommitCheckpoint(ck, state.manifest(), *infos, 0), StatusCode::kDataLoss,
              "rank-00001.safetensors");
  EXPECT_TRUE(CheckpointSteps(ck).empty());
}

TEST(Checkpoint, SkipsDamagedOnesAndSaysWhy) {
  TempDir dir;
  for (int64_t step = 1; step <= 5; ++step) ASSERT_OK(State(step).Save(dir.path()));
  const auto at = [&](int64_t step, const std::string& file) {
    return CheckpointPath(dir.path(), step) + "/" + file;
  };
  FlipByte(at(5, "rank-00000.safetensors"), 1);
  ExpectError(Checkpoint::Open(CheckpointPath(dir.path(), 5))->Verify(), StatusCode::kDataLoss,
              "the checksum of tensor ");
  fs::remove(at(4, "rank-00001.safetensors"));
  ExpectError(Checkpoint::Open(CheckpointPath(dir.path(), 4)), StatusCode::kDataLoss,
              "rank-00001.safetensors: No such file");
  fs::resize_file(at(3, "rank-00001.safetensors"), 150);
  ExpectError(Checkpoint::Open(CheckpointPath(dir.path(), 3)), StatusCode::kDataLoss, "cut off");
  std::string manifest = testing::ReadFile(at(2, "manifest.json"));
  dir.Write("step-00000002/manifest.json", manifest.substr(0, manifest.size() / 2));
  ExpectError(Checkpoint::Open(CheckpointPath(dir.path(), 2)), StatusCode::kDataLoss,
              "manifest.json");
  ::testing::internal::CaptureStderr();
  const auto newest = LatestCheckpoint(dir.path());
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_OK(newest);
  EXPECT_EQ(*newest, CheckpointPath(dir.path(), 1));
  for (int64_t step = 2; step <= 5; ++step) {
    EXPECT_THAT(
        log, ::testing::HasSubstr("skip damaged checkpoint " + CheckpointPath(dir.path(), step)));
  }
  fs::remove(at(1, "manifest.json"));
  ExpectError(LatestCheckpoint(dir.path()), StatusCode::kDataLoss, "every checkpoint in");
}

TEST(Checkpoint, NoticesAnotherFileInItsPlace) {
  TempDir dir;
  ASSERT_OK(State(1).Save(dir.path()));
  const std::string path = CheckpointPath(dir.path(), 1);
  fs::copy_file(path + "/rank-00000.safetensors", path + "/rank-00001.safetensors",
                fs::copy_options::overwrite_existing);
  ExpectError(Checkpoint::Open(path), StatusCode::kDataLoss, "the manifest says");
}

TEST(Checkpoint, SaysWhereThereIsNone) {
  TempDir dir;
  const auto none = LatestCheckpoint(dir.File("absent"));
  ASSERT_OK(none);
  EXPECT_FALSE(none->has_value());
  dir.Write("step-12", "");  // names of another form are not ours
  fs::create_directory(dir.File("step-0000000x"));
  EXPECT_FALSE(LatestCheckpoint(dir.path())->has_value());
  ExpectError(Checkpoint::Open(dir.path()), StatusCode::kInvalidArgument, "manifest.json");
}

TEST(Checkpoint, RefusesAManifestOfAnotherFormat) {
  ExpectError(Manifest::FromJson("{}"), StatusCode::kDataLoss, "not a checkpoint's manifest");
  ExpectError(Manifest::FromJson(R"({"format": "openclaw-checkpoint", "version": 2})"),
              StatusCode::kUnimplemented, "version 2");
  ExpectError(Manifest::FromJson(R"({"format": "openclaw-checkpoint", "version": 1})"),
              StatusCode::kDataLoss, "step");
  Manifest outside = State(1).manifest();
  outside.files = {{"../x", 3}};
  ExpectError(Manifest::FromJson(outside.ToJson()), StatusCode::kDataLoss, "leaves");
}

TEST(Checkpoint, StoringRankSpreadsAndAgrees) {
  std::vector<int> stored(8);
  for (int i = 0; i < 400; ++i) {
    const int rank = StoringRank("block." + std::to_string(i), {1, 3, 6});
    EXPECT_EQ(rank, StoringRank("block." + std::to_string(i), {1, 3, 6}));
    ++stored[rank];
  }
  EXPECT_EQ(stored[1] + stored[3] + stored[6], 400);
  for (int rank : {1, 3, 6}) EXPECT_GT(stored[rank], 80);
}

// A process that is killed while it saves, at many moments, leaves the checkpoints before it, and
// what it left behind goes with the next save.
TEST(Checkpoint, SurvivesAKillInTheMiddle) {
  TempDir dir;
  ASSERT_OK(State(1).Save(dir.path()));
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t step = 2;; ++step) {
        if (!State(step).Save(dir.path(), 3).ok()) _exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1370 * attempt));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    for (int64_t step : CheckpointSteps(dir.path())) {
      auto checkpoint = Checkpoint::Open(CheckpointPath(dir.path(), step));
      ASSERT_OK(checkpoint);
      EXPECT_OK(checkpoint->Verify());
      ExpectSame(*checkpoint->ReadTensor("split"), State(step).split);
    }
    ASSERT_FALSE(CheckpointSteps(dir.path()).empty());
  }
  fs::create_directories(StagingPath(dir.path(), 77));
  dir.Write(".staging-step-00000077/rank-00000.safetensors", "half");
  ASSERT_OK(State(900000).Save(dir.path(), 1));
  EXPECT_EQ(Names(dir.path()), (std::vector<std::string>{"step-00900000"}));
}

}  // namespace
}  // namespace oc
