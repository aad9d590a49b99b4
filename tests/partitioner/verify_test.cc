// Every rule of the verifier rejects a real Program that was damaged in its way.
#include <gmock/gmock.h>

#include "openclaw/partitioner/program/verify.h"

#include "fixture.h"

namespace oc {
namespace {

using ::testing::HasSubstr;

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    p_ = PlanModel(SmallGpt(), 2, 2, 4);
    ASSERT_EQ(Verify(p_.planned.program, p_.cluster), OkStatus());
  }
  Program& program() { return p_.planned.program; }
  // The first command of a kind whose name begins so.
  int Find(int vcu, CommandKind kind, const std::string& prefix = "", int skip = 0) {
    const auto& commands = program().vcus[vcu].commands;
    for (size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].kind == kind && commands[i].name.rfind(prefix, 0) == 0 && skip-- == 0) {
        return static_cast<int>(i);
      }
    }
    ADD_FAILURE() << "no " << Name(kind) << " " << prefix;
    return 0;
  }
  // Takes a command out; waits for it go, later ones move down.
  void Drop(int vcu, int index) {
    auto& commands = program().vcus[vcu].commands;
    commands.erase(commands.begin() + index);
    for (Command& c : commands) {
      std::erase(c.waits, index);
      for (int& wait : c.waits) wait -= wait > index ? 1 : 0;
    }
  }
  void ExpectRejected(const std::string& rule) {
    const Status status = Verify(program(), p_.cluster);
    EXPECT_THAT(std::string(status.message()), HasSubstr(rule));
    EXPECT_FALSE(status.ok());
  }
  Planned p_;
};

TEST_F(VerifyTest, SendDropped) {
  Drop(0, Find(0, CommandKind::kSend));
  ExpectRejected("messages");
}

TEST_F(VerifyTest, ReceiveDropped) {
  Drop(1, Find(1, CommandKind::kRecv));
  ExpectRejected("messages");
}

TEST_F(VerifyTest, SendsSwapped) {
  auto& commands = program().vcus[0].commands;
  std::swap(commands[Find(0, CommandKind::kSend)].tag,
            commands[Find(0, CommandKind::kSend, "", 1)].tag);
  ExpectRejected("messages");
}

TEST_F(VerifyTest, ComputesSwapped) {
  auto& commands = program().vcus[1].commands;
  const int forward = Find(1, CommandKind::kCompute, "F"),
            backward = Find(1, CommandKind::kCompute, "B");
  std::swap(commands[forward].segment, commands[backward].segment);
  std::swap(commands[forward].slots, commands[backward].slots);
  std::swap(commands[forward].reads, commands[backward].reads);
  std::swap(commands[forward].writes, commands[backward].writes);
  const Status status = Verify(program(), p_.cluster);
  EXPECT_FALSE(status.ok());
}

TEST_F(VerifyTest, RangeMovedInASlot) {
  Command& c = program().vcus[0].commands[Find(0, CommandKind::kCompute, "F")];
  for (Range& r : c.slots) {
    if (r.arena == Arena::kStep && r.offset >= 64) r.offset -= 64;
  }
  ExpectRejected("footprint");
}

TEST_F(VerifyTest, ReceiveMovedElsewhere) {
  // The receive lands where nothing else does: whoever reads the value reads what nothing wrote.
  VcuProgram& v = program().vcus[1];
  Command& c = v.commands[Find(1, CommandKind::kRecv)];
  c.writes[0].offset = v.step_bytes;
  v.step_bytes += 4096;
  const Status status = Verify(program(), p_.cluster);
  EXPECT_FALSE(status.ok());
}

TEST_F(VerifyTest, OutOfBounds) {
  Command& c = program().vcus[0].commands[Find(0, CommandKind::kFeed)];
  c.writes[0].offset = program().vcus[0].step_bytes;
  ExpectRejected("bounds");
}

// An update runs where the gradients' norm is finite: that is read, and known by then.
TEST_F(VerifyTest, ConditionOfAnUpdate) {
  const Program original = program();
  const int update = Find(0, CommandKind::kCompute, "update");
  EXPECT_EQ(program().vcus[0].commands[update].predicate, "grad_norm_sq");
  program().vcus[0].commands[update].predicate = "no_such_metric";
  ExpectRejected("structure");
  program() = original;
  const int feed = Find(0, CommandKind::kFeed);
  program().vcus[0].commands[feed].predicate = "grad_norm_sq";
  ExpectRejected("structure");
  program() = original;
  program().vcus[0].metrics.offset += 4096;
  program().vcus[0].step_bytes += 8192;
  ExpectRejected("footprint");
}

