// Weights of convolutions between OIHW and the forms in blocks of channels that oneDNN likes: its
// own copies take two to five times as long. Windows of nine taps have loops of their own.
#pragma once

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

// `count` tensors of floats, `stride` floats apart.
struct PartialSums {
  const float* first;
  int64_t count, stride;
};

// Numbers of input channels are multiples of 16, as are those of output channels, which begin and
// end count in blocks of 16.
struct WeightLoops {
  // Weights of floats to [o / 16][in / 16][tap][o % 16][in % 16], which is oneDNN's ABcd16a16b; of
  // bf16 to [o / 16][in / 16][tap][o % 16 / 2][in % 16][o % 2], its ABcd8a16b2a.
  void (*block[kFloatKinds])(const void* weights, void* blocks, int64_t in, int64_t taps,
                             int64_t begin, int64_t end);
  // Weights of floats to [o / width][tap][in][o % width], Acdb16a to Acdb64a; of bf16 to
  // [o / width][tap][in / 2][o % width][in % 2], AcdB16a2b to AcdB64a2b. The number of output
  // channels is a multiple of `width`, which is one of 16.
  void (*columns[kFloatKinds])(const void* weights, void* columns, int64_t in, int64_t taps,
                               int64_t width, int64_t begin, int64_t end);
  // The sum of partial sums in [o / 16][in / 16][tap][in % 16][o % 16], ABcd16b16a, set as weights
  // or added to them. One tap or nine.
  void (*collect[kFloatKinds])(const PartialSums& sums, void* weights, int64_t in, int64_t taps,
                               int64_t begin, int64_t end, bool accumulate);
};
OC_CPU_LOOPS(WeightLoops)

}  // namespace oc::cpu
