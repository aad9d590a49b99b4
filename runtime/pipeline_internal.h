// What the files of ElasticPipeline share.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "openclaw/runtime/data/micro_batch.h"

namespace oc {

template <typename T>
Status Store(std::span<std::byte> to, const std::vector<T>& values) {
  if (to.size() != values.size() * sizeof(T)) {
    return Internal("a scalar of ", to.size(), " bytes is fed ", values.size() * sizeof(T));
  }
  std::memcpy(to.data(), values.data(), to.size());
  return OkStatus();
}

// The words of the "rng" scalar: random ops index by the sample's position in the global batch.
inline std::vector<int64_t> RngWords(uint64_t seed, int64_t step, int64_t first_sample) {
  return {static_cast<int64_t>(seed), step, first_sample, 0};
}

inline Status CopyFeature(const Dataset& dataset, const MicroBatch& batch, const std::string& name,
                          std::span<std::byte> to) {
  const int feature = dataset.FindFeature(name);
  if (feature < 0) return InvalidArgument("the data set has no feature '", name, "'");
  const std::span<const std::byte> from = batch.bytes(feature);
  if (from.size() != to.size()) {
    return Internal("input ", name, " wants ", to.size(), " bytes, the micro-batch has ",
                    from.size());
  }
  std::memcpy(to.data(), from.data(), to.size());
  return OkStatus();
}

}  // namespace oc
