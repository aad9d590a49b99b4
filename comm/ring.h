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

// The elements [bounds[i], bounds[i + 1]); without bounds PieceOf.
inline Piece PieceOf(std::span<const int64_t> bounds, int64_t count, int parts, int i) {
  return bounds.empty() ? PieceOf(count, parts, i) : Piece{bounds[i], bounds[i + 1]};
}

// A piece travels in messages of this size, so that what was received is reduced while in the
// cache.
inline constexpr int64_t kRingMessageBytes = 256 * 1024;

// Bytes of scratch that RingReduceScatter wants.
int64_t RingScratchBytes(int group_size, int64_t bytes, DType dtype,
                         std::span<const int64_t> bounds = {});

// In both, `bounds` are those of the pieces in elements, one more than members, ascending from 0 to
// the count, the same on all members; empty: even pieces.
//
// Afterwards piece r of `bytes` is reduced on member r; other pieces are unspecified. Piece c is
// reduced in the order of the members c+1, c+2, ..., c: the same on every transport.
Status RingReduceScatter(Group& group, std::span<std::byte> bytes, DType dtype, ReduceOp op,
                         std::span<std::byte> scratch, std::span<const int64_t> bounds = {});

// Before, piece r is valid on member r; afterwards all are on all.
Status RingAllGather(Group& group, std::span<std::byte> bytes, DType dtype,
                     std::span<const int64_t> bounds = {});

}  // namespace oc
