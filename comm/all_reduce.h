// Sum (or maximum, minimum) over the members of a group, left on all of them.
//
//   OC_RETURN_IF_ERROR(AllReduceInPlace(group, {.bytes = gradients, .dtype = DType::kF32, .scratch
//   = s}));
#pragma once

#include <cstdint>
#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/reduce.h"

namespace oc {

struct AllReduceOptions {
  std::span<std::byte> bytes;  // in place
  DType dtype = DType::kF32;   // f32, f64, bf16, f16, i32, i64
  ReduceOp op = ReduceOp::kSum;
  // At least AllReduceScratchBytes, contents unspecified afterwards. Empty: the call allocates.
  std::span<std::byte> scratch;
  // Bounds of the members' pieces in elements (ring.h). Given, the buffer goes round the ring
  // whatever its size: each element is then summed in the order in which ReduceScatter sums it.
  std::span<const int64_t> pieces;
};

// The same on all members.
int64_t AllReduceScratchBytes(int group_size, int64_t bytes, DType dtype,
                              std::span<const int64_t> pieces = {});

// Every member calls it with the same size, dtype and op. All end bitwise equal, and the result is
// a function of the members' order and values alone, not of transport or timing. Large buffers go
// round a ring, small ones without pieces to one member and back. On error the contents of `bytes`
// are unspecified. Errors: those of Group::Begin and Transport; kInvalidArgument, kUnimplemented
// for bad options.
Status AllReduceInPlace(Group& group, const AllReduceOptions& options);

}  // namespace oc
