// Sums over a tensor that come out the same, to the last bit, however the tensor is spread: they
// are taken over chunks of fixed size, counted from the tensor's first element, and the chunks'
// sums are added in their order. Who holds whole chunks computes their sums as who holds all.
#pragma once

#include <cstdint>

#include "openclaw/core/shape.h"

namespace oc {

inline constexpr int64_t kSumChunk = int64_t{1} << 16;  // elements

// Chunks of n elements; the last may be short.
inline int64_t SumChunks(int64_t n) { return (n + kSumChunk - 1) / kSumChunk; }
// Precondition: the shape is bound.
inline int64_t SumChunks(const Shape& shape) { return SumChunks(shape.num_elements()); }

}  // namespace oc
