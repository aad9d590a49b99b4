// What `cluster: auto` makes of hosts that are not this one, and how leaves are asked.
#include "openclaw/runtime/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace oc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DeviceInfo Cpu(int node, int cores) {
  DeviceInfo info{
      .name = absl::StrCat("cpu:", node), .leaf = "cpu", .model = "avx", .threads = cores};
  for (int i = 0; i < cores; ++i) info.cores.push_back(node * 64 + i);
  return info;
}
FoundDevice Npu(int index) {
  return {{.name = absl::StrCat("npu:", index), .leaf = "npu", .model = "n1", .threads = 24},
          index};
}
FoundDevices Npus(int count) {
  FoundDevices found;
  for (int i = 0; i < count; ++i) found.devices.push_back(Npu(i));
  return found;
}

// "cpu0/3": device, index, and cores where they are given; "@1": the local rank, where not 0.
std::vector<std::string> Vcus(const HostDivision& division) {
  std::vector<std::string> texts;
  for (const WantedVcu& v : division.vcus) {
    std::string text = absl::StrCat(v.device, v.index);
    if (v.cores > 0) absl::StrAppend(&text, "/", v.cores);
    if (v.local_rank > 0) absl::StrAppend(&text, "@", v.local_rank);
    texts.push_back(text);
  }
  return texts;
}
std::vector<std::string> Alone(const std::vector<DeviceInfo>& cpus, int npus, int vcus = 0) {
  return Vcus(DivideHost(cpus, Npus(npus), {.vcus = vcus}));
}
std::vector<std::string> Ranks(const std::vector<DeviceInfo>& cpus, int npus, int ranks) {
  return Vcus(DivideHost(cpus, Npus(npus), {.alone = false, .count = ranks}));
}

TEST(DivideHostTest, ProcessorsAloneAreAVcuANodeOrAsManyAsAreAskedFor) {
  const std::vector<DeviceInfo> nodes = {Cpu(0, 4), Cpu(1, 4)};
  EXPECT_THAT(Alone(nodes, 0), ElementsAre("cpu0", "cpu1"));
  EXPECT_THAT(Alone(nodes, 0, 1), ElementsAre("cpu0"));
  EXPECT_THAT(Alone(nodes, 0, 3), ElementsAre("cpu0", "cpu1", "cpu0"));
  EXPECT_THAT(Ranks(nodes, 0, 3), ElementsAre("cpu0", "cpu1@1", "cpu0@2"));
}

TEST(DivideHostTest, DevicesJoinTheProcessorsWhichKeepACoreFreeForEach) {
  EXPECT_THAT(Alone({Cpu(0, 8)}, 2), ElementsAre("cpu0/6", "npu0", "npu1"));
  EXPECT_THAT(Alone({Cpu(0, 4), Cpu(1, 8)}, 3),
              ElementsAre("cpu0/4", "cpu1/5", "npu0", "npu1", "npu2"));
  // The processors keep a core, whatever there is to feed.
  EXPECT_THAT(Alone({Cpu(0, 2)}, 4), ElementsAre("cpu0/1", "npu0", "npu1", "npu2", "npu3"));
  EXPECT_THAT(Alone({Cpu(0, 1)}, 1), ElementsAre("cpu0/1", "npu0"));
}

TEST(DivideHostTest, ProcessorsAreSplitFirstDownToACoreThenDevices) {
  EXPECT_THAT(Alone({Cpu(0, 8)}, 1, 2), ElementsAre("cpu0/7", "npu0"));
  EXPECT_THAT(Alone({Cpu(0, 8)}, 1, 4), ElementsAre("cpu0/2", "cpu0/2", "cpu0/2", "npu0"));
  EXPECT_THAT(Alone({Cpu(0, 3)}, 2, 6),
              ElementsAre("cpu0/1", "npu0", "npu0", "npu0", "npu1", "npu1"));
  // Fewer than there are: the planner chooses among them.
  EXPECT_THAT(Alone({Cpu(0, 8), Cpu(1, 8)}, 2, 1), ElementsAre("cpu0/8", "npu0", "npu1"));
}

