// Several heartbeats in one process, over real sockets. What kills processes is in
// mpi_failure_test.cc.
#include "openclaw/comm/heartbeat.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "openclaw/core/clock.h"
#include "world.h"

namespace oc {
namespace {

using testing::HasSubstr;

// Processes played by threads: exchanges go over a board.
struct Board {
  explicit Board(int n) : texts(n) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> texts;
  int came = 0;
};

class BoardJob : public Job {
 public:
  BoardJob(Board& board, int rank) : board_(board), rank_(rank) {}
  const char* name() const override { return "board"; }
  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(board_.texts.size()); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return world_size(); }
  const std::string& host() const override { return host_; }
  Status Finalize(double) override { return OkStatus(); }
  void Interrupt(const Status&) override {}
  void Abandon() override {}

 protected:
  StatusOr<std::vector<std::string>> Exchange(const std::string& mine, double) override {
    std::unique_lock lock(board_.mutex);
    board_.texts[rank_] = mine;
    ++board_.came;
    board_.changed.notify_all();
    board_.changed.wait(lock, [this] { return board_.came == world_size(); });
    return board_.texts;
  }
  StatusOr<std::vector<std::unique_ptr<Transport>>> Make(const std::vector<int>&) override {
    return Unimplemented("no transports");
  }

 private:
  Board& board_;
  const int rank_;
  const std::string host_ = "here";
};

// All of a world, and what each was told.
struct Beats {
  explicit Beats(int n,
                 const HeartbeatOptions& options = {.period_seconds = 0.05, .timeout_seconds = 2})
      : board(n), told(n), all(n) {
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r) {
      threads.emplace_back([this, r, &options] {
        BoardJob job(board, r);
        auto beat = Heartbeat::Start(job, options, [this, r](int rank, const Status& why) {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(absl::IsAborted(why)) << why;
          told[r].push_back(absl::StrCat(rank, ": ", why.ToString()));
        });
        EXPECT_OK(beat.status());
        if (beat.ok()) all[r] = std::move(*beat);
      });
    }
    for (std::thread& t : threads) t.join();
  }
  // Waits until `rank` was told of something.
  std::vector<std::string> Told(int rank, double seconds) {
    const double until = NowSeconds() + seconds;
    for (;;) {
      {
        std::lock_guard lock(mutex);
        if (!told[rank].empty() || NowSeconds() > until) return told[rank];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  Board board;
  std::mutex mutex;
  std::vector<std::vector<std::string>> told;
  std::vector<std::unique_ptr<Heartbeat>> all;
};

TEST(Heartbeat, NeighboursAreAllOrPowersOfTwo) {
  EXPECT_EQ(Heartbeat::Neighbours(1, 3), (std::vector{0, 2}));
  EXPECT_EQ(Heartbeat::Neighbours(0, 8).size(), 7u);
  EXPECT_EQ(Heartbeat::Neighbours(0, 12), (std::vector{1, 2, 4, 8, 10, 11}));
  for (const int n : {9, 12, 31}) {  // who watches is watched
    for (int r = 0; r < n; ++r) {
      for (const int other : Heartbeat::Neighbours(r, n)) {
        const auto back = Heartbeat::Neighbours(other, n);
        EXPECT_EQ(std::count(back.begin(), back.end(), r), 1);
      }
    }
  }
}

TEST(Heartbeat, GoodbyeIsNoDeath) {
  Beats beats(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double begin = NowSeconds();
  beats.all[2]->Stop();
  beats.all[2]->Stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (auto& b : beats.all) b->Stop();
  EXPECT_LT(NowSeconds() - begin, 2);
  for (int r = 0; r < 4; ++r) EXPECT_THAT(beats.Told(r, 0), testing::IsEmpty());
}

TEST(Heartbeat, WhoGivesUpIsReportedOnceWithItsReason) {
  Beats beats(3);
  beats.all[1]->Leave(FailedPrecondition("out of paper"));
  for (const int r : {0, 2}) {
    const auto told = beats.Told(r, 3);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_THAT(told[0], HasSubstr("1: "));
    EXPECT_THAT(told[0], HasSubstr("rank 1 (host here"));
    EXPECT_THAT(told[0], HasSubstr("out of paper"));
    EXPECT_EQ(beats.all[r]->failed(), std::vector{1});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (auto& b : beats.all) b->Stop();
  EXPECT_EQ(beats.Told(0, 0).size(), 1u);
  EXPECT_EQ(beats.Told(2, 0).size(), 1u);
  EXPECT_TRUE(beats.Told(1, 0).empty());
}

TEST(Heartbeat, DeathsArePassedOnInALargeWorld) {
  Beats beats(12);
  beats.all[5]->Leave(absl::InternalError("broke"));
  for (int r = 0; r < 12; ++r) {
    if (r == 5) continue;
    const auto told = beats.Told(r, 5);
    ASSERT_EQ(told.size(), 1u) << "rank " << r;
    EXPECT_THAT(told[0], HasSubstr("5: ")) << "rank " << r;
  }
  for (auto& b : beats.all) b->Stop();
}

TEST(Heartbeat, ATimeoutBelowTwoPeriodsIsRefused) {
  Board board(1);
  BoardJob job(board, 0);
  const auto beat =
      Heartbeat::Start(job, {.period_seconds = 1, .timeout_seconds = 1}, [](int, const Status&) {});
  EXPECT_EQ(beat.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oc
