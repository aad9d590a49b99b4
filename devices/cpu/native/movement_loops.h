// Loops that move elements, by their size: index log2(bytes).
#pragma once

#include "openclaw/devices/cpu/native/dispatch.h"

namespace oc::cpu {

struct MovementLoops {
  // y[c * y_stride + r] = x[r * x_stride + c], strides in elements.
  void (*transpose[4])(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_stride,
                       int64_t y_stride);
  // y[i] = *x
  void (*fill[4])(const void* x, void* y, int64_t n);
};
OC_CPU_LOOPS(MovementLoops)

}  // namespace oc::cpu
