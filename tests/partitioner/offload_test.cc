// Programs whose optimizer states lie outside of the VCU's memory: what lowering makes, and what
// the verifier finds in damaged ones.
#include <gmock/gmock.h>

#include "openclaw/partitioner/offload.h"
#include "openclaw/partitioner/program/vcu_lowering.h"
#include "openclaw/partitioner/program/verify.h"

#include "fixture.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kHostKind[] = "host/1t";

class OffloadProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    p_ = PlanModel(SmallGpt(), 1, 1, 2);
    plain_ = p_.planned.program.vcus[0];
    p_.cluster.vcus[0].host_kind = kHostKind;
    AddCosts(p_.update, &p_.update, p_.costs, kHostKind, 0.5);
    for (const bool write : {false, true}) p_.costs.Set(FileKey(write), {.seconds = 0.01});
    for (int64_t bytes : kCopyBytes) {
      p_.costs.Set(CopyKey(bytes, "sim/1t"), {.seconds = 2e-6 + static_cast<double>(bytes) / 8e9});
    }
  }
  // Small buckets: several of them.
  void Offload(VcuOffload offload, int64_t bucket_bytes = 8 << 10) {
    Plan plan = p_.planned.plan;
    plan.offload = {std::move(offload)};
    PartitionOptions options;
    options.lower.offload_bucket_bytes = bucket_bytes;
    auto realized = DynamicGraphPartitioner(p_.joint, &p_.update, p_.cluster, p_.costs)
                        .Realize(std::move(plan), options);
    ASSERT_TRUE(realized.ok()) << realized.status();
    p_.planned = *std::move(realized);
  }
  VcuProgram& vcu() { return p_.planned.program.vcus[0]; }
  std::vector<int> Copies(LaneKind lane, int direction) {
    std::vector<int> found;
    for (size_t i = 0; i < vcu().commands.size(); ++i) {
      const Command& c = vcu().commands[i];
      if (c.kind == CommandKind::kCopy && vcu().lanes[c.lane] == LaneSpec{lane, direction}) {
        found.push_back(static_cast<int>(i));
      }
    }
    return found;
  }
  std::vector<int> Updates() {
    std::vector<int> found;
    for (size_t i = 0; i < vcu().commands.size(); ++i) {
      const Command& c = vcu().commands[i];
      if (c.kind == CommandKind::kCompute && c.name.rfind("update", 0) == 0) {
        found.push_back(static_cast<int>(i));
      }
    }
    return found;
  }
  const CommandTime& Time(int command) const {
    return p_.planned.simulation.walk.times[0][command];
  }
  int64_t OptimizerBytes() const {
    int64_t bytes = 0;
    for (const StateEntry& e : plain_.state) {
      if (!e.is_parameter && !e.is_model_state) bytes += (e.range.bytes + 63) / 64 * 64;
    }
    return bytes;
  }
  void Drop(int index) {
    auto& commands = vcu().commands;
    commands.erase(commands.begin() + index);
    for (Command& c : commands) {
      std::erase(c.waits, index);
      for (int& wait : c.waits) wait -= wait > index ? 1 : 0;
    }
  }
  // What is left to find is no race.
  void WaitAnew() {
    for (Command& c : vcu().commands) c.waits.clear();
    DeriveWaits(vcu());
  }
  void ExpectRejected(const std::string& rule) {
    const Status status = Verify(p_.planned.program, p_.cluster);
    EXPECT_THAT(std::string(status.message()), HasSubstr(rule));
    EXPECT_FALSE(status.ok());
  }

  Planned p_;
  VcuProgram plain_;
};

constexpr VcuOffload kToFile = {.states = StateHome::kFile};
constexpr VcuOffload kToHost = {.states = StateHome::kHost};
constexpr VcuOffload kOnHost = {.states = StateHome::kHost, .update_on_host = true};

