// Element-wise reduction of one buffer into another: the arithmetic of the collectives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "openclaw/core/dtype.h"

namespace oc {

// kMax and kMin propagate NaN.
enum class ReduceOp { kSum, kMax, kMin };
const char* Name(ReduceOp op);

// f32, f64, bf16, f16, i32, i64.
bool CanReduce(DType dtype);

// into[i] = into[i] op from[i]. bf16 and f16 compute in f32 and round once; integers wrap. The
// result of an element does not depend on where it lies. Precondition: CanReduce(dtype), no
// overlap.
void Reduce(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, int64_t count);

}  // namespace oc
