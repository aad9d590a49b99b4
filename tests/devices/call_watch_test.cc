// Calls into a device's code that hang or crash, told by device, op and purpose.
#include "openclaw/devices/call_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "openclaw/core/clock.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class CallWatchTest : public ::testing::Test {
 protected:
  void Start(const CallWatchOptions& options) {
    watch_ = CallWatch::Start(options, [this](const Status& why) {
      std::lock_guard<std::mutex> lock(mutex_);
      reports_.push_back(why);
    });
  }
  std::vector<Status> reports() {
    std::lock_guard<std::mutex> lock(mutex_);
    return reports_;
  }
  // In a call until something is reported.
  void HangUntilReported() {
    for (const double end = NowSeconds() + 20; reports().empty() && NowSeconds() < end;) {
      Sleep(0.01);
    }
  }

  std::mutex mutex_;
  std::vector<Status> reports_;  // guarded by mutex_
  std::unique_ptr<CallWatch> watch_;
};

TEST_F(CallWatchTest, ACallThatHangsIsToldOnceWithDeviceOpAndPurpose) {
  Start({.timeout_seconds = 0.1, .grace_seconds = 0.1});
  const double begin = NowSeconds();
  std::thread stuck([this] {
    const CallPurpose purpose("plain:0.1", "compute", "F0", 3);
    const DeviceCall call("device plain:0", "enqueue", "linear f32[2, 3]");
    HangUntilReported();
    Sleep(0.3);  // not told again
  });
  stuck.join();
  EXPECT_GE(NowSeconds() - begin, 0.2);
  ASSERT_EQ(reports().size(), 1u);
  EXPECT_EQ(reports()[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(reports()[0].message()),
              AllOf(HasSubstr("device plain:0, enqueue linear f32[2, 3] (VCU plain:0.1, compute F0 "
                              "of micro-batch 3) has not returned for 0."),
                    HasSubstr("hangs")));
  // The same thread's slot is taken again: what it was used for does not come back.
  std::thread other([this] {
    const DeviceCall call("device cpu:0", "free", "");
    for (const double end = NowSeconds() + 20; reports().size() < 2 && NowSeconds() < end;) {
      Sleep(0.01);
    }
  });
  other.join();
  ASSERT_EQ(reports().size(), 2u);
  EXPECT_THAT(std::string(reports()[1].message()),
              AllOf(HasSubstr("device cpu:0, free has not"), Not(HasSubstr("VCU"))));
}

TEST_F(CallWatchTest, EachKindHasATimeOfItsOwn) {
  Start({.timeout_seconds = 0.05, .slow_seconds = 20, .grace_seconds = 0.05});
  {
    const DeviceCall call("device", "prepare", "op", DeviceCall::Kind::kSlow);
    Sleep(0.4);
  }
  {
    const DeviceCall call("device", "event_wait", "", DeviceCall::Kind::kTimed, 20);
    Sleep(0.4);
  }
  EXPECT_TRUE(reports().empty());
  const DeviceCall call("device", "event_wait", "", DeviceCall::Kind::kTimed, 0.1);
  HangUntilReported();
  EXPECT_EQ(reports().size(), 1u);
}

// Many threads and many short calls, under a watch that looks all the time: for races, and nothing
// is ever told.
TEST_F(CallWatchTest, ShortCallsAreNeverTold) {
  Start({.timeout_seconds = 30, .grace_seconds = 1});
  auto second =
      CallWatch::Start({.timeout_seconds = 0.2, .grace_seconds = 0.01}, [](const Status&) {});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 2000; ++i) {
          const CallPurpose purpose("vcu", "compute", "F0", i);
          const std::string op = std::to_string(i);
          const DeviceCall call("device", "enqueue", op.c_str());
        }
      });
    }
    for (std::thread& t : threads) t.join();
  }
  EXPECT_TRUE(reports().empty());
}

TEST(CrashReportDeathTest, ACrashNamesTheCall) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        InstallCrashReports();
        const CallPurpose purpose("plain:0.1", "compute", "B1", 0);
        const DeviceCall call("device plain:0 of plugin x.so", "enqueue", "relu f32[4]");
        raise(SIGSEGV);
      },
      "crashed with SIGSEGV in device plain:0 of plugin x.so, enqueue relu f32\\[4\\] \\(VCU "
      "plain:0.1, compute B1 of micro-batch 0\\)");
}

TEST(CrashReportDeathTest, OneThatIsSentAndOutsideOfCallsSaysSo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        InstallCrashReports();
        { const DeviceCall call("device", "enqueue", "relu"); }
        raise(SIGBUS);
      },
      "crashed with SIGBUS outside of the calls to devices");
}

}  // namespace
}  // namespace oc
