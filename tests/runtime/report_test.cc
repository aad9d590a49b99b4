#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "openclaw/core/crc32c.h"
#include "openclaw/runtime/report/memory.h"
#include "openclaw/runtime/report/metrics.h"
#include "openclaw/runtime/report/progress.h"
#include "openclaw/runtime/report/tensorboard.h"
#include "test_files.h"

namespace oc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadFile;
using testing::TempDir;

std::vector<json> Lines(const std::string& path) {
  std::istringstream in(ReadFile(path));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Metrics, OneObjectAStepAndASummaryLast) {
  TempDir dir;
  const std::string path = dir.File("metrics.jsonl");
  auto writer = MetricsWriter::Open(path);
  ASSERT_OK(writer);
  EXPECT_OK(writer->Write({.step = 1,
                           .loss = 2.25,
                           .lr = 1e-3,
                           .grad_norm = 0.5,
                           .samples = 128,
                           .step_seconds = 0.25,
                           .throughput = 512,
                           .peak_bytes = int64_t{1} << 40,
                           .mfu = 0.75,
                           .more = {{"validation_loss", 2.5}}}));
  const json step = Lines(path).at(0);  // there before the writer is closed
  EXPECT_EQ(step["step"], 1);
  EXPECT_EQ(step["loss"], 2.25);
  EXPECT_EQ(step["lr"], 1e-3);
  EXPECT_EQ(step["grad_norm"], 0.5);
  EXPECT_EQ(step["samples"], 128);
  EXPECT_FALSE(step.contains("tokens"));
  EXPECT_EQ(step["step_seconds"], 0.25);
  EXPECT_EQ(step["throughput"], 512.0);
  EXPECT_EQ(step["peak_bytes"], int64_t{1} << 40);
  EXPECT_EQ(step["loss_scale"], 1.0);
  EXPECT_EQ(step["mfu"], 0.75);
  EXPECT_EQ(step["exposed_comm_seconds"], 0.0);
  EXPECT_EQ(step["validation_loss"], 2.5);

  EXPECT_OK(writer->Write({.step = 2, .loss = std::nan(""), .tokens = 7}));
  RunSummary summary{.final_loss = 0.5, .validation_accuracy = 0.91, .steps = 2, .seconds = 3};
  summary.vcus = {{.name = "cpu:0", .predicted_step_seconds = 1, .achieved_peak_bytes = 9}};
  summary.processes = {{.rank = 1, .host = "a", .predicted_bytes = 5, .achieved_bytes = 6}};
  summary.more = {{"unigram_entropy", std::numeric_limits<double>::infinity()}};
  EXPECT_OK(writer->WriteSummary(summary));
  const std::vector<json> lines = Lines(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_EQ(lines[1]["tokens"], 7);
  const json& last = lines[2]["summary"];
  EXPECT_EQ(last["final_loss"], 0.5);
  EXPECT_EQ(last["validation_accuracy"], 0.91);
  EXPECT_FALSE(last.contains("validation_loss"));
  EXPECT_TRUE(last["unigram_entropy"].is_null());
  EXPECT_EQ(last["vcus"][0]["name"], "cpu:0");
  EXPECT_EQ(last["vcus"][0]["achieved_peak_bytes"], 9);
  for (const char* kind : {"step_seconds", "bubble_fraction", "peak_bytes", "host_arena_bytes"}) {
    EXPECT_TRUE(last["vcus"][0].contains(absl::StrCat("predicted_", kind))) << kind;
    EXPECT_TRUE(last["vcus"][0].contains(absl::StrCat("achieved_", kind))) << kind;
  }
  EXPECT_EQ(last["processes"][0]["achieved_bytes"], 6);
}

TEST(Metrics, AResumedRunTakesUpTheFile) {
  TempDir dir;
  const std::string path = dir.File("metrics.jsonl");
  {
    auto writer = MetricsWriter::Open(path);
    ASSERT_OK(writer);
    for (int64_t step = 1; step <= 5; ++step) EXPECT_OK(writer->Write({.step = step}));
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"lo";  // killed while it wrote
  {
    auto writer = MetricsWriter::Open(path, 3);
    ASSERT_OK(writer);
    EXPECT_EQ(Lines(path).size(), 3u);
    EXPECT_OK(writer->Write({.step = 4, .loss = 7}));
  }
  ASSERT_EQ(Lines(path).size(), 4u);
  EXPECT_EQ(Lines(path)[3]["loss"], 7.0);
  {
    auto writer = MetricsWriter::Open(path, 9);  // nothing recorded is later: all is kept
    ASSERT_OK(writer);
    EXPECT_EQ(Lines(path).size(), 4u);
  }
  ASSERT_OK(MetricsWriter::Open(path));
  EXPECT_EQ(ReadFile(path), "");
  testing::ExpectError(MetricsWriter::Open(dir.File("no/metrics.jsonl")),
                       absl::StatusCode::kUnavailable, "no/metrics.jsonl");
}

uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

// The records' payloads, with their checksums compared.
std::vector<std::string> Records(const std::string& path) {
  const std::string bytes = ReadFile(path);
  std::vector<std::string> records;
  size_t at = 0;
  const auto crc = [&](size_t from, size_t size) {
    uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + from + size, 4);
    EXPECT_EQ(Unmask(stored), Crc32c(std::as_bytes(std::span(bytes)).subspan(from, size)));
  };
  while (at < bytes.size()) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    crc(at, 8);
    crc(at + 12, length);
    records.push_back(bytes.substr(at + 12, length));
    at += 16 + length;
  }
  EXPECT_EQ(at, bytes.size());
  return records;
}

