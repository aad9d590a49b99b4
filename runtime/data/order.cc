#include "openclaw/runtime/data/order.h"

#include <algorithm>
#include <cmath>

#include "openclaw/core/rng.h"

namespace oc {

Status SampleOrder::Validate(const SampleOrderOptions& options) {
  if (options.size <= 0) return InvalidArgument("order samples: the data set is empty");
  if (options.micro_batch <= 0 || options.micro_batches <= 0) {
    return InvalidArgument("order samples: micro_batch is ", options.micro_batch,
                           " and a step has ", options.micro_batches,
                           " micro-batches; both must be positive");
  }
  return OkStatus();
}

SampleOrder::SampleOrder(const SampleOrderOptions& options) : options_(options) {
  const Status status = Validate(options);
  OC_CHECK(status.ok(), std::string(status.message()));
}

int64_t SampleOrder::Indices(int64_t step, int64_t number, std::span<int64_t> out) const {
  const int64_t begin = (step * options_.micro_batches + number) * options_.micro_batch;
  int64_t count = options_.micro_batch;
  if (!options_.shuffle) count = std::clamp<int64_t>(options_.size - begin, 0, count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = begin + i;
    out[i] = options_.shuffle
                 ? static_cast<int64_t>(PermutedIndex(position % options_.size, options_.size,
                                                      options_.seed, position / options_.size))
                 : position;
  }
  return count;
}

int64_t SampleOrder::steps_per_pass() const {
  return (options_.size + global_batch() - 1) / global_batch();
}

int64_t SampleOrder::StepsOf(double epochs) const {
  const double samples = epochs * static_cast<double>(options_.size);
  // The small term keeps 0.1 * 3 epochs of 100 samples from losing a sample to rounding.
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::floor(samples / static_cast<double>(global_batch()) + 1e-9)));
}

const Batch& Batches::Iterator::operator*() {
  const SampleOrderOptions& options = order_->options();
  batch_.indices.resize(order_->global_batch());
  int64_t filled = 0;
  for (int64_t g = 0; g < options.micro_batches; ++g) {
    filled += order_->Indices(batch_.step, g, std::span(batch_.indices).subspan(filled));
  }
  batch_.indices.resize(filled);
  return batch_;
}

Batches::Iterator& Batches::Iterator::operator++() {
  ++batch_.step;
  return *this;
}

}  // namespace oc
