#include "openclaw/core/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace oc {

int64_t TensorType::bytes() const {
  int64_t bits;
  if (__builtin_mul_overflow(shape.num_elements(), int64_t{SizeInBits(dtype)}, &bits)) {
    return INT64_MAX;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

std::string TensorType::ToString() const { return absl::StrCat(Name(dtype), shape.ToString()); }

StatusOr<TensorType> TensorType::Parse(const std::string& text) {
  const size_t bracket = text.find('[');
  if (bracket == std::string::npos) return InvalidArgument("bad type '", text, "'");
  TensorType type;
  OC_ASSIGN_OR_RETURN(type.dtype, ParseDType(text.substr(0, bracket)));
  OC_ASSIGN_OR_RETURN(type.shape, Shape::Parse(text.substr(bracket)));
  return type;
}

Tensor::Tensor(TensorType type) : type_(std::move(type)), size_(type_.bytes()) {
  constexpr size_t kAlignment = 64;
  const size_t capacity = (static_cast<size_t>(size_) / kAlignment + 1) * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity));
  OC_CHECK(memory != nullptr, "host memory for ", type_.ToString());
  std::memset(memory, 0, capacity);
  data_ = std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); });
}

double Tensor::at(int64_t i) const { return LoadElement(type_.dtype, data_.get(), i); }
void Tensor::set(int64_t i, double value) { StoreElement(type_.dtype, data_.get(), i, value); }

double LoadElement(DType dtype, const std::byte* base, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(base)[i];
    case DType::kBF16:
      return static_cast<float>(reinterpret_cast<const BF16*>(base)[i]);
    case DType::kF16:
      return static_cast<float>(reinterpret_cast<const F16*>(base)[i]);
    case DType::kF64:
      return reinterpret_cast<const double*>(base)[i];
    case DType::kI32:
      return reinterpret_cast<const int32_t*>(base)[i];
    case DType::kI64:
      return static_cast<double>(reinterpret_cast<const int64_t*>(base)[i]);
    case DType::kU8:
      return reinterpret_cast<const uint8_t*>(base)[i];
    case DType::kBool:
      return reinterpret_cast<const uint8_t*>(base)[i] != 0 ? 1 : 0;
  }
  return 0;
}

void StoreElement(DType dtype, std::byte* base, int64_t i, double value) {
  switch (dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(base)[i] = static_cast<float>(value);
      break;
    case DType::kBF16:
      reinterpret_cast<BF16*>(base)[i] = BF16(static_cast<float>(value));
      break;
    case DType::kF16:
      reinterpret_cast<F16*>(base)[i] = F16(static_cast<float>(value));
      break;
    case DType::kF64:
      reinterpret_cast<double*>(base)[i] = value;
      break;
    case DType::kI32:
      reinterpret_cast<int32_t*>(base)[i] = static_cast<int32_t>(value);
      break;
    case DType::kI64:
      reinterpret_cast<int64_t*>(base)[i] = static_cast<int64_t>(value);
      break;
    case DType::kU8:
      reinterpret_cast<uint8_t*>(base)[i] = static_cast<uint8_t>(value);
      break;
    case DType::kBool:
      reinterpret_cast<uint8_t*>(base)[i] = value != 0 ? 1 : 0;
      break;
  }
}

namespace {

template <typename From, typename To>
void ConvertAll(const std::byte* source, std::byte* target, int64_t n) {
  const From* x = reinterpret_cast<const From*>(source);
  To* y = reinterpret_cast<To*>(target);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<float>(x[i]));
}

template <typename From>
void ConvertFrom(const std::byte* source, DType to, std::byte* target, int64_t n) {
  switch (to) {
    case DType::kF32:
      return ConvertAll<From, float>(source, target, n);
    case DType::kBF16:
      return ConvertAll<From, BF16>(source, target, n);
    case DType::kF16:
      return ConvertAll<From, F16>(source, target, n);
    default:
      OC_CHECK(false, "convert floats to ", Name(to));
  }
}

}  // namespace

void ConvertFloats(DType from, const std::byte* source, DType to, std::byte* target, int64_t n) {
  switch (from) {
    case DType::kF32:
      return ConvertFrom<float>(source, to, target, n);
    case DType::kBF16:
      return ConvertFrom<BF16>(source, to, target, n);
    case DType::kF16:
      return ConvertFrom<F16>(source, to, target, n);
    default:
      OC_CHECK(false, "convert floats from ", Name(from));
  }
}

}  // namespace oc
