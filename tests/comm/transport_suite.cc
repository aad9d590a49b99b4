// Point-to-point over every transport.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "openclaw/core/clock.h"
#include "world.h"

namespace oc {
namespace {

using testing::HasSubstr;

constexpr double kTimeout = 20;
constexpr int64_t kSizes[] = {0, 1, 7, 64, 4096, 65537, 1 << 20, 3000001};

std::vector<std::byte> Pattern(int64_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (int64_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  return bytes;
}

class TransportSuite : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, TransportSuite, testing::Values(1, 2, 3, 4, 5));

TEST_P(TransportSuite, RingOfSendRecv) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    EXPECT_EQ(t.size(), n);
    const int right = (t.rank() + 1) % n, left = (t.rank() + n - 1) % n;
    for (const int64_t size : kSizes) {
      const auto out = Pattern(size, t.rank());
      std::vector<std::byte> in(size);
      EXPECT_OK(t.SendRecv(right, out, left, in, 3, kTimeout));
      EXPECT_EQ(in, Pattern(size, left)) << "size " << size;
    }
  });
}

TEST_P(TransportSuite, EveryPairBothWays) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        if (from == to) continue;
        const int64_t tag = from * 100 + to + (int64_t{1} << 40);
        for (const int64_t size : {0, 5, 70000}) {
          std::vector<std::byte> in(size);
          if (t.rank() == from) EXPECT_OK(t.Send(to, tag, Pattern(size, from), kTimeout));
          if (t.rank() == to) {
            EXPECT_OK(t.Recv(from, tag, in, kTimeout));
            EXPECT_EQ(in, Pattern(size, from));
          }
        }
      }
    }
  });
}

TEST_P(TransportSuite, OneTagKeepsItsOrderAndTagsDoNotMix) {
  const int n = GetParam();
  if (n < 2) GTEST_SKIP();
  constexpr int kMessages = 200;
  World().Run(n, [](Transport& t) {
    if (t.rank() > 1) return;
    // Lanes: each tag has a thread on either side.
    std::vector<std::thread> lanes;
    for (int64_t tag = 0; tag < 4; ++tag) {
      lanes.emplace_back([&t, tag] {
        for (int i = 0; i < kMessages; ++i) {
          const int64_t expected = tag * 1000 + i;
          int64_t value = expected;
          const auto bytes = std::as_writable_bytes(std::span(&value, 1));
          if (t.rank() == 0) {
            EXPECT_OK(t.Send(1, tag, bytes, kTimeout));
          } else {
            value = -1;
            EXPECT_OK(t.Recv(0, tag, bytes, kTimeout));
            EXPECT_EQ(value, expected);
          }
        }
      });
    }
    for (std::thread& lane : lanes) lane.join();
  });
}

TEST(Transport, SizeMismatchNamesRankTagAndSizes) {
  for (const int64_t sent : {16, 8, 100000}) {
    World().Run(2, [sent](Transport& t) {
      std::vector<std::byte> buffer(t.rank() == 0 ? sent : 24);
      if (t.rank() == 1) {
        const Status s = t.Recv(0, 7, buffer, kTimeout);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
        EXPECT_THAT(std::string(s.message()), HasSubstr("rank 0"));
        EXPECT_THAT(std::string(s.message()), HasSubstr("tag 7"));
        EXPECT_THAT(std::string(s.message()), HasSubstr("24"));
        EXPECT_THAT(std::string(s.message()), HasSubstr(absl::StrCat(sent)));
        return;
      }
      Status s = t.Send(1, 7, buffer, kTimeout);
      // A buffered send has returned: a later call tells.
      if (World().across_processes() && s.ok()) s = t.Recv(1, 8, buffer, kTimeout);
      EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
      EXPECT_THAT(std::string(s.message()), HasSubstr("24"));
    });
  }
}

TEST(Transport, RecvTimesOutAndTheWorldGoesOn) {
  World().Run(2, [](Transport& t) {
    std::vector<std::byte> buffer(100);
    if (t.rank() == 1) {
      const double begin = NowSeconds();
      const Status s = t.Recv(0, 5, buffer, 0.2);
      EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded) << s;
      EXPECT_THAT(std::string(s.message()), HasSubstr("rank 0"));
      EXPECT_GT(NowSeconds() - begin, 0.19);
      EXPECT_LT(NowSeconds() - begin, 10);
    }
    const int peer = 1 - t.rank();
    const auto out = Pattern(100, t.rank());
    EXPECT_OK(t.SendRecv(peer, out, peer, buffer, 6, kTimeout));
    EXPECT_EQ(buffer, Pattern(100, peer));
  });
}

TEST(Transport, UnmatchedLargeSendTimesOut) {
  World().Run(2, [](Transport& t) {
    if (t.rank() == 1) return;
    const std::vector<std::byte> buffer(4 << 20);
    const Status s = t.Send(1, 5, buffer, 0.2);
    EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("rank 1"));
  });
}

// MPI counts in int. Takes 5 GB of memory.
TEST(Transport, MessagesAboveTwoGiB) {
  if (std::getenv("OC_TEST_LARGE") == nullptr) GTEST_SKIP() << "set OC_TEST_LARGE to run it";
  World().Run(2, [](Transport& t) {
    std::vector<std::byte> buffer((int64_t{2} << 30) + (300 << 20) + 5);
    if (t.rank() == 0) {
      for (size_t i = 0; i < buffer.size(); i += 4093) buffer[i] = static_cast<std::byte>(i >> 12);
      EXPECT_OK(t.Send(1, 5, buffer, 100));
      return;
    }
    EXPECT_OK(t.Recv(0, 5, buffer, 100));
    for (size_t i = 0; i < buffer.size(); i += 4093) {
      ASSERT_EQ(buffer[i], static_cast<std::byte>(i >> 12)) << i;
    }
  });
}

TEST(Transport, AbortEndsPendingAndLaterCalls) {
  World().Run(2, [](Transport& t) {
    EXPECT_OK(t.status());
    std::vector<std::byte> buffer(100);
    std::thread abort([&t] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      t.Abort(absl::UnknownError("rank 9 died"));
      t.Abort(absl::UnknownError("another"));
    });
    const double begin = NowSeconds();
    const int peer = 1 - t.rank();
    for (const Status& s : {t.Recv(peer, 1, buffer, kTimeout), t.Send(peer, 2, buffer, kTimeout),
                            t.SendRecv(peer, buffer, peer, buffer, 3, kTimeout), t.status()}) {
      EXPECT_EQ(s.code(), absl::StatusCode::kAborted) << s;
      EXPECT_THAT(std::string(s.message()), HasSubstr("rank 9 died"));
    }
    EXPECT_LT(NowSeconds() - begin, 15);
    abort.join();
  });
}

TEST(Transport, SendRecvWithAFailedHalfEnds) {
  World().Run(3, [](Transport& t) {
    if (t.rank() != 0) return;
    std::vector<std::byte> buffer(100);
    const Status s = t.SendRecv(1, buffer, 2, buffer, 3, 0.3);
    EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded) << s;
    EXPECT_EQ(t.Send(17, 1, buffer, 1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(t.Recv(-1, 1, buffer, 1).code(), absl::StatusCode::kInvalidArgument);
  });
}

}  // namespace
}  // namespace oc
