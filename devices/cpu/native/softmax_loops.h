// Loops of softmax and cross-entropy over rows of n. Logits have the dtype of the index.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct SoftmaxLoops {
  void (*softmax[kFloatKinds])(const void* x, void* y, int64_t rows, int64_t n);
  void (*softmax_grad[kFloatKinds])(const void* dy, const void* y, void* dx, int64_t rows,
                                    int64_t n);
  // lse of each row, and loss[r] = lse[r] - x[r, labels[r]], 0 where the label is `ignore`. Labels
  // are in range or `ignore`.
  void (*cross_entropy[kFloatKinds])(const void* x, const int32_t* labels, float* lse, float* loss,
                                     int64_t rows, int64_t n, int64_t ignore);
  // dx may be the memory of x.
  void (*cross_entropy_grad[kFloatKinds])(float dloss, const void* x, const int32_t* labels,
                                          const float* lse, void* dx, int64_t rows, int64_t n,
                                          int64_t ignore);
  // Rows whose first largest logit is the label.
  int64_t (*count_correct[kFloatKinds])(const void* x, const int32_t* labels, int64_t rows,
                                        int64_t n, int64_t ignore);
};
OC_CPU_LOOPS(SoftmaxLoops)

}  // namespace oc::cpu
