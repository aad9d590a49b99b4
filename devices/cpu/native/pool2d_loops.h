// Loops of pooling over NHWC images. x, y, dy, dx have the dtype of the index. Rows are image rows:
// row r of the input is row r % height of image r / height, and so for the output.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct PoolAxis {
  int64_t input, output;
  int64_t kernel, stride, before;
};
struct PoolSizes {
  PoolAxis h, w;
  int64_t channels;
  bool count_padding;  // averages divide by the whole window
};

struct Pool2dLoops {
  // Output rows begin..end-1. index: the position in the window of the first largest; what is no
  // number wins.
  void (*max[kFloatKinds])(const PoolSizes& sizes, const void* x, void* y, uint8_t* index,
                           int64_t begin, int64_t end);
  void (*avg[kFloatKinds])(const PoolSizes& sizes, const void* x, void* y, int64_t begin,
                           int64_t end);
  // Input rows begin..end-1.
  void (*max_grad[kFloatKinds])(const PoolSizes& sizes, const void* dy, const uint8_t* index,
                                void* dx, int64_t begin, int64_t end);
  void (*avg_grad[kFloatKinds])(const PoolSizes& sizes, const void* dy, void* dx, int64_t begin,
                                int64_t end);
};
OC_CPU_LOOPS(Pool2dLoops)

}  // namespace oc::cpu