TEST_F(VerifyTest, WaitRemoved) {
  // Every wait is there for a reason: without any one of them there is a race, or something
  // undefined.
  const Program original = program();
  int removed = 0;
  for (size_t vcu = 0; vcu < original.vcus.size(); ++vcu) {
    for (size_t i = 0; i < original.vcus[vcu].commands.size(); ++i) {
      for (size_t w = 0; w < original.vcus[vcu].commands[i].waits.size(); ++w) {
        program() = original;
        auto& waits = program().vcus[vcu].commands[i].waits;
        waits.erase(waits.begin() + w);
        const Status status = Verify(program(), p_.cluster);
        EXPECT_FALSE(status.ok()) << "VCU " << vcu << " command " << i << " wait " << w;
        ++removed;
      }
    }
  }
  EXPECT_GT(removed, 20);
}

TEST_F(VerifyTest, CircularWait) {
  // Each VCU's first send waits for a receive that the other sends only afterwards.
  for (int vcu : {0, 1}) {
    auto& commands = program().vcus[vcu].commands;
    const int send = Find(vcu, CommandKind::kSend);
    int receive = kNone;
    for (int i = 0; i < send; ++i) {
      if (commands[i].kind == CommandKind::kRecv) receive = i;
    }
    if (receive == kNone) {  // the first stage: make its send depend on the first gradient
      const int recv = Find(vcu, CommandKind::kRecv);
      Command moved = commands[send];
      moved.waits.push_back(recv - 1);
      commands.erase(commands.begin() + send);
      for (Command& c : commands) {
        for (int& wait : c.waits) {
          if (wait >= send && wait <= recv) wait = wait == send ? recv : wait - 1;
        }
      }
      commands.insert(commands.begin() + recv, moved);
    }
  }
  const Status status = Verify(program(), p_.cluster);
  EXPECT_FALSE(status.ok());
}

TEST_F(VerifyTest, BucketReducedTwice) {
  const Command& first = program().vcus[0].commands[Find(0, CommandKind::kCollective, "gradients")];
  const int bucket = first.bucket;
  for (int vcu : program().groups[first.group].vcus) {
    VcuProgram& any = program().vcus[vcu];
    const auto at = std::find_if(any.commands.begin(), any.commands.end(), [&](const Command& c) {
      return c.kind == CommandKind::kCollective && c.bucket == bucket;
    });
    const int reduce = static_cast<int>(at - any.commands.begin());
    Command again = *at;
    again.waits = {};
    for (Command& c : any.commands) {
      for (int& wait : c.waits) wait += wait > reduce ? 1 : 0;
      if (std::count(c.waits.begin(), c.waits.end(), reduce) != 0) c.waits.push_back(reduce + 1);
    }
    any.commands.insert(any.commands.begin() + reduce + 1, again);
  }
  ExpectRejected("reduced twice");
}

TEST_F(VerifyTest, BucketNotReduced) {
  for (int vcu = 0; vcu < 4; ++vcu) {
    const int reduce = Find(vcu, CommandKind::kCollective, "gradients");
    Drop(vcu, reduce);
  }
  const Status status = Verify(program(), p_.cluster);
  EXPECT_FALSE(status.ok());
}

TEST_F(VerifyTest, OverBudget) {
  p_.cluster.vcus[1].memory_bytes = 1000;
  const Status status = Verify(program(), p_.cluster);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(VerifyPlans, EverythingThatIsLoweredPasses) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (int depth : {1, 2, 3, 4}) {
      for (int replicas : {1, 2}) {
        for (int micro_batches : {2, 4, 6}) {
          const Planned p = PlanModel(SmallGpt(depth == 2), depth, replicas,
                                      micro_batches * replicas, schedule, depth == 2);
          EXPECT_EQ(Verify(p.planned.program, p.cluster), OkStatus())
              << schedule << " " << depth << " " << replicas << " " << micro_batches;
        }
      }
    }
  }
}

TEST(VerifyPlans, UnlikeReplicaCountsAndShares) {
  Planned p = PlanModel(models::Mlp({.hidden = {32, 32, 32}}), 2, 1, 6);
  p.cluster = MakeCluster(3);
  Plan plan = p.planned.plan;
  plan.compute_types.clear();  // of another cluster
  plan.stages[0].vcus = {0};
  plan.stages[0].owner = {0, 0, 0, 0, 0, 0};
  plan.stages[1].vcus = {1, 2};
  plan.stages[1].owner = {1, 2, 1, 1, 2, 1};
  for (const char* schedule : {"gpipe", "1f1b"}) {
    plan.schedule = schedule;
    auto realized = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                        .Realize(plan, {.micro_batch = 4});
    EXPECT_TRUE(realized.ok()) << schedule << ": " << realized.status();
  }
}

TEST(VerifyPlans, SeveralStagesOnOneVcu) {
  Planned p = PlanModel(SmallGpt(), 4, 1, 4);
  p.cluster = MakeCluster(2);
  Plan plan = p.planned.plan;
  plan.compute_types.clear();  // of another cluster
  for (int s = 0; s < 4; ++s) {
    plan.stages[s].vcus = {s % 2};
    plan.stages[s].owner.assign(4, s % 2);
  }
  auto realized = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                      .Realize(plan, {.micro_batch = 4});
  EXPECT_TRUE(realized.ok()) << realized.status();
}

}  // namespace
}  // namespace oc