TEST_F(OffloadProgramTest, StatesLeaveTheStateArena) {
  for (const VcuOffload& offload : {kToFile, kToHost, kOnHost}) {
    Offload(offload);
    EXPECT_EQ(vcu().state_bytes, plain_.state_bytes - OptimizerBytes());
    const int64_t away = offload.states == StateHome::kFile ? vcu().file_bytes : vcu().host_bytes;
    EXPECT_GE(away, OptimizerBytes());
    EXPECT_EQ(p_.planned.plan.vcus[0].file_bytes, vcu().file_bytes);
    EXPECT_EQ(p_.planned.plan.vcus[0].host_arena_bytes, vcu().host_bytes);
    for (const StateEntry& e : vcu().state) {
      const bool away_too = !e.is_parameter && !e.is_model_state;
      EXPECT_EQ(e.range.arena == Arena::kState, !away_too) << e.name;
      EXPECT_EQ(e.host_copy.bytes > 0, offload.update_on_host && e.is_parameter) << e.name;
    }
  }
}

// While one bucket is updated the next one comes and the last one goes.
TEST_F(OffloadProgramTest, CopiesRunBesideUpdates) {
  Offload(kToHost);
  const std::vector<int> in = Copies(LaneKind::kCopy, 0), out = Copies(LaneKind::kCopy, 1),
                         updates = Updates();
  ASSERT_GE(in.size(), 4u);
  ASSERT_EQ(out.size(), in.size());
  ASSERT_EQ(updates.size(), in.size());
  int ahead = 0, behind = 0;
  for (size_t b = 0; b + 1 < in.size(); ++b) {
    // Nothing of the update is waited for by the next bucket, unless memory is used again.
    ahead += Time(in[b + 1]).begin < Time(updates[b]).end ? 1 : 0;
    behind += Time(updates[b + 1]).begin < Time(out[b]).end ? 1 : 0;
    EXPECT_LE(Time(in[b]).end, Time(updates[b]).begin);
    EXPECT_LE(Time(updates[b]).end, Time(out[b]).begin);
  }
  EXPECT_GE(ahead, static_cast<int>(in.size()) - 2);
  EXPECT_GE(behind, 1);
}

// At no time do more than three buckets lie in the device's memory, and so the step arena need not
// grow by all of them.
TEST_F(OffloadProgramTest, FewBucketsLieOnTheDeviceAtOnce) {
  Offload(kToHost, 4 << 10);
  EXPECT_LT(vcu().step_bytes, plain_.step_bytes + OptimizerBytes() / 2);
}

TEST_F(OffloadProgramTest, TheHostComputesBesideTheDevice) {
  Offload(kOnHost);
  const std::vector<int> updates = Updates();
  ASSERT_GE(updates.size(), 2u);
  // Neighbours go together: less than a copy a gradient and a parameter.
  EXPECT_LT(Copies(LaneKind::kCopy, 0).size(), vcu().gradients.size());
  EXPECT_LT(Copies(LaneKind::kCopy, 1).size(), vcu().gradients.size());
  for (int i : updates) {
    EXPECT_EQ(vcu().lanes[vcu().commands[i].lane].kind, LaneKind::kHostCompute);
    EXPECT_EQ(vcu().commands[i].predicate, "grad_norm_sq");
  }
  // Its work is none of the device's.
  double device = 0;
  for (size_t i = 0; i < vcu().commands.size(); ++i) {
    if (vcu().commands[i].lane == 0) device += Time(i).end - Time(i).begin;
  }
  EXPECT_DOUBLE_EQ(p_.planned.simulation.vcus[0].compute_seconds, device);
}

