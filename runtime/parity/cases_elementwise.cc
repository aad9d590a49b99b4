#include <cmath>

#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

// Empty, one, odd, beside vector widths, and large enough to be split among threads.
const std::vector<Shape> kShapes = {{0}, {1}, {7}, {16}, {33}, {5, 0, 3}, {3, 5, 7}, {129, 517}};

std::vector<DType> With(std::vector<DType> a, const std::vector<DType>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string NameOf(const Shape& shape) { return shape.ToString(); }

void AddBinary(std::vector<OpCase>& cases, const std::string& op) {
  const bool div = op == "div";
  // Divisors keep away from zero.
  const auto second = [&](const Shape& s) { return div ? Uniform(s, 0.5, 2) : Normal(s); };
  for (const Shape& shape : kShapes) {
    cases.push_back({.op = op, .name = NameOf(shape), .inputs = {Normal(shape), second(shape)}});
  }
  const std::vector<std::pair<Shape, Shape>> suffixes = {
      {{5}, {}},     {{3, 5}, {5}}, {{2, 3, 5}, {3, 5}}, {{2, 3, 5}, {}},       {{64, 33}, {33}},
      {{0, 4}, {4}}, {{1, 1}, {1}}, {{300, 301}, {301}}, {{37, 4, 16}, {4, 16}}};
  for (const auto& [a, b] : suffixes) {
    cases.push_back({.op = op,
                     .name = absl::StrCat(NameOf(a), " and suffix ", NameOf(b)),
                     .inputs = {Normal(a), second(b)}});
  }
  if (div) return;
  for (const Shape& shape : {Shape{9}, Shape{4, 33}}) {
    cases.push_back({.op = op,
                     .name = absl::StrCat("integers ", NameOf(shape)),
                     .inputs = {Whole(shape, 10, 15), Whole(shape, 0, 10)},
                     .dtypes = kWholes});
  }
  cases.push_back({.op = op,
                   .name = "integers, suffix",
                   .inputs = {Whole({4, 33}, 10, 15), Whole({33}, 0, 10)},
                   .dtypes = kWholes});
}

void AddCompare(std::vector<OpCase>& cases, const std::string& op) {
  for (const Shape& shape : kShapes) {
    cases.push_back({.op = op,
                     .name = NameOf(shape),
                     .inputs = {Whole(shape, 0, 3), Whole(shape, 0, 3)},
                     .dtypes = With(kFloats, kWholes)});
  }
  cases.push_back({.op = op,
                   .name = "suffix",
                   .inputs = {Whole({6, 35}, 0, 3), Whole({35}, 0, 3)},
                   .dtypes = With(kFloats, kWholes)});
  cases.push_back(
      {.op = op,
       .name = "nothing is equal to NaN or less",
       .inputs = {Values({4}, {NAN, 1, NAN, INFINITY}), Values({4}, {NAN, NAN, 1, INFINITY})}});
}

void AddWhere(std::vector<OpCase>& cases) {
  for (const Shape& shape : kShapes) {
    cases.push_back({.op = "where",
                     .name = NameOf(shape),
                     .inputs = {Bools(shape), Normal(shape), Normal(shape)}});
  }
  cases.push_back({.op = "where",
                   .name = "integers",
                   .inputs = {Bools({5, 7}), Whole({5, 7}, 0, 100), Whole({5, 7}, 0, 100)},
                   .dtypes = With(kWholes, {DType::kBool})});
  cases.push_back(
      {.op = "where",
       .name = "what is not taken may be anything",
       .inputs = {Values({4}, {1, 0, 1, 0}).As(DType::kBool), Values({4}, {1, NAN, 2, INFINITY}),
                  Values({4}, {NAN, 3, INFINITY, 4})},
       .gradient = false});
}

void AddUnary(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, const std::function<Input(const Shape&)>& input,
                       const Attributes& attrs = {}, const std::string& variant = "") {
    for (const Shape& shape : kShapes) {
      cases.push_back(
          {.op = op, .name = variant + NameOf(shape), .inputs = {input(shape)}, .attrs = attrs});
    }
  };
  const auto normal = [](const Shape& s) { return Normal(s, 0, 2); };
  const auto positive = [](const Shape& s) { return Uniform(s, 0.1, 5); };
  for (const char* op : {"relu", "silu", "tanh", "sigmoid", "exp"}) add(op, normal);
  for (const char* op : {"log", "sqrt", "reciprocal"}) add(op, positive);
  add("gelu", normal);
  add("gelu", normal, {{"approximate", std::string("tanh")}}, "tanh ");
  add("scale", normal, {{"factor", 0.3}, {"offset", -2.0}});
  add("scale", normal, {{"factor", -1.0}}, "no offset ");
  add("copy", normal);
  cases.push_back({.op = "copy",
                   .name = "integers",
                   .inputs = {Whole({3, 37}, 0, 100)},
                   .dtypes = With(kWholes, {DType::kBool})});
  // Where the functions saturate.
  const Input far = Values({9}, {-1e4, -100, -20, -1e-3, 0, 1e-3, 20, 100, 1e4});
  for (const char* op : {"relu", "silu", "tanh", "sigmoid"}) {
    cases.push_back({.op = op, .name = "far", .inputs = {far}, .gradient = false});
  }
  for (const char* mode : {"none", "tanh"}) {
    cases.push_back({.op = "gelu",
                     .name = absl::StrCat(mode, " far"),
                     .inputs = {far},
                     .attrs = {{"approximate", std::string(mode)}},
                     .gradient = false});
  }
  cases.push_back(
      {.op = "exp", .name = "far", .inputs = {Values({4}, {-200, -90, 0, 8})}, .gradient = false});
}

