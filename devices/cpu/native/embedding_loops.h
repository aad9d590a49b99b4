// Loops of the embedding's gradient and of rotary position embedding.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct EmbeddingLoops {
  // Columns begin..end-1 of a table of `vocabulary` rows of n. The positions of id v are head[v],
  // next[head[v]], ... until -1; their rows of dy are added in that order, in f32. Rows without
  // positions become zero, or stay where `accumulate` is set.
  void (*grad[kFloatKinds])(const void* dy, const int32_t* head, const int32_t* next, void* table,
                            int64_t vocabulary, int64_t n, int64_t begin, int64_t end,
                            bool accumulate);
  // The same into a table of f32.
  void (*grad_f32[kFloatKinds])(const void* dy, const int32_t* head, const int32_t* next,
                                void* table, int64_t vocabulary, int64_t n, int64_t begin,
                                int64_t end, bool accumulate);
  // One row of `heads` heads of 2 * half elements, each turned by cosine[i], sine[i] in the pairs
  // (i, i + half). y may be x.
  void (*rope[kFloatKinds])(const void* x, void* y, const float* cosine, const float* sine,
                            int64_t heads, int64_t half, bool inverse);
};
OC_CPU_LOOPS(EmbeddingLoops)

}  // namespace oc::cpu
