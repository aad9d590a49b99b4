// Tensors in host memory: row-major, contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/shape.h"

namespace oc {

// What a value is: dtype and shape.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  // Precondition: the shape is bound. Of an absurd shape the largest number.
  int64_t bytes() const;
  TensorType Bind(const DimBinding& binding) const { return {dtype, shape.Bind(binding)}; }
  bool operator==(const TensorType& other) const = default;
  std::string ToString() const;  // "f32[B, 10]"
  static StatusOr<TensorType> Parse(const std::string& text);
};

// A tensor that owns its memory (shared between copies), 64-byte aligned. Bound shapes only.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorType type);  // zeros
  template <typename T>
  static Tensor Of(const Shape& shape, const std::vector<T>& values) {
    Tensor t({DTypeOf<T>::value, shape});
    OC_CHECK(static_cast<int64_t>(values.size()) == shape.num_elements());
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t num_elements() const { return type_.shape.num_elements(); }
  bool empty() const { return data_ == nullptr; }

  std::span<std::byte> bytes() { return {data_.get(), static_cast<size_t>(size_)}; }
  std::span<const std::byte> bytes() const { return {data_.get(), static_cast<size_t>(size_)}; }
  // Precondition: T is the dtype.
  template <typename T>
  T* data() {
    OC_CHECK(DTypeOf<T>::value == type_.dtype, Name(type_.dtype));
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* data() const {
    OC_CHECK(DTypeOf<T>::value == type_.dtype, Name(type_.dtype));
    return reinterpret_cast<const T*>(data_.get());
  }
  // Element i as a double, whatever the dtype.
  double at(int64_t i) const;
  void set(int64_t i, double value);

 private:
  TensorType type_;
  int64_t size_ = 0;
  std::shared_ptr<std::byte> data_;
};

// Element conversions on raw memory, as Tensor::at and set.
double LoadElement(DType dtype, const std::byte* base, int64_t index);
void StoreElement(DType dtype, std::byte* base, int64_t index, double value);
// `n` floats of one type (f32, bf16, f16) as those of another, rounded to nearest even.
void ConvertFloats(DType from, const std::byte* source, DType to, std::byte* target, int64_t n);

}  // namespace oc
