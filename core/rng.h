// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a function of (key, counter) alone, so it can be indexed by
// logical position: the same sample gets the same dropout mask on any plan.
//
//   Philox rng(seed);
//   float u = UniformFloat(rng.Block(stream, index / 4)[index % 4]);
#pragma once

#include <array>
#include <cstdint>

namespace oc {

class Philox {
 public:
  using Words = std::array<uint32_t, 4>;

  explicit Philox(uint64_t key)
      : key0_(static_cast<uint32_t>(key)), key1_(static_cast<uint32_t>(key >> 32)) {}

  // Four random words of a 128-bit counter given as two halves. Thread-safe.
  Words Block(uint64_t high, uint64_t low) const {
    Words c = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
               static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
    uint32_t k0 = key0_, k1 = key1_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }
  // Word `index` of stream `stream`: element index of a tensor.
  uint32_t Word(uint64_t stream, uint64_t index) const {
    return Block(stream, index / 4)[index % 4];
  }

 private:
  uint32_t key0_, key1_;
};

// In [0, 1): 24 random bits.
inline float UniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Standard normal number `index` of a stream (Box-Muller over a block's two pairs of words).
double Normal(const Philox& rng, uint64_t stream, uint64_t index);
// Numbers 4 * block to 4 * block + 3 of the stream, exactly as Normal gives them, for a fraction of
// the time.
std::array<double, 4> NormalBlock(const Philox& rng, uint64_t stream, uint64_t block);

// A stream number from a name (FNV-1a, 64 bits): parameters and random ops are named, not ranked.
uint64_t StreamOf(const char* data, uint64_t size);

// A permutation of 0..n-1 evaluated at i: a cycle-walking Feistel network keyed by (seed, epoch),
// so that a shuffled order needs no memory and any rank can ask for any position. Precondition: 0
// <= i < n.
uint64_t PermutedIndex(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);

}  // namespace oc
