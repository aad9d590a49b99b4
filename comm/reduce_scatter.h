// Sum (or maximum, minimum) over the members of a group, each keeping its piece.
#pragma once

#include <cstdint>
#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/reduce.h"
#include "openclaw/comm/ring.h"

namespace oc {

struct ReduceScatterOptions {
  // In place: the whole buffer on every member before; afterwards this member's piece of it is the
  // result, and the rest unspecified.
  std::span<std::byte> bytes;
  DType dtype = DType::kF32;  // f32, f64, bf16, f16, i32, i64
  ReduceOp op = ReduceOp::kSum;
  // At least ReduceScatterScratchBytes, contents unspecified afterwards. Empty: the call allocates.
  std::span<std::byte> scratch;
  std::span<const int64_t> pieces;  // bounds in elements (ring.h); empty: PieceOf
};

int64_t ReduceScatterScratchBytes(int group_size, int64_t bytes, DType dtype,
                                  std::span<const int64_t> pieces = {});

// Every member calls it with the same size, dtype, op and pieces. Deterministic as AllReduce;
// errors as there.
Status ReduceScatter(Group& group, const ReduceScatterOptions& options);

}  // namespace oc
