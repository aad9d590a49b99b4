#include "openclaw/core/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "openclaw/core/status.h"

namespace oc {

namespace {

// The natural logarithm of (word + 0.5) / 2^32, and the sine and cosine of as much of a turn, all
// to about one unit in the last place. Own code: the C library's differs by machine (with and
// without fused multiplication), where initial values have to be the same on all; it is also
// faster.
double LogOfWord(uint32_t word) {
  const auto bits = std::bit_cast<int64_t>(word + 0.5);
  constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const int64_t exponent = (bits - kRootHalf) >> 52;
  const auto m = std::bit_cast<double>(bits - (exponent << 52));  // sqrt(1/2) to sqrt(2)
  const double s = (m - 1.0) / (m + 1.0), z = s * s;              // log m = 2 atanh s
  double sum = 1.0 / 21;
  sum = sum * z + 1.0 / 19;
  sum = sum * z + 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  return static_cast<double>(exponent - 32) * std::numbers::ln2 + 2.0 * (s + s * z * sum);
}

struct Rotation {
  double cos, sin;
};
Rotation RotationOfWord(uint32_t word) {
  const int64_t quarter = (int64_t{word} + (1 << 29)) >> 30;  // the nearest quarter turn
  const double x = (static_cast<double>(int64_t{word} - (quarter << 30)) + 0.5) *
                   (2.0 * std::numbers::pi * 0x1p-32);  // at most an eighth of a turn
  const double z = x * x;
  double s = -1.0 / 1307674368000;  // Taylor: x^17 / 17! is below 1e-16 here
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  const double sine = x + x * z * s;
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  const double cosine = 1.0 - z * (0.5 - z * c);
  // By bits, without branches that nothing could predict: an odd quarter swaps the two, and the
  // sign is that of the quarter.
  const auto c_bits = std::bit_cast<uint64_t>(cosine), s_bits = std::bit_cast<uint64_t>(sine);
  const auto q = static_cast<uint64_t>(quarter);
  const uint64_t swap = (c_bits ^ s_bits) & (0 - (q & 1));
  return {std::bit_cast<double>((c_bits ^ swap) ^ (((q + 1) & 2) << 62)),
          std::bit_cast<double>((s_bits ^ swap) ^ ((q & 2) << 62))};
}

}  // namespace

std::array<double, 4> NormalBlock(const Philox& rng, uint64_t stream, uint64_t block) {
  const Philox::Words words = rng.Block(stream, block);
  std::array<double, 4> result;
  for (int pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * LogOfWord(words[pair]));
    const Rotation rotation = RotationOfWord(words[pair + 1]);
    result[pair] = radius * rotation.cos;
    result[pair + 1] = radius * rotation.sin;
  }
  return result;
}

double Normal(const Philox& rng, uint64_t stream, uint64_t index) {
  return NormalBlock(rng, stream, index / 4)[index % 4];
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
