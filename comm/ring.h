// The two halves of a ring all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
// for clusters of workstations", 2009), shared by the collectives. Neither calls Group::Begin.
#pragma once

#include <cstdint>
#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/reduce.h"

namespace oc {

// The elements [begin, end) that member i of `parts` holds of `count`: sizes differ by one at most.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
inline Piece PieceOf(int64_t count, int parts, int i) {
  const int64_t base = count / parts, rest = count % parts;
  const int64_t begin = base * i + (i < rest ? i : rest);
  return {begin, begin + base + (i < rest ? 1 : 0)};
}

// A piece travels in messages of this size, so that what was received is reduced while in the
// cache.
inline constexpr int64_t kRingMessageBytes = 256 * 1024;

// Bytes of scratch that RingReduceScatter wants.
int64_t RingScratchBytes(int group_size, int64_t bytes, DType dtype);

// Afterwards piece r of `bytes` is reduced on member r; other pieces are unspecified. Piece c is
// reduced in the order of the members c+1, c+2, ..., c: the same on every transport.
Status RingReduceScatter(Group& group, std::span<std::byte> bytes, DType dtype, ReduceOp op,
                         std::span<std::byte> scratch);

// Before, piece r is valid on member r; afterwards all are on all.
Status RingAllGather(Group& group, std::span<std::byte> bytes, DType dtype);

}  // namespace oc
