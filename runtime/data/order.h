// Which samples a step takes, as a pure function of logical positions: every rank can compute the
// indices of any micro-batch, and no plan changes them.
//
//   SampleOrder order({.size = 60000, .micro_batch = 32, .micro_batches = 4, .seed = 1});
//   order.Indices(step, 2, indices);               // micro-batch 2 of the step's 4
//
//   for (const oc::Batch& batch : oc::Batches(order, /*first_step=*/0, /*steps=*/100)) ...
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

struct SampleOrderOptions {
  int64_t size = 0;           // of the data set
  int64_t micro_batch = 32;   // samples in a micro-batch
  int64_t micro_batches = 1;  // in a step, over all replicas: the global batch is their product
  // true (training): an endless stream, epoch after epoch, each epoch in the order of its own
  // permutation. A batch may begin in one epoch and end in the next: no sample is dropped or
  // padded. false (evaluation): one pass in order; the last micro-batches may be smaller, or empty.
  bool shuffle = true;
  uint64_t seed = 1;
};

// Sample i of micro-batch g of step s has the position p = (s * micro_batches + g) * micro_batch +
// i in the stream; its index is PermutedIndex(p mod size) of epoch p / size. The samples of a step
// therefore depend on the global batch alone, not on how it is cut. Immutable; thread-safe.
class SampleOrder {
 public:
  // Precondition: Validate(options).ok().
  explicit SampleOrder(const SampleOrderOptions& options);
  // Sizes positive, or kInvalidArgument.
  static Status Validate(const SampleOrderOptions& options);

  const SampleOrderOptions& options() const { return options_; }
  int64_t global_batch() const { return options_.micro_batch * options_.micro_batches; }
  // Writes the sample indices of a micro-batch to the front of `out` (at least micro_batch long)
  // and returns how many there are: micro_batch, or fewer at the end of an unshuffled pass.
  int64_t Indices(int64_t step, int64_t number, std::span<int64_t> out) const;
  // The steps of an unshuffled pass.
  int64_t steps_per_pass() const;
  // The training steps in so many epochs: whole batches only, at least one.
  int64_t StepsOf(double epochs) const;

 private:
  SampleOrderOptions options_;
};

// The samples of one step: indices only, in logical order. A training step loads those that its
// process needs.
struct Batch {
  int64_t step = 0;
  std::vector<int64_t> indices;
};

// The batches of `steps` steps as a range. It holds the order by value.
class Batches {
 public:
  Batches(const SampleOrder& order, int64_t first_step, int64_t steps)
      : order_(order), first_(first_step), last_(first_step + steps) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;

    Iterator(const SampleOrder* order, int64_t step) : order_(order) { batch_.step = step; }
    // Valid until the iterator moves.
    const Batch& operator*();
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return batch_.step == other.batch_.step; }

   private:
    const SampleOrder* order_;
    Batch batch_;
  };
  Iterator begin() const { return {&order_, first_}; }
  Iterator end() const { return {&order_, last_}; }

 private:
  SampleOrder order_;
  int64_t first_, last_;
};

}  // namespace oc
