// The samples of one micro-batch, in buffers that are allocated once and filled again and again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"
#include "openclaw/runtime/data/dataset.h"

namespace oc {

// Not thread-safe: filled by one thread, then read by any number.
class MicroBatch {
 public:
  // Room for `capacity` samples of `dataset`, which must outlive it.
  MicroBatch(const Dataset& dataset, int64_t capacity);

  // Reads the samples `indices` (at most the capacity) into rows 0, 1, ... Allocates nothing unless
  // it fails; the error names the sample. An exception of the data set becomes kInternal.
  Status Fill(std::span<const int64_t> indices);

  int64_t capacity() const { return static_cast<int64_t>(indices_.size()); }
  // The filled rows; fewer than the capacity in the last micro-batch of an evaluation, even none.
  int64_t samples() const { return samples_; }
  std::span<const int64_t> indices() const {
    return {indices_.data(), static_cast<size_t>(samples_)};
  }
  // The filled rows of a feature, [samples, ...] row-major.
  std::span<const std::byte> bytes(int feature) const {
    return tensors_[feature].bytes().first(samples_ * dataset_->layouts()[feature].bytes);
  }
  // The whole buffer, [capacity, ...]: rows from samples() on hold old values.
  const Tensor& tensor(int feature) const { return tensors_[feature]; }
  int64_t buffer_bytes() const;

  // Which one it is; set by who fills it.
  int64_t step = 0;
  int64_t number = 0;  // logical, within the step

 private:
  const Dataset* dataset_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> indices_;
  std::vector<std::byte*> rows_;  // of the sample being read
  int64_t samples_ = 0;
};

}  // namespace oc