// A reader of protobuf's wire format: (field, value's bytes or number) of one message.
std::vector<std::pair<int, std::string>> Fields(const std::string& message) {
  std::vector<std::pair<int, std::string>> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t tag = varint();
    size_t size = 0;
    switch (tag & 7) {
      case 0:
        fields.emplace_back(tag >> 3, std::to_string(varint()));
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (tag & 7);
    }
    fields.emplace_back(tag >> 3, message.substr(at, size));
    at += size;
  }
  return fields;
}

TEST(TensorBoard, WritesEventsThatDecode) {
  TempDir dir;
  auto writer = TensorBoardWriter::Create(dir.File("run/tensorboard"));
  ASSERT_OK(writer);
  EXPECT_THAT(writer->path(), HasSubstr("/events.out.tfevents."));
  EXPECT_OK(writer->AddScalars(300, {{"train/loss", 1.5}, {"train/lr", 1e-3}}));
  const std::vector<std::string> records = Records(writer->path());
  ASSERT_EQ(records.size(), 2u);
  const auto version = Fields(records[0]);
  EXPECT_EQ(version.back(), (std::pair<int, std::string>(3, "brain.Event:2")));

  const auto event = Fields(records[1]);
  ASSERT_EQ(event.size(), 3u);
  double wall = 0;
  std::memcpy(&wall, event[0].second.data(), 8);
  EXPECT_EQ(event[0].first, 1);
  EXPECT_GT(wall, 1.6e9);
  EXPECT_EQ(event[1], (std::pair<int, std::string>(2, "300")));
  EXPECT_EQ(event[2].first, 5);
  const auto values = Fields(event[2].second);
  ASSERT_EQ(values.size(), 2u);
  const auto value = Fields(values[0].second);
  EXPECT_EQ(value[0], (std::pair<int, std::string>(1, "train/loss")));
  float number = 0;
  std::memcpy(&number, value[1].second.data(), 4);
  EXPECT_EQ(value[1].first, 2);
  EXPECT_EQ(number, 1.5f);
}

// What a progress report prints.
template <typename F>
std::string Printed(const ProgressOptions& options, F body) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    Progress progress(out, options);
    body(progress);
  }
  std::fclose(out);
  std::string printed(text, size);
  free(text);
  return printed;
}

TEST(Progress, PrintsPlainLinesInALog) {
  const std::string log =
      Printed({.total_steps = 25, .every = 10, .terminal = false}, [](Progress& p) {
        for (int64_t step = 1; step <= 25; ++step) {
          p.Update({.step = step, .loss = 0.5, .lr = 6e-4, .throughput = 12345});
        }
        p.Print("validation_loss 0.4");
      });
  EXPECT_THAT(log, HasSubstr("step 10/25  loss 0.5000  lr 6.0e-04  12.3k samples/s"));
  EXPECT_THAT(log, HasSubstr("step 25/25"));
  EXPECT_THAT(log, HasSubstr("\nvalidation_loss 0.4\n"));
  EXPECT_THAT(log, Not(HasSubstr("step 11/")));
  EXPECT_THAT(log, Not(HasSubstr("\r")));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5);  // 1, 10, 20, 25 and the printed one
}

TEST(Progress, ChangesOneLineOnATerminal) {
  const std::string log = Printed({.total_steps = 100, .terminal = true}, [](Progress& p) {
    for (int64_t step = 1; step <= 50; ++step) p.Update({.step = step});
  });
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);  // the last state stays
  EXPECT_THAT(log, HasSubstr("\rstep 1/100"));
  EXPECT_THAT(log, HasSubstr("\rstep 50/100"));
}

TEST(Progress, CompactHasThreeDigits) {
  EXPECT_EQ(Compact(0.5), "0.50");
  EXPECT_EQ(Compact(999), "999");
  EXPECT_EQ(Compact(1234), "1.23k");
  EXPECT_EQ(Compact(99960), "100k");
  EXPECT_EQ(Compact(1234567), "1.23M");
}

TEST(Memory, SeesWhatIsTouched) {
  const auto before = ReadProcessMemory();
  ASSERT_OK(before);
  EXPECT_GT(before->resident_bytes, 1 << 20);
  EXPECT_GE(before->peak_bytes, before->resident_bytes);
  constexpr size_t kBytes = 64 << 20;
  // Mapped, since a heap may keep what it gets back.
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const auto during = ReadProcessMemory();
  ASSERT_OK(during);
  EXPECT_GE(during->resident_bytes - before->resident_bytes, int64_t{kBytes} * 9 / 10);
  munmap(block, kBytes);
  const auto after = ReadProcessMemory();
  EXPECT_GE(after->peak_bytes - before->resident_bytes, int64_t{kBytes} * 9 / 10);
  if (ResetPeakMemory().ok()) {
    EXPECT_LT(ReadProcessMemory()->peak_bytes, during->resident_bytes);
  }
}

}  // namespace
}  // namespace oc