TEST_F(OffloadProgramTest, ThePlannerTakesTheFasterUpdate) {
  PartitionOptions options{.micro_batch = 4, .global_batch = 8, .offload = {.optimizer = "host"}};
  for (const double link : {1e12, 1e6}) {
    for (int64_t bytes : kCopyBytes) {
      p_.costs.Set(CopyKey(bytes, "sim/1t"), {.seconds = static_cast<double>(bytes) / link});
    }
    auto planned =
        DynamicGraphPartitioner(p_.joint, &p_.update, p_.cluster, p_.costs).Partition(options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    // By a slow link one gradient goes and one parameter comes, instead of two states both ways.
    const bool slow = link < 1e9;
    EXPECT_EQ(planned->plan.offload_of(0).update_on_host, slow);
    ASSERT_EQ(planned->plan.advice.size(), 1u);
    EXPECT_THAT(
        planned->plan.advice[0],
        HasSubstr(slow ? "is updated on its host" : "updates the states that its host keeps"));
    EXPECT_THAT(OffloadLines(planned->plan)[0],
                AllOf(HasSubstr("sim:0 offloads: optimizer states in the host's memory"),
                      HasSubstr(slow ? "updated there" : "brought to it")));
  }
}

TEST_F(OffloadProgramTest, APlanFileKeepsIt) {
  Plan plan = p_.planned.plan;
  plan.offload = {{.states = StateHome::kHost, .update_on_host = true, .activations = {3, 5}}};
  const auto read = Plan::FromJson(plan.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->offload, plan.offload);
}

TEST_F(OffloadProgramTest, APlanForNoHostIsRefused) {
  p_.cluster.vcus[0].host_kind.clear();
  Plan plan = p_.planned.plan;
  plan.offload = {kToHost};
  const Status status = plan.Validate(p_.joint, p_.cluster);
  EXPECT_THAT(std::string(status.message()), HasSubstr("whose memory is the host's"));
}

// ---- Activations ----

class OffloadedActivationsTest : public OffloadProgramTest {
 protected:
  void Plan4(const std::string& schedule) {
    p_ = PlanModel(models::Gpt2({.layers = 4,
                                 .width = 64,
                                 .heads = 2,
                                 .context = 32,
                                 .vocabulary = 53,
                                 .dropout = 0.1}),
                   1, 1, 4, schedule);
    plain_ = p_.planned.program.vcus[0];
    plain_seconds_ = p_.planned.simulation.step_seconds;
    p_.cluster.vcus[0].host_kind = kHostKind;
    SetLink(1e9);
  }
  void SetLink(double bytes_per_second) {
    for (int64_t bytes : kCopyBytes) {
      p_.costs.Set(CopyKey(bytes, "sim/1t"),
                   {.seconds = static_cast<double>(bytes) / bytes_per_second});
    }
  }
  std::vector<int> Chosen(std::vector<std::string> modules) {
    auto chosen = AskedActivations({.activations = std::move(modules)}, p_.joint);
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return chosen.ok() ? *std::move(chosen) : std::vector<int>();
  }
  std::vector<AwayItem> Items() {
    const auto analysis = AnalyzeStages(p_.joint, p_.planned.plan, {});
    EXPECT_TRUE(analysis.ok()) << analysis.status();
    const auto items = AwayItems(p_.joint, *analysis, 0, p_.cluster.vcus[0], p_.costs);
    EXPECT_TRUE(items.ok()) << items.status();
    return *items;
  }
  // Partitioned with what is open, in so much of the step arena as the plain plan takes.
  PlannedProgram Open(double share) {
    p_.cluster.vcus[0].memory_bytes =
        plain_.state_bytes + static_cast<int64_t>(share * static_cast<double>(plain_.step_bytes));
    PartitionOptions options{.micro_batch = 4, .global_batch = 16, .schedule = "gpipe"};
    options.offload.activations = {"auto"};
    auto planned =
        DynamicGraphPartitioner(p_.joint, &p_.update, p_.cluster, p_.costs).Partition(options);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? *std::move(planned) : PlannedProgram();
  }
  double plain_seconds_ = 0;
};

// All micro-batches are in flight at once: what lies with the host is most of the step.
TEST_F(OffloadedActivationsTest, TheStepArenaFalls) {
  Plan4("gpipe");
  Offload({.activations = Chosen({"*"})});
  EXPECT_LT(vcu().step_bytes, plain_.step_bytes / 2);
  EXPECT_GT(vcu().host_bytes, plain_.step_bytes / 4);
  const std::vector<int> out = Copies(LaneKind::kCopy, 1), in = Copies(LaneKind::kCopy, 0);
  EXPECT_EQ(out.size(), in.size());
  EXPECT_EQ(Updates().size(), 1u);
}

// By a link that is fast enough the copies hide: the step takes hardly longer, though they take a
// good part of it.
TEST_F(OffloadedActivationsTest, CopiesHideBehindTheComputation) {
  Plan4("gpipe");
  int64_t total = 0, taken = 0;
  for (const AwayItem& item : Items()) total += item.bytes;
  std::vector<int> idle_longest;
  for (const AwayItem& item : Items()) {
    taken += item.bytes;
    if (taken > total / 2) break;
    idle_longest.push_back(item.origin);
  }
  std::sort(idle_longest.begin(), idle_longest.end());
  Offload({.activations = idle_longest});
  double copies = 0;
  for (const int direction : {0, 1}) {
    for (int i : Copies(LaneKind::kCopy, direction)) copies += Time(i).end - Time(i).begin;
  }
  EXPECT_GT(copies, 0.1 * plain_seconds_);
  EXPECT_LT(p_.planned.simulation.step_seconds, 1.1 * plain_seconds_);
}

// The first of each order: what saves most time for its copies, and what is idle longest.
TEST_F(OffloadedActivationsTest, LevelsGrowAndEndWithEverything) {
  Plan4("gpipe");
  const std::vector<AwayItem> items = Items();
  const std::vector<std::vector<int>> levels = AwayLevels(items);
  ASSERT_GE(levels.size(), 9u);
  EXPECT_LE(levels.size(), 17u);
  EXPECT_TRUE(levels[0].empty());
  std::vector<int> all;
  for (const AwayItem& item : items) all.push_back(item.origin);
  std::sort(all.begin(), all.end());
  EXPECT_NE(std::find(levels.begin(), levels.end(), all), levels.end());
  const auto best = std::max_element(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return a.again_seconds / a.copy_seconds < b.again_seconds / b.copy_seconds;
  });
  EXPECT_TRUE(std::binary_search(levels[1].begin(), levels[1].end(), best->origin));
  for (size_t i = 1; i < levels.size() && levels[i - 1] != all; ++i) {
    EXPECT_GT(levels[i].size(), levels[i - 1].size());
  }
}

