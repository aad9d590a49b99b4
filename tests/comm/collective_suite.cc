// Collectives over every transport: world sizes, dtypes, awkward sizes, and what goes wrong.
#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "openclaw/comm/all_gather.h"
#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/barrier.h"
#include "openclaw/comm/broadcast.h"
#include "openclaw/comm/reduce_scatter.h"
#include "openclaw/core/clock.h"
#include "openclaw/core/rng.h"
#include "openclaw/core/tensor.h"
#include "world.h"

namespace oc {
namespace {

using testing::HasSubstr;

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16,
                             DType::kF16, DType::kI32, DType::kI64};
// Empty, below the group's size, around the switch to the ring, several messages a piece.
constexpr int64_t kCounts[] = {0, 1, 2, 3, 4, 7, 1000, 4096, 4097, 8195, 200003};

std::vector<int> All(int n) {
  std::vector<int> members(n);
  for (int i = 0; i < n; ++i) members[i] = i;
  return members;
}

// Small integers: their sums are exact in every dtype. They repeat, which makes buffers cheap.
constexpr int64_t kPeriod = 11;
double Value(int64_t i, int rank) { return static_cast<double>((i * 7 + rank * 3) % kPeriod - 4); }

std::vector<std::byte> Repeat(DType dtype, int64_t count,
                              const std::function<double(int64_t)>& value) {
  const int64_t element = SizeInBytes(dtype);
  std::vector<std::byte> bytes(count * element);
  for (int64_t i = 0; i < std::min(count, kPeriod); ++i)
    StoreElement(dtype, bytes.data(), i, value(i));
  for (int64_t done = kPeriod; done < count; done *= 2) {
    std::memcpy(bytes.data() + done * element, bytes.data(),
                std::min(done, count - done) * element);
  }
  return bytes;
}

std::vector<std::byte> Values(DType dtype, int64_t count, int rank) {
  return Repeat(dtype, count, [rank](int64_t i) { return Value(i, rank); });
}

std::vector<std::byte> Reduced(DType dtype, ReduceOp op, int64_t count, int ranks) {
  return Repeat(dtype, count, [op, ranks](int64_t i) {
    double total = Value(i, 0);
    for (int r = 1; r < ranks; ++r) {
      const double v = Value(i, r);
      total = op == ReduceOp::kSum   ? total + v
              : op == ReduceOp::kMax ? std::max(total, v)
                                     : std::min(total, v);
    }
    return total;
  });
}

std::vector<std::byte> Random(int64_t count, int rank) {
  std::vector<std::byte> bytes(count * sizeof(float));
  const Philox rng(rank + 5);
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(DType::kF32, bytes.data(), i, UniformFloat(rng.Word(0, i)) - 0.3);
  }
  return bytes;
}

class CollectiveSuite : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, CollectiveSuite, testing::Values(1, 2, 3, 4, 5));

TEST_P(CollectiveSuite, AllReduce) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    for (const DType dtype : kDTypes) {
      for (const int64_t count : kCounts) {
        auto bytes = Values(dtype, count, t.rank());
        std::vector<std::byte> scratch(AllReduceScratchBytes(n, bytes.size(), dtype));
        EXPECT_OK(AllReduceInPlace(group, {.bytes = bytes, .dtype = dtype, .scratch = scratch}));
        EXPECT_EQ(bytes, Reduced(dtype, ReduceOp::kSum, count, n)) << Name(dtype) << " " << count;
      }
    }
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      for (const int64_t count : {1, 9001}) {
        auto bytes = Values(DType::kF32, count, t.rank());
        EXPECT_OK(AllReduceInPlace(group, {.bytes = bytes, .op = op}));
        EXPECT_EQ(bytes, Reduced(DType::kF32, op, count, n)) << Name(op) << " " << count;
      }
    }
  });
}

// Rounding shows the order of the sum: it is the same on all ranks, every time, and over every
// transport.
TEST_P(CollectiveSuite, AllReduceIsBitwiseTheSameEverywhere) {
  const int n = GetParam();
  for (const int64_t count : {int64_t{33}, int64_t{150007}}) {
    std::vector<std::vector<std::byte>> inproc(n);
    RunInproc(n, [&](Transport& t) {
      Group group(t, All(n), {.id = 1});
      inproc[t.rank()] = Random(count, t.rank());
      EXPECT_OK(AllReduceInPlace(group, {.bytes = inproc[t.rank()]}));
    });
    for (int r = 1; r < n; ++r) EXPECT_EQ(inproc[r], inproc[0]);
    World().Run(n, [&](Transport& t) {
      Group group(t, All(n), {.id = 1});
      for (int repeat = 0; repeat < 3; ++repeat) {
        auto bytes = Random(count, t.rank());
        if (t.rank() == repeat) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_OK(AllReduceInPlace(group, {.bytes = bytes}));
        EXPECT_EQ(bytes, inproc[0]) << "rank " << t.rank() << ", " << count;
      }
    });
  }
}

