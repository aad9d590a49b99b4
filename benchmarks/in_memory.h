// A data set in memory, so that a benchmark times training and not the making of its data.
#pragma once

#include <algorithm>
#include <vector>

#include "openclaw/runtime/data/dataset.h"

namespace oc {

// A data set read once: its samples are copied from memory, as the peer's are.
class InMemory : public Dataset {
 public:
  explicit InMemory(const Dataset& from) : Dataset(from.features()), size_(from.size()) {
    for (int64_t i = 0; i < size_; ++i) {
      std::vector<std::byte*> rows;
      for (const RowLayout& layout : layouts()) {
        rows_.emplace_back(static_cast<size_t>(layout.bytes));
        rows.push_back(rows_.back().data());
      }
      Sample sample(layouts(), rows);
      OC_CHECK(from.Read(i, sample).ok());
    }
  }
  int64_t size() const override { return size_; }
  Status Read(int64_t index, Sample& sample) const override {
    for (int f = 0; f < sample.num_features(); ++f) {
      const std::vector<std::byte>& row = rows_[index * sample.num_features() + f];
      std::copy(row.begin(), row.end(), sample.bytes(f).begin());
    }
    return OkStatus();
  }

 private:
  int64_t size_;
  std::vector<std::vector<std::byte>> rows_;
};

}  // namespace oc
