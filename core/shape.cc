#include "openclaw/core/shape.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>

namespace oc {
namespace {

// Sizes from a damaged file may be absurd: the product stays at the largest number, which no memory
// and no check takes, instead of overflowing.
int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// A letter or '_', then letters, digits and '_'.
bool IsDimName(const std::string& name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

}  // namespace

int64_t Dim::size() const {
  OC_CHECK(bound(), "dimension ", ToString(), " is not bound");
  return factor_;
}

Dim Dim::Bind(const DimBinding& binding) const {
  Dim result(factor_);
  for (const std::string& name : names_) {
    auto it = binding.find(name);
    if (it == binding.end()) {
      result.names_.push_back(name);
    } else {
      result.factor_ = SaturatingProduct(result.factor_, it->second);
    }
  }
  return result;
}

StatusOr<Dim> Dim::DividedBy(const Dim& other) const {
  Dim result = *this;
  for (const std::string& name : other.names_) {
    auto it = std::find(result.names_.begin(), result.names_.end(), name);
    if (it == result.names_.end()) {
      return InvalidArgument("dimension ", ToString(), " is no multiple of ", other.ToString());
    }
    result.names_.erase(it);
  }
  if (other.factor_ == 0 || factor_ % other.factor_ != 0) {
    return InvalidArgument("dimension ", ToString(), " is no multiple of ", other.ToString());
  }
  result.factor_ = factor_ / other.factor_;
  return result;
}

Dim Dim::operator*(const Dim& other) const {
  Dim result(SaturatingProduct(factor_, other.factor_));
  result.names_ = names_;
  result.names_.insert(result.names_.end(), other.names_.begin(), other.names_.end());
  std::sort(result.names_.begin(), result.names_.end());
  return result;
}

std::string Dim::ToString() const {
  if (names_.empty()) return absl::StrCat(factor_);
  const std::string joined = absl::StrJoin(names_, "*");
  return factor_ == 1 ? joined : absl::StrCat(factor_, "*", joined);
}

StatusOr<Dim> Dim::Parse(const std::string& text) {
  Dim result(1);
  for (absl::string_view part : absl::StrSplit(text, '*')) {
    int64_t number;
    if (!part.empty() && part[0] >= '0' && part[0] <= '9' && absl::SimpleAtoi(part, &number)) {
      result = result * Dim(number);
    } else {
      const std::string name(part);
      if (!IsDimName(name)) return InvalidArgument("bad dimension '", text, "'");
      result = result * Dim(name);
    }
  }
  return result;
}

Shape Shape::Of(const std::vector<int64_t>& sizes) {
  return Shape(std::vector<Dim>(sizes.begin(), sizes.end()));
}

const Dim& Shape::operator[](int i) const {
  const int index = i < 0 ? i + rank() : i;
  OC_CHECK(index >= 0 && index < rank(), "dimension ", i, " of ", ToString());
  return dims_[index];
}

Dim& Shape::operator[](int i) { return const_cast<Dim&>(std::as_const(*this)[i]); }

bool Shape::bound() const {
  return std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.bound(); });
}

Dim Shape::elements() const {
  Dim product(1);
  for (const Dim& d : dims_) product = product * d;
  return product;
}

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> result;
  for (const Dim& d : dims_) result.push_back(d.size());
  return result;
}

Shape Shape::Bind(const DimBinding& binding) const {
  std::vector<Dim> dims;
  for (const Dim& d : dims_) dims.push_back(d.Bind(binding));
  return Shape(std::move(dims));
}

std::string Shape::ToString() const {
  return absl::StrCat(
      "[",
      absl::StrJoin(dims_, ", ", [](std::string* out, const Dim& d) { out->append(d.ToString()); }),
      "]");
}

StatusOr<Shape> Shape::Parse(const std::string& text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return InvalidArgument("bad shape '", text, "'");
  }
  std::vector<Dim> dims;
  const std::string inner = text.substr(1, text.size() - 2);
  if (inner.find_first_not_of(' ') == std::string::npos) return Shape();
  for (absl::string_view part : absl::StrSplit(inner, ',')) {
    OC_ASSIGN_OR_RETURN(Dim d, Dim::Parse(std::string(absl::StripAsciiWhitespace(part))));
    dims.push_back(d);
  }
  return Shape(std::move(dims));
}

}  // namespace oc