TEST_P(CollectiveSuite, ReduceScatterThenAllGather) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
      for (const int64_t count : kCounts) {
        auto bytes = Values(dtype, count, t.rank());
        std::vector<std::byte> scratch(ReduceScatterScratchBytes(n, bytes.size(), dtype));
        EXPECT_OK(ReduceScatter(group, {.bytes = bytes, .dtype = dtype, .scratch = scratch}));
        const auto expected = Reduced(dtype, ReduceOp::kSum, count, n);
        const Piece piece = PieceOf(count, n, t.rank());
        const int element = SizeInBytes(dtype);
        const auto begin = piece.begin * element, end = piece.end * element;
        EXPECT_TRUE(
            std::equal(bytes.begin() + begin, bytes.begin() + end, expected.begin() + begin))
            << Name(dtype) << " " << count << " rank " << t.rank();
        std::fill(bytes.begin(), bytes.begin() + begin, std::byte{0xee});
        std::fill(bytes.begin() + end, bytes.end(), std::byte{0xee});
        EXPECT_OK(AllGather(group, {.bytes = bytes, .dtype = dtype}));
        EXPECT_EQ(bytes, expected) << Name(dtype) << " " << count;
      }
    }
  });
}

// Bounds of pieces of `count` elements over n members: shares that fall, all with one member, and
// members without any at the ends and between.
std::vector<std::vector<int64_t>> UnequalPieces(int64_t count, int n) {
  std::vector<std::vector<int64_t>> all;
  std::vector<int64_t> falling = {0};
  for (int i = 1; i < n; ++i) falling.push_back(falling.back() + (count - falling.back()) * 2 / 3);
  falling.push_back(count);
  all.push_back(falling);
  for (int holder = 0; holder < n; ++holder) {
    std::vector<int64_t> one(n + 1, 0);
    std::fill(one.begin() + holder + 1, one.end(), count);
    all.push_back(std::move(one));
  }
  std::vector<int64_t> every_other = {0};
  for (int i = 0; i < n; ++i) {
    const int64_t before = every_other.back();
    every_other.push_back(i % 2 == 0 ? before : std::min(count, before + count / 2 + 1));
  }
  every_other.back() = count;
  all.push_back(std::move(every_other));
  return all;
}

TEST_P(CollectiveSuite, PiecesMayBeUnequalAndEmpty) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
      for (const int64_t count : kCounts) {
        for (const std::vector<int64_t>& pieces : UnequalPieces(count, n)) {
          const auto where = testing::Message()
                             << Name(dtype) << " " << count << " rank " << t.rank() << " "
                             << testing::PrintToString(pieces);
          auto bytes = Values(dtype, count, t.rank());
          std::vector<std::byte> scratch(ReduceScatterScratchBytes(n, bytes.size(), dtype, pieces));
          EXPECT_OK(ReduceScatter(
              group, {.bytes = bytes, .dtype = dtype, .scratch = scratch, .pieces = pieces}));
          const auto expected = Reduced(dtype, ReduceOp::kSum, count, n);
          const int64_t element = SizeInBytes(dtype);
          const int64_t begin = pieces[t.rank()] * element, end = pieces[t.rank() + 1] * element;
          EXPECT_TRUE(
              std::equal(bytes.begin() + begin, bytes.begin() + end, expected.begin() + begin))
              << where;
          std::fill(bytes.begin(), bytes.begin() + begin, std::byte{0xee});
          std::fill(bytes.begin() + end, bytes.end(), std::byte{0xee});
          EXPECT_OK(AllGather(group, {.bytes = bytes, .dtype = dtype, .pieces = pieces}));
          EXPECT_TRUE(bytes == expected) << where;
        }
      }
    }
  });
}

// With the same pieces an element is summed in the same order, whether all keep it or one does.
TEST_P(CollectiveSuite, PiecesDecideTheOrderOfTheSum) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    for (const int64_t count : {int64_t{33}, int64_t{150007}}) {
      for (const std::vector<int64_t>& pieces : UnequalPieces(count, n)) {
        auto all = Random(count, t.rank()), own = all;
        EXPECT_OK(AllReduceInPlace(group, {.bytes = all, .pieces = pieces}));
        EXPECT_OK(ReduceScatter(group, {.bytes = own, .pieces = pieces}));
        EXPECT_OK(AllGather(group, {.bytes = own, .pieces = pieces}));
        EXPECT_TRUE(own == all) << count << " " << testing::PrintToString(pieces);
      }
    }
  });
}

TEST_P(CollectiveSuite, BroadcastFromEveryRoot) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    for (int root = 0; root < n; ++root) {
      for (const int64_t count : kCounts) {
        auto bytes = Values(DType::kF32, count, t.rank());
        EXPECT_OK(Broadcast(group, {.bytes = bytes, .root = root}));
        EXPECT_EQ(bytes, Values(DType::kF32, count, root)) << "root " << root << ", " << count;
      }
    }
    EXPECT_EQ(Broadcast(group, {.root = n}).code(), absl::StatusCode::kInvalidArgument);
  });
}

