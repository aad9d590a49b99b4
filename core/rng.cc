#include "openclaw/core/rng.h"

#include <cmath>
#include <numbers>

#include "openclaw/core/status.h"

namespace oc {

double Normal(const Philox& rng, uint64_t stream, uint64_t index) {
  const Philox::Words words = rng.Block(stream, index / 4);
  const int pair = static_cast<int>(index % 4) / 2 * 2;
  const double u = (words[pair] + 0.5) * 0x1p-32;
  const double angle = 2.0 * std::numbers::pi * (words[pair + 1] + 0.5) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

uint64_t StreamOf(const char* data, uint64_t size) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint64_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3ull;
  }
  return hash;
}

uint64_t PermutedIndex(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch) {
  OC_CHECK(i < n, i, " of ", n);
  int half = 1;
  while ((uint64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const Philox rng(seed);
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t f = rng.Block(epoch * 4 + round, right)[0] & mask;
      const uint64_t next = left ^ f;
      left = right;
      right = next;
    }
    i = (left << half) | right;
  } while (i >= n);
  return i;
}

}  // namespace oc