void AddUnaryGradients(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& op, double low, double high, const Attributes& attrs = {},
                       const std::string& variant = "") {
    for (const Shape& shape : kShapes) {
      cases.push_back({.op = op,
                       .name = variant + NameOf(shape),
                       .inputs = {Normal(shape), Uniform(shape, low, high)},
                       .attrs = attrs});
    }
  };
  add("relu_grad", -1, 1);
  add("tanh_grad", -1, 1);
  add("sigmoid_grad", 0, 1);
  add("sqrt_grad", 0.3, 2);
  add("silu_grad", -4, 4);
  add("gelu_grad", -4, 4);
  add("gelu_grad", -4, 4, {{"approximate", std::string("tanh")}}, "tanh ");
  cases.push_back({.op = "relu_grad",
                   .name = "none at zero",
                   .inputs = {Constant({4}, 2), Values({4}, {-1, 0, 1e-3, 1})}});
}

void AddCast(std::vector<OpCase>& cases) {
  const std::vector<DType> all = With(With(kFloats, kWholes), {DType::kBool});
  for (DType to : all) {
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{5, 19}, Shape{100, 1003}}) {
      cases.push_back({.op = "cast",
                       .name = absl::StrCat("to ", Name(to), " ", NameOf(shape)),
                       .inputs = {Whole(shape, 0, 100)},
                       .attrs = {{"dtype", to}},
                       .dtypes = all,
                       .gradient = to == DType::kF64});
    }
    cases.push_back({.op = "cast",
                     .name = absl::StrCat("fractions to ", Name(to)),
                     .inputs = {Uniform({4, 33}, 0.0, 60.0)},
                     .attrs = {{"dtype", to}},
                     .gradient = to == DType::kF64});
  }
  // Nearest, ties to even; beyond the largest, infinity.
  cases.push_back(
      {.op = "cast",
       .name = "rounding to bf16",
       .inputs = {Values({6}, {1.00390625, 1.01171875, -1.00390625, 3.4e38, 1e-40, 0.1})},
       .attrs = {{"dtype", DType::kBF16}},
       .dtypes = kF32Only,
       .tolerance = 0});
  cases.push_back({.op = "cast",
                   .name = "rounding to f16",
                   .inputs = {Values({6}, {1.00048828125, 1.00146484375, 65519, 65520, 1e-7, 0.1})},
                   .attrs = {{"dtype", DType::kF16}},
                   .dtypes = kF32Only,
                   .tolerance = 0});
}

}  // namespace

std::vector<OpCase> ElementwiseCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"add", "sub", "mul", "div"}) AddBinary(cases, op);
  for (const char* op : {"equal", "less", "greater"}) AddCompare(cases, op);
  AddWhere(cases);
  AddUnary(cases);
  AddUnaryGradients(cases);
  AddCast(cases);
  return cases;
}

}  // namespace oc::parity
