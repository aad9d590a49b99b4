#include "openclaw/runtime/data/micro_batch.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace oc {

MicroBatch::MicroBatch(const Dataset& dataset, int64_t capacity)
    : dataset_(&dataset), indices_(capacity), rows_(dataset.features().size()) {
  for (const Feature& feature : dataset.features()) {
    std::vector<Dim> dims = feature.type.shape.dims();
    dims.insert(dims.begin(), Dim(capacity));
    tensors_.emplace_back(TensorType{feature.type.dtype, Shape(std::move(dims))});
  }
}

Status MicroBatch::Fill(std::span<const int64_t> indices) {
  OC_CHECK(static_cast<int64_t>(indices.size()) <= capacity(), indices.size(), " samples");
  samples_ = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t f = 0; f < rows_.size(); ++f) {
      rows_[f] = tensors_[f].bytes().data() + i * dataset_->layouts()[f].bytes;
    }
    Sample sample(dataset_->layouts(), rows_);
    Status status;
    try {
      status = dataset_->Read(indices[i], sample);
    } catch (const std::exception& e) {
      status = Internal("exception: ", e.what());
    }
    if (!status.ok()) return Annotate(status, absl::StrCat("read sample ", indices[i]));
  }
  std::copy(indices.begin(), indices.end(), indices_.begin());
  samples_ = static_cast<int64_t>(indices.size());
  return OkStatus();
}

int64_t MicroBatch::buffer_bytes() const {
  int64_t total = 0;
  for (const RowLayout& layout : dataset_->layouts()) total += layout.bytes * capacity();
  return total;
}

}  // namespace oc
