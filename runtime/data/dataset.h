// Data sets: what a user derives from, and what the loader reads.
//
//   class Parity : public oc::Dataset {
//    public:
//     Parity() : Dataset({{"bits", {DType::kF32, {8}}}, {"labels", {DType::kI32, {}}}}) {}
//     int64_t size() const override { return 256; }
//     Status Read(int64_t index, Sample& sample) const override {
//       for (int i = 0; i < 8; ++i) sample.row<float>(0)[i] = (index >> i) & 1;
//       sample.row<int32_t>(1)[0] = std::popcount(static_cast<uint64_t>(index)) % 2;
//       return OkStatus();
//     }
//   };
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"

namespace oc {

// One named value of every sample; the type has no batch dimension: f32[28, 28, 1], i32[].
struct Feature {
  std::string name;
  TensorType type;
};

// A feature's type in the form that reading needs: plain numbers, computed once.
struct RowLayout {
  DType dtype = DType::kF32;
  int64_t elements = 0;
  int64_t bytes = 0;
};

// Where one sample is written: one row for each feature, in rows of a preallocated batch. Owns
// nothing; valid during the Read that it is given to.
class Sample {
 public:
  Sample(std::span<const RowLayout> layouts, std::span<std::byte* const> rows)
      : layouts_(layouts), rows_(rows) {}

  int num_features() const { return static_cast<int>(layouts_.size()); }
  std::span<std::byte> bytes(int feature) {
    return {rows_[feature], static_cast<size_t>(layouts_[feature].bytes)};
  }
  // Precondition: T is the feature's dtype.
  template <typename T>
  std::span<T> row(int feature) {
    const RowLayout& layout = layouts_[feature];
    OC_CHECK(DTypeOf<T>::value == layout.dtype, Name(layout.dtype));
    return {reinterpret_cast<T*>(rows_[feature]), static_cast<size_t>(layout.elements)};
  }

 private:
  std::span<const RowLayout> layouts_;
  std::span<std::byte* const> rows_;
};

// Samples that are read by index. A derived class gives the features to the constructor and
// implements two methods; both are called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  // The number of samples; constant.
  virtual int64_t size() const = 0;
  // Writes every element of every row of `sample`, always the same for one index (0 <= index <
  // size()). It should not allocate. What it left in the rows when it returns an error is ignored.
  virtual Status Read(int64_t index, Sample& sample) const = 0;

  const std::vector<Feature>& features() const { return features_; }
  const std::vector<RowLayout>& layouts() const { return layouts_; }
  // The position in features(), or -1.
  int FindFeature(const std::string& name) const;

 protected:
  // Precondition: bound shapes and distinct names.
  explicit Dataset(std::vector<Feature> features);

 private:
  std::vector<Feature> features_;
  std::vector<RowLayout> layouts_;
};

}  // namespace oc