// What is left open stays where it fits; where it does not, by a fast link all that has to go does,
// by a slow one nothing, and is computed again.
TEST_F(OffloadedActivationsTest, AutoTakesTheCheaperOfMovingAndComputingAgain) {
  Plan4("gpipe");
  const auto away = [](const PlannedProgram& p) { return p.plan.offload_of(0).activations.size(); };
  EXPECT_EQ(away(Open(1)), 0u);
  EXPECT_TRUE(Open(1).plan.recomputed.empty());
  SetLink(1e13);
  const PlannedProgram fast = Open(0.5);
  EXPECT_GT(away(fast), 0u);
  EXPECT_TRUE(fast.plan.recomputed.empty());
  EXPECT_LT(fast.plan.predicted_step_seconds, p_.planned.plan.predicted_step_seconds * 1.1);
  SetLink(1e3);
  const PlannedProgram slow = Open(0.5);
  EXPECT_EQ(away(slow), 0u);
  EXPECT_FALSE(slow.plan.recomputed.empty());
}

// In 1f1b on one VCU a backward follows its forward: only what is idle for a while goes.
TEST_F(OffloadedActivationsTest, WhatIsWantedAtOnceStays) {
  Plan4("1f1b");
  Offload({.activations = Chosen({"*"})});
  const std::vector<int> out = Copies(LaneKind::kCopy, 1), in = Copies(LaneKind::kCopy, 0);
  ASSERT_EQ(out.size(), in.size());
  ASSERT_GT(out.size(), 0u);
  EXPECT_LT(vcu().step_bytes, plain_.step_bytes);
  // Some pieces are computed between a value's going and its coming.
  for (size_t i = 0; i < out.size(); ++i) {
    const Command& gone = vcu().commands[out[i]];
    for (int j : in) {
      const Command& back = vcu().commands[j];
      if (back.name != gone.name || back.micro_batch != gone.micro_batch) continue;
      int pieces = 0;
      for (int c = out[i]; c < j; ++c) pieces += vcu().commands[c].lane == 0 ? 1 : 0;
      EXPECT_GE(pieces, 2) << gone.name;
    }
  }
}

