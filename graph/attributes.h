// Named attributes of a node: small immutable settings such as a stride. Values that change between
// steps are never attributes but scalars (graph.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/shape.h"

namespace oc {

using AttrValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, Shape, DType>;

// The shortest decimal text that reads back as the same double; always with a point or exponent (or
// inf, nan), which tells it from an integer.
std::string FormatDouble(double value);

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttrValue>> values)
      : values_(values) {}

  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  void Set(const std::string& name, AttrValue value) { values_[name] = std::move(value); }
  const std::map<std::string, AttrValue>& values() const { return values_; }

  // The value, or `fallback` where the attribute is absent. Precondition: the type fits (graph
  // verification checks it through the op's list of attributes).
  int64_t Int(const std::string& name, int64_t fallback = 0) const { return Get(name, fallback); }
  double Double(const std::string& name, double fallback = 0) const { return Get(name, fallback); }
  bool Bool(const std::string& name, bool fallback = false) const { return Get(name, fallback); }
  std::string String(const std::string& name, std::string fallback = "") const {
    return Get(name, std::move(fallback));
  }
  std::vector<int64_t> Ints(const std::string& name, std::vector<int64_t> fallback = {}) const {
    return Get(name, std::move(fallback));
  }
  Shape GetShape(const std::string& name) const { return Get(name, Shape()); }
  DType GetDType(const std::string& name, DType fallback) const { return Get(name, fallback); }

  // Named dimensions inside shapes are bound.
  Attributes Bind(const DimBinding& binding) const;
  // {axis: 1, eps: 1e-05, mode: "tanh", pads: (1, 1), shape: [B, 4], to: bf16}; "" when empty.
  // Exact: doubles round-trip.
  std::string ToString() const;
  bool operator==(const Attributes& other) const = default;

 private:
  template <typename T>
  T Get(const std::string& name, T fallback) const {
    auto it = values_.find(name);
    if (it == values_.end()) return fallback;
    const T* value = std::get_if<T>(&it->second);
    OC_CHECK(value != nullptr, "attribute ", name, " has another type");
    return *value;
  }
  std::map<std::string, AttrValue> values_;
};

}  // namespace oc
