// Loops that turn a convolution into a matrix product: patches of NHWC images as rows (im2col) and
// back (col2im), and weights as rows of taps. Windows of nine taps have loops of their own.
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
  // Weights [o][in][tap] to and from rows [o][tap][in], output channels begin..end-1. Back to some
  // input channels of weights that have `weights_in`.
  void (*pack[kFloatKinds])(const void* weights, void* rows, int64_t in, int64_t taps,
                            int64_t begin, int64_t end);
  void (*unpack[kFloatKinds])(const void* rows, void* weights, int64_t in, int64_t weights_in,
                              int64_t taps, int64_t begin, int64_t end, bool accumulate);
  // The gradient of one image, in sizes.channels of its channels: rows of `product` hold what an
  // output pixel gives to [channel][tap] of its patch, one every `row` floats; they are added up in
  // sums[h][w][channel] and written to `image`, whose pixels lie `pixel` elements apart.
  void (*fold[kFloatKinds])(const PatchSizes& sizes, const float* product, int64_t row, float* sums,
                            void* image, int64_t pixel);
};
OC_CPU_LOOPS(PatchLoops)

}  // namespace oc::cpu