TEST(DivideHostTest, RanksTakeTheDevicesInTurnAndTheRestShareTheProcessors) {
  EXPECT_THAT(Ranks({Cpu(0, 8)}, 2, 2), ElementsAre("npu0", "npu1@1"));
  EXPECT_THAT(Ranks({Cpu(0, 8)}, 2, 4), ElementsAre("npu0", "npu1@1", "cpu0/3@2", "cpu0/3@3"));
  EXPECT_THAT(Ranks({Cpu(0, 8)}, 3, 2), ElementsAre("npu0", "npu1@1", "npu2"));
  EXPECT_THAT(DivideHost({Cpu(0, 8)}, Npus(2), {.alone = false, .count = 2}).summary,
              HasSubstr("left out: cpu:0 (avx, each process of the host has a device of its own)"));
}

TEST(DivideHostTest, WhatComputesWithTheSameCoresIsLeftOut) {
  FoundDevices found = Npus(1);
  found.devices.push_back({.info = {.name = "pocl:0", .leaf = "pocl", .model = "p", .cores = {1}}});
  found.absent = {{"gpu", FailedPrecondition("no driver")},
                  {"tpu", Internal("while its devices were looked for: it crashed")}};
  const HostDivision division = DivideHost({Cpu(0, 4)}, found, {});
  EXPECT_THAT(Vcus(division), ElementsAre("cpu0/3", "npu0"));
  EXPECT_EQ(division.summary,
            "cpu:0 (avx, 3 of 4 cores), npu:0 (n1); left out: pocl:0 (p, the same cores as cpu:0), "
            "tpu (while its devices were looked for: it crashed); none: gpu (ocl doctor says why)");
  EXPECT_EQ(DivideHost({Cpu(0, 4)}, {}, {.vcus = 2}).summary, "cpu:0 (avx, 4 cores in 2 parts)");
}

class FakeDevice : public Device {
 public:
  explicit FakeDevice(DeviceInfo info) : info_(std::move(info)) {}
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions&) override {
    return Unimplemented("a fake has no slices");
  }

 private:
  DeviceInfo info_;
};

DeviceLeaf Leaf(const std::string& name, std::function<Status()> before) {
  return {name, [=]() -> StatusOr<std::vector<std::unique_ptr<Device>>> {
            OC_RETURN_IF_ERROR(before());
            std::vector<std::unique_ptr<Device>> devices;
            for (int i = 0; i < 2; ++i) {
              devices.push_back(
                  std::make_unique<FakeDevice>(DeviceInfo{.name = absl::StrCat(name, ":", i),
                                                          .leaf = name,
                                                          .model = "m\"1",
                                                          .threads = 3,
                                                          .cores = {5, 6},
                                                          .memory_bytes = int64_t{1} << 40}));
            }
            return devices;
          }};
}

TEST(FindDevicesTest, LeavesAreAskedInChildrenAndBadOnesAreAbsent) {
  const pid_t here = getpid();
  const auto elsewhere = [here] {
    return getpid() == here ? Internal("asked in this process") : OkStatus();
  };
  DeviceRegistry registry;
  registry.Add(Leaf("first", [] { return Internal("the processors are not asked"); }));
  registry.Add(Leaf("good", elsewhere));
  registry.Add(Leaf("none", [] { return FailedPrecondition("no driver"); }));
  registry.Add(Leaf("crash", [] {
    std::raise(SIGSEGV);
    return OkStatus();
  }));
  registry.Add(Leaf("hang", [] {
    for (;;) pause();
    return OkStatus();
  }));
  registry.Add(Leaf("exit", [] {
    _exit(3);
    return OkStatus();
  }));
  DeviceLeaf named = Leaf("named", elsewhere);
  named.by_name_only = true;
  registry.Add(std::move(named));

  const FoundDevices found = FindDevices(registry, /*timeout_seconds=*/2);
  ASSERT_EQ(found.devices.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const auto& [info, index] = found.devices[static_cast<size_t>(i)];
    EXPECT_EQ(index, i);
    EXPECT_EQ(info.name, absl::StrCat("good:", i));
    EXPECT_EQ(info.leaf, "good");
    EXPECT_EQ(info.model, "m\"1");
    EXPECT_EQ(info.threads, 3);
    EXPECT_THAT(info.cores, ElementsAre(5, 6));
    EXPECT_EQ(info.memory_bytes, int64_t{1} << 40);
  }
  ASSERT_EQ(found.absent.size(), 4u);
  EXPECT_EQ(found.absent[0].leaf, "none");
  EXPECT_EQ(found.absent[0].why, FailedPrecondition("no driver"));
  const char* const whys[] = {"signal 11", "did not end in 2 s", "with code 3"};
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(found.absent[i].why.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(found.absent[i].why.message()), HasSubstr(whys[i - 1]));
  }
}

}  // namespace
}  // namespace oc
