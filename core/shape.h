// Shapes whose dimensions may be named and bound later.
//
//   Shape s = {Dim("B"), 28, 28, 1};         // B is bound before lowering
//   Shape b = s.Bind({{"B", 64}});           // [64, 28, 28, 1]
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

using DimBinding = std::map<std::string, int64_t>;

// A size: a product of a positive (or zero) factor and any number of names, as 4*B*T. Enough to
// carry merged dimensions through reshape; whatever needs more must be bound first. A product
// beyond 2^63 stays at the largest number.
class Dim {
 public:
  Dim(int64_t size = 1) : factor_(size) {}  // NOLINT: sizes read as plain numbers
  explicit Dim(const std::string& name) : names_{name} {}
  explicit Dim(const char* name) : names_{name} {}

  bool bound() const { return names_.empty(); }
  // Precondition: bound().
  int64_t size() const;
  int64_t factor() const { return factor_; }
  const std::vector<std::string>& names() const { return names_; }

  // Names missing in `binding` stay.
  Dim Bind(const DimBinding& binding) const;
  // Exact quotient, or kInvalidArgument.
  StatusOr<Dim> DividedBy(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  bool operator==(const Dim& other) const = default;
  std::string ToString() const;  // "B", "4*B*T", "28"
  // Names begin with a letter or '_' and go on with digits too; kInvalidArgument otherwise.
  static StatusOr<Dim> Parse(const std::string& text);

 private:
  int64_t factor_ = 1;
  std::vector<std::string> names_;  // sorted
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  static Shape Of(const std::vector<int64_t>& sizes);

  int rank() const { return static_cast<int>(dims_.size()); }
  // Negative indices count from the end. Precondition: in range.
  const Dim& operator[](int i) const;
  Dim& operator[](int i);
  const std::vector<Dim>& dims() const { return dims_; }

  bool bound() const;
  Dim elements() const;  // the product of all
  // Precondition: bound().
  int64_t num_elements() const { return elements().size(); }
  std::vector<int64_t> sizes() const;

  Shape Bind(const DimBinding& binding) const;
  bool operator==(const Shape& other) const = default;
  std::string ToString() const;  // "[B, 28, 28, 1]"
  static StatusOr<Shape> Parse(const std::string& text);

 private:
  std::vector<Dim> dims_;
};

}  // namespace oc
