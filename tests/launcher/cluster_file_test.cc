#include "openclaw/launcher/config/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const StatusOr<ClusterSpec> cluster = ParseCluster(text, "c.yaml");
  if (cluster.ok()) return "(ok)";
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(cluster.status().message());
}

TEST(ClusterFile, ReadsVcusAndLinks) {
  const StatusOr<ClusterSpec> cluster = ParseCluster(R"(
vcus:
  - {device: cpu, threads: 2, memory: 4GiB, count: 2}
  - {name: big, device: sim, kind: sim/fast, host_kind: cpu/x/1t, memory: 80GiB, dtypes: [f32, bf16], host: b, process: 1}
links:
  default: {latency: 20e-6, bandwidth: 10GB}
  pairs:
    - {from: "cpu:0", to: "cpu:1", latency: 1e-6, bandwidth: 20GB}
    - {from: "cpu:0", to: big, points: [[0, 1e-5], [1000000, 1e-3]], one_way: true}
)",
                                                     "c.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ(cluster->size(), 3);
  EXPECT_EQ(cluster->vcus[0].name, "cpu:0");
  EXPECT_EQ(cluster->vcus[1].name, "cpu:1");
  EXPECT_EQ(cluster->vcus[1].kind, "");  // as this machine's
  EXPECT_EQ(cluster->vcus[1].threads, 2);
  EXPECT_THAT(cluster->vcus[1].dtypes, ElementsAre(DType::kF32));
  EXPECT_EQ(cluster->vcus[2].name, "big");
  EXPECT_EQ(cluster->vcus[2].kind, "sim/fast");
  EXPECT_EQ(cluster->vcus[2].host_kind, "cpu/x/1t");
  EXPECT_EQ(cluster->vcus[0].host_kind, "");
  EXPECT_EQ(cluster->vcus[2].memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(cluster->vcus[2].host, "b");
  EXPECT_EQ(cluster->vcus[2].process, 1);
  EXPECT_THAT(cluster->vcus[2].dtypes, ElementsAre(DType::kF32, DType::kBF16));
  EXPECT_NEAR(cluster->link(1, 0).Seconds(20000000), 1e-6 + 1e-3, 1e-9);
  EXPECT_NEAR(cluster->link(0, 2).Seconds(1000000), 1e-3, 1e-9);
  EXPECT_NEAR(cluster->link(2, 0).Seconds(1000000), 20e-6 + 1e-4, 1e-9);  // one way only
}

TEST(ClusterFile, OneVcuNeedsNoLinks) {
  EXPECT_TRUE(ParseCluster("vcus: [{device: cpu, memory: 1GiB}]", "c.yaml").ok());
}

TEST(ClusterFile, EntriesToTrainWith) {
  const char* const text = R"(
vcus:
  - {device: cpu, threads: 2, memory: 4GiB, host: a}
  - {device: sim, memory: 1GiB, sim: {speed: 2, dtypes: [f32, i32]}, count: 2}
  - {device: cpu, memory: 1GiB, host: b}
)";
  EXPECT_THAT(std::string(ParseCluster(text, "c.yaml").status().message()), HasSubstr("no link"));
  const auto cluster = ParseCluster(text, "c.yaml", /*need_links=*/false);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto entries = EntriesOn(*cluster, "a");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].cores, 2);
  EXPECT_EQ((*entries)[0].memory_bytes, int64_t{4} << 30);
  EXPECT_EQ((*entries)[2].device, "sim");
  EXPECT_EQ((*entries)[2].cores, 0);  // an even share
  EXPECT_EQ((*entries)[2].options.at("dtypes"), "f32,i32");
  const auto only = ParseCluster("vcus: [{device: cpu, memory: 1GiB, host: b}]", "c.yaml");
  ASSERT_TRUE(only.ok());
  EXPECT_THAT(std::string(EntriesOn(*only, "a").status().message()), HasSubstr("host a"));
}

TEST(ClusterFile, ErrorsNameLineAndCause) {
  const std::string vcus = "vcus: [{device: cpu, memory: 1GiB, count: 2}]\n";
  EXPECT_THAT(ErrorOf("vcus: []"), HasSubstr("c.yaml:1: `vcus` must be a list"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("`vcus` must be a list"));
  EXPECT_THAT(ErrorOf("vcus:\n  - {device: cpu}\n"),
              HasSubstr("c.yaml:2: `vcus.0.memory` is missing"));
  EXPECT_THAT(ErrorOf("vcus:\n  - {device: cpu, memroy: 1GiB}\n"),
              HasSubstr("did you mean `memory`?"));
  EXPECT_THAT(ErrorOf("vcus: [{device: cpu, memory: 1GiB, dtypes: [f31]}]"), HasSubstr("f31"));
  EXPECT_THAT(ErrorOf(vcus), HasSubstr("no link from cpu:0 to cpu:1"));
  EXPECT_THAT(ErrorOf(vcus + "links: {default: {latency: 1e-6}}"),
              HasSubstr("c.yaml:2: `links.default.latency` and bandwidth, or points"));
  EXPECT_THAT(
      ErrorOf(vcus + "links:\n  pairs: [{from: \"cpu:0\", to: gpu, latency: 0, bandwidth: 1GB}]"),
      HasSubstr("must name a VCU, not `gpu`"));
  EXPECT_THAT(ErrorOf(vcus + "links: {default: {points: [[5, 1], [4, 2]]}}"),
              HasSubstr("rising bytes"));
  EXPECT_THAT(
      ErrorOf("vcus: [{name: a, device: cpu, memory: 1GiB}, {name: a, device: cpu, memory: 1GiB}]\n"
              "links: {default: {latency: 0, bandwidth: 1GB}}"),
      HasSubstr("two VCUs named a"));
}

}  // namespace
}  // namespace oc