TEST_P(CollectiveSuite, BarrierWaitsForTheLast) {
  const int n = GetParam();
  World().Run(n, [n](Transport& t) {
    Group group(t, All(n), {.id = 1});
    EXPECT_OK(Barrier(group));
    for (int late = 0; late < n; ++late) {
      const double begin = NowSeconds();
      if (t.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_OK(Barrier(group));
      EXPECT_GT(NowSeconds() - begin, 0.03);
      EXPECT_OK(Barrier(group));
    }
  });
}

TEST(Collective, GroupsOfSomeRanksInAnyOrder) {
  World().Run(5, [](Transport& t) {
    for (const auto& members : {std::vector{4, 0, 2}, std::vector{3, 1}, std::vector{2}}) {
      if (std::count(members.begin(), members.end(), t.rank()) == 0) continue;
      Group group(t, members, {.id = 20 + members[0]});
      std::vector<double> value(5000, 1 << t.rank());
      double expected = 0;
      for (const int m : members) expected += 1 << m;
      EXPECT_OK(AllReduceInPlace(
          group, {.bytes = std::as_writable_bytes(std::span(value)), .dtype = DType::kF64}));
      EXPECT_EQ(value.front(), expected);
      EXPECT_EQ(value.back(), expected);
    }
  });
}

TEST(Collective, BadOptionsAreErrors) {
  World().Run(2, [](Transport& t) {
    Group group(t, {0, 1}, {.id = 1});
    std::vector<std::byte> bytes(4002), scratch(8);
    EXPECT_EQ(AllReduceInPlace(group, {.bytes = bytes}).code(), absl::StatusCode::kInvalidArgument);
    bytes.resize(4000);
    EXPECT_EQ(AllReduceInPlace(group, {.bytes = bytes, .dtype = DType::kU8}).code(),
              absl::StatusCode::kUnimplemented);
    const Status small = AllReduceInPlace(group, {.bytes = bytes, .scratch = scratch});
    EXPECT_EQ(small.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(small.message()), HasSubstr("4000"));
  });
}

// What rank 1 does otherwise, and what the error must name on every rank.
struct Difference {
  const char* name;
  std::function<Status(Group&, std::span<std::byte>)> other;
  std::vector<std::string> names;
};

TEST(Collective, MismatchNamesRanksOperationsAndValues) {
  const std::vector<Difference> differences = {
      {"bytes",
       [](Group& g, std::span<std::byte> b) {
         return AllReduceInPlace(g, {.bytes = b.first(400)});
       },
       {"rank 1", "rank 0", "all_reduce", "400", "800"}},
      {"dtype",
       [](Group& g, std::span<std::byte> b) {
         return AllReduceInPlace(g, {.bytes = b, .dtype = DType::kI32});
       },
       {"rank 1", "rank 0", "i32", "f32"}},
      {"op",
       [](Group& g, std::span<std::byte> b) {
         return AllReduceInPlace(g, {.bytes = b, .op = ReduceOp::kMax});
       },
       {"rank 1", "rank 0", "detail 1", "detail 0"}},
      {"operation",
       [](Group& g, std::span<std::byte>) { return Barrier(g); },
       {"rank 1", "rank 0", "barrier", "all_reduce"}},
  };
  for (const Difference& difference : differences) {
    World().Run(3, [&difference](Transport& t) {
      Group group(t, {0, 1, 2}, {.id = 3, .timeout_seconds = 60});
      std::vector<std::byte> bytes(800);
      const double begin = NowSeconds();
      const Status s = t.rank() == 1 ? difference.other(group, bytes)
                                     : AllReduceInPlace(group, {.bytes = bytes});
      EXPECT_LT(NowSeconds() - begin, 20);
      EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << difference.name << ": " << s;
      for (const std::string& name : difference.names) {
        EXPECT_THAT(std::string(s.message()), HasSubstr(name)) << difference.name;
      }
    });
  }
}

TEST(Collective, MismatchAfterAgreementIsAnErrorToo) {
  World().Run(2, [](Transport& t) {
    Group group(t, {0, 1}, {.id = 3, .timeout_seconds = 60});
    std::vector<std::byte> bytes(800);
    EXPECT_OK(AllReduceInPlace(group, {.bytes = bytes}));
    const double begin = NowSeconds();
    const Status s =
        AllReduceInPlace(group, {.bytes = t.rank() == 0 ? bytes : std::span(bytes).first(400)});
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
    EXPECT_LT(NowSeconds() - begin, 20);
  });
}

TEST(Collective, AMissingRankIsNamedByAll) {
  for (const int missing : {0, 2}) {
    World().Run(3, [missing](Transport& t) {
      if (t.rank() == missing) return;
      Group group(t, {0, 1, 2}, {.id = 3, .timeout_seconds = 1});
      std::vector<std::byte> bytes(800);
      const double begin = NowSeconds();
      const Status s = AllReduceInPlace(group, {.bytes = bytes});
      EXPECT_LT(NowSeconds() - begin, 20);
      EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded) << s;
      EXPECT_THAT(std::string(s.message()),
                  HasSubstr(absl::StrCat("rank ", missing, " did not come")));
      EXPECT_THAT(std::string(s.message()), HasSubstr("all_reduce of 800 bytes f32"));
    });
  }
}

}  // namespace
}  // namespace oc
