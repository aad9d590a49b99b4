// Loops that turn a convolution into a matrix product: patches of NHWC images as rows (im2col), and
// weights between OIHW and rows of taps.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

struct PatchAxis {
  int64_t input, output;
  int64_t kernel, stride, before, dilation;
};
struct PatchSizes {
  PatchAxis h, w;
  int64_t channels;
};

struct PatchLoops {
  // rows[p][tap][channel] for output pixels begin..end-1 (of all images, row by row); zero outside
  // of the image.
  void (*gather[kFloatKinds])(const PatchSizes& sizes, const void* x, void* rows, int64_t begin,
                              int64_t end);
  // Weights [o][in][tap] to and from rows [o][tap][in], output channels begin..end-1.
  void (*pack[kFloatKinds])(const void* weights, void* rows, int64_t in, int64_t taps,
                            int64_t begin, int64_t end);
  void (*unpack[kFloatKinds])(const void* rows, void* weights, int64_t in, int64_t taps,
                              int64_t begin, int64_t end, bool accumulate);
  // Weights of floats to [o / 16][in / 16][tap][o % 16][in % 16], which is oneDNN's ABcd16a16b:
  // blocks of output channels begin..end-1. Both numbers of channels are multiples of 16.
  void (*block)(const float* weights, float* blocks, int64_t in, int64_t taps, int64_t begin,
                int64_t end);
};
OC_CPU_LOOPS(PatchLoops)

}  // namespace oc::cpu
