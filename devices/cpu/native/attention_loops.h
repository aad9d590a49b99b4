// Attention of one head at a time (Vaswani et al., 2017), with the probabilities of a block of
// queries at a time in memory and recomputed in the backward (Dao et al., 2022).
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

// Rows of queries, keys and values of one head are `packed` elements apart, those of outputs `row`.
struct AttentionShape {
  int64_t length;  // T
  int64_t width;   // D
  int64_t packed, row;
  float scale;
  bool causal;
};

struct AttentionLoops {
  // Floats of scratch that one worker needs, aligned to 64 bytes.
  int64_t (*forward_floats)(const AttentionShape& shape);
  int64_t (*backward_floats)(const AttentionShape& shape);

  // Brings a head's keys and values into the scratch; forward then takes its queries, any number of
  // heads.
  void (*load[kFloatKinds])(const AttentionShape& shape, const void* k, const void* v,
                            float* scratch);
  void (*forward[kFloatKinds])(const AttentionShape& shape, const void* q, void* y, float* lse,
                               float* scratch);

  // The same for the backward: load clears the sums of dk and dv, backward adds to them and writes
  // dq, store writes them out.
  void (*load_backward[kFloatKinds])(const AttentionShape& shape, const void* k, const void* v,
                                     float* scratch);
  void (*backward[kFloatKinds])(const AttentionShape& shape, const void* dy, const void* q,
                                const void* y, const float* lse, void* dq, float* scratch);
  void (*store_backward[kFloatKinds])(const AttentionShape& shape, void* dk, void* dv,
                                      const float* scratch);
};
OC_CPU_LOOPS(AttentionLoops)

}  // namespace oc::cpu
