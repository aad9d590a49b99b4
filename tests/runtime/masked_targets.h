// A data set with some of its targets hidden, for tests of what a mean is taken over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "openclaw/runtime/data/dataset.h"

namespace oc {

// Hides the first hidden(index, length) targets of each sample (-1, which no loss counts): where
// samples differ in that, micro-batches differ in their number of valid tokens, and a mean of means
// is not the mean.
class MaskedTargets : public Dataset {
 public:
  using Hidden = std::function<int64_t(int64_t index, int64_t length)>;

  explicit MaskedTargets(
      std::unique_ptr<Dataset> inner,
      Hidden hidden = [](int64_t index, int64_t length) { return index * 7 % length; })
      : Dataset(inner->features()),
        inner_(std::move(inner)),
        hidden_(std::move(hidden)),
        targets_(inner_->FindFeature("targets")) {}
  int64_t size() const override { return inner_->size(); }
  Status Read(int64_t index, Sample& sample) const override {
    OC_RETURN_IF_ERROR(inner_->Read(index, sample));
    const std::span<int32_t> row = sample.row<int32_t>(targets_);
    const int64_t hidden = hidden_(index, static_cast<int64_t>(row.size()));
    for (int64_t i = 0; i < hidden; ++i) row[i] = -1;
    return OkStatus();
  }

 private:
  std::unique_ptr<Dataset> inner_;
  Hidden hidden_;
  int targets_;
};

}  // namespace oc