TEST_F(OffloadedActivationsTest, AValueThatDoesNotComeIsFound) {
  Plan4("gpipe");
  Offload({.activations = Chosen({"*"})});
  Drop(Copies(LaneKind::kCopy, 1)[0]);
  WaitAnew();
  ExpectRejected("defined");
}

TEST_F(OffloadedActivationsTest, AModuleIsItsPartsToo) {
  Plan4("gpipe");
  const std::vector<int> block = Chosen({"transformer.h.1"}),
                         part = Chosen({"transformer.h.1.mlp"});
  EXPECT_GT(block.size(), part.size());
  EXPECT_TRUE(std::includes(block.begin(), block.end(), part.begin(), part.end()));
}

// ---- Damaged ones ----

TEST_F(OffloadProgramTest, ABucketThatDoesNotGoBackIsFound) {
  Offload(kToFile);
  Drop(Copies(LaneKind::kFile, 1)[1]);
  ExpectRejected("is not written back");
}

TEST_F(OffloadProgramTest, ABucketThatDoesNotComeIsFound) {
  Offload(kToFile);
  Drop(Copies(LaneKind::kFile, 0)[1]);
  WaitAnew();
  ExpectRejected("was not brought");
}

TEST_F(OffloadProgramTest, ABucketThatGoesBackTooSoonIsFound) {
  Offload(kToFile);
  Command& out = vcu().commands[Copies(LaneKind::kFile, 1)[0]];
  out.waits.clear();
  ExpectRejected("races");
}

// Moved ahead of its update, with every wait in order.
TEST_F(OffloadProgramTest, ABucketThatGoesBackBeforeItsUpdateIsFound) {
  Offload(kToFile);
  auto& commands = vcu().commands;
  const int out = Copies(LaneKind::kFile, 1)[0], update = Updates()[0];
  const Command moved = commands[out];
  Drop(out);
  commands.insert(commands.begin() + update, moved);
  WaitAnew();
  ExpectRejected("has written back");
}

TEST_F(OffloadProgramTest, ABucketThatGoesBackTwiceIsFound) {
  Offload(kToHost);
  auto& commands = vcu().commands;
  const int out = Copies(LaneKind::kCopy, 1)[0];
  const Command copy = commands[out];
  commands.insert(commands.begin() + out + 1, copy);
  WaitAnew();
  ExpectRejected("writes back what");
}

TEST_F(OffloadProgramTest, AParameterThatDoesNotComeBackIsFound) {
  Offload(kOnHost);
  Drop(Copies(LaneKind::kCopy, 0)[2]);
  WaitAnew();
  ExpectRejected("does not come back");
}

TEST_F(OffloadProgramTest, AGradientThatDoesNotComeIsFound) {
  Offload(kOnHost);
  Drop(Copies(LaneKind::kCopy, 1)[0]);
  WaitAnew();
  ExpectRejected("defined");
}

TEST_F(OffloadProgramTest, ADeviceThatTouchesTheHostsMemoryIsFound) {
  Offload(kToHost);
  Command& update = vcu().commands[Updates()[0]];
  update.slots[0].arena = Arena::kHost;
  ExpectRejected("arenas");
}

TEST_F(OffloadProgramTest, ACopyOnTheWrongLaneIsFound) {
  Offload(kToHost);
  vcu().commands[Copies(LaneKind::kCopy, 1)[0]].lane =
      vcu().commands[Copies(LaneKind::kCopy, 0)[0]].lane;
  ExpectRejected("wrong lane");
}

TEST_F(OffloadProgramTest, ACopyBeyondItsArenaIsFound) {
  Offload(kToFile);
  vcu().file_bytes -= 64;
  ExpectRejected("bounds");
}

}  // namespace
}  // namespace oc
