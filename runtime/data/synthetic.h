// Data sets made from a seed, for tests and benchmarks: learnable, and of any size at no cost.
#pragma once

#include <cstdint>
#include <memory>

#include "openclaw/runtime/data/dataset.h"

namespace oc {

struct SyntheticImagesOptions {
  int64_t size = 1024;
  int64_t height = 28, width = 28, channels = 1;
  int64_t classes = 10;
  double noise = 1.0;  // standard deviation, against patterns of deviation 1
  uint64_t seed = 1;
  uint64_t split = 0;  // another number gives other samples of the same classes: a validation set
};

// Features "images" f32[H, W, C] and "labels" i32[]: each class has a fixed random pattern, a
// sample is the pattern of its label plus normal noise. Precondition: sizes positive.
std::unique_ptr<Dataset> MakeSyntheticImages(const SyntheticImagesOptions& options);

struct SyntheticTokensOptions {
  int64_t size = 1024;
  int64_t context = 64;
  int64_t vocabulary = 256;
  double noise = 0.1;  // share of tokens drawn at random
  uint64_t seed = 1;
  uint64_t split = 0;
};

// Features "tokens" and "targets" i32[context]: a token's successor is a fixed function of it, but
// for the noise. Precondition: sizes positive.
std::unique_ptr<Dataset> MakeSyntheticTokens(const SyntheticTokensOptions& options);

}  // namespace oc
