#include "openclaw/runtime/data/synthetic.h"

#include <algorithm>
#include <array>
#include <vector>

#include "openclaw/core/rng.h"

namespace oc {
namespace {

// Philox streams; those of samples are offset by the split, so that splits differ.
constexpr uint64_t kPatterns = 0, kSamples = 1;

class SyntheticImages : public Dataset {
 public:
  explicit SyntheticImages(const SyntheticImagesOptions& o)
      : Dataset({{"images", {DType::kF32, {Dim(o.height), Dim(o.width), Dim(o.channels)}}},
                 {"labels", {DType::kI32, {}}}}),
        options_(o),
        rng_(o.seed) {
    OC_CHECK(o.size > 0 && o.classes > 0 && layouts()[0].elements > 0);
    patterns_.resize(o.classes * layouts()[0].elements);
    for (size_t i = 0; i < patterns_.size(); ++i) {
      patterns_[i] = static_cast<float>(Normal(rng_, kPatterns, i));
    }
  }
  int64_t size() const override { return options_.size; }
  Status Read(int64_t index, Sample& sample) const override {
    const uint64_t stream = kSamples + options_.split;
    std::span<float> image = sample.row<float>(0);
    const auto elements = static_cast<int64_t>(image.size());
    // A block of words before each sample's noise holds its label.
    const uint64_t base = index * ((elements + 3) / 4 * 4 + 4);
    const int64_t label = rng_.Word(stream, base) % options_.classes;
    for (int64_t i = 0; i < elements; i += 4) {
      const std::array<double, 4> normal = NormalBlock(rng_, stream, (base + 4 + i) / 4);
      for (int64_t j = i; j < std::min(i + 4, elements); ++j) {
        image[j] =
            patterns_[label * elements + j] + static_cast<float>(options_.noise * normal[j - i]);
      }
    }
    sample.row<int32_t>(1)[0] = static_cast<int32_t>(label);
    return OkStatus();
  }

 private:
  SyntheticImagesOptions options_;
  Philox rng_;
  std::vector<float> patterns_;
};

class SyntheticTokens : public Dataset {
 public:
  explicit SyntheticTokens(const SyntheticTokensOptions& o)
      : Dataset({{"tokens", {DType::kI32, {Dim(o.context)}}},
                 {"targets", {DType::kI32, {Dim(o.context)}}}}),
        options_(o),
        rng_(o.seed) {
    OC_CHECK(o.size > 0 && o.context > 0 && o.vocabulary > 0);
  }
  int64_t size() const override { return options_.size; }
  Status Read(int64_t index, Sample& sample) const override {
    std::span<int32_t> tokens = sample.row<int32_t>(0), targets = sample.row<int32_t>(1);
    int32_t token = Draw(index, 0);
    for (int64_t i = 0; i < options_.context; ++i) {
      tokens[i] = token;
      const Philox::Words words = rng_.Block(kSamples + options_.split, Position(index, i + 1));
      token = UniformFloat(words[1]) < options_.noise
                  ? Draw(index, i + 1)
                  : static_cast<int32_t>(
                        PermutedIndex(token, options_.vocabulary, options_.seed, kPatterns));
      targets[i] = token;
    }
    return OkStatus();
  }

 private:
  uint64_t Position(int64_t index, int64_t i) const { return index * (options_.context + 1) + i; }
  int32_t Draw(int64_t index, int64_t i) const {
    const Philox::Words words = rng_.Block(kSamples + options_.split, Position(index, i));
    return static_cast<int32_t>(words[0] % options_.vocabulary);
  }

  SyntheticTokensOptions options_;
  Philox rng_;
};

}  // namespace

std::unique_ptr<Dataset> MakeSyntheticImages(const SyntheticImagesOptions& options) {
  return std::make_unique<SyntheticImages>(options);
}

std::unique_ptr<Dataset> MakeSyntheticTokens(const SyntheticTokensOptions& options) {
  return std::make_unique<SyntheticTokens>(options);
}

}  // namespace oc
