#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

const std::vector<Shape> kShapes = {{0}, {1}, {7}, {33}, {3, 5}, {129, 517}};

const std::vector<DType> kWide = {DType::kF32, DType::kF64};

Input Scalar(double value) { return Constant({}, value).As(DType::kF32); }

Input Partials(int64_t n) { return Uniform({n}, 0, 1).As(DType::kF32); }

void AddState(std::vector<OpCase>& cases) {
  for (const Shape& shape : kShapes) {
    const std::string name = shape.ToString();
    cases.push_back({.op = "accumulate", .name = name, .inputs = {Normal(shape), Normal(shape)}});
    cases.push_back({.op = "accumulate",
                     .name = "bf16 into it " + name,
                     .inputs = {Normal(shape), Normal(shape).As(DType::kBF16)},
                     .dtypes = kF32Only});
    cases.push_back({.op = "lerp",
                     .name = name,
                     .inputs = {Normal(shape), Normal(shape)},
                     .attrs = {{"rate", 0.1}}});
    cases.push_back({.op = "ema",
                     .name = name,
                     .inputs = {Normal(shape), Normal(shape), Scalar(2)},
                     .attrs = {{"decay", 0.9}},
                     .dtypes = kWide});
    cases.push_back({.op = "ema",
                     .name = "first step " + name,
                     .inputs = {Constant(shape, 0), Normal(shape), Scalar(1)},
                     .attrs = {{"decay", 0.9}},
                     .dtypes = kWide});
    cases.push_back({.op = "sum_squares", .name = name, .inputs = {Normal(shape)}});
    cases.push_back({.op = "sum_squares",
                     .name = "three " + name,
                     .inputs = {Normal(shape), Normal({4}), Normal({257})}});
  }
  cases.push_back({.op = "ema",
                   .name = "list",
                   .inputs = {Normal({7}), Normal({7}), Normal({33}), Normal({33}), Scalar(2)},
                   .attrs = {{"decay", 0.999}},
                   .dtypes = kWide});
  // About whole chunks.
  for (int64_t n : {int64_t{65536}, int64_t{65537}, int64_t{150000}}) {
    cases.push_back({.op = "sum_squares", .name = absl::StrCat(n), .inputs = {Normal({n})}});
  }
  for (int64_t n : {0, 1, 3, 2000}) {
    cases.push_back({.op = "sum_partials",
                     .name = absl::StrCat(n),
                     .inputs = {Partials(n)},
                     .dtypes = kF32Only});
    cases.push_back({.op = "sum_partials",
                     .name = absl::StrCat("three with ", n),
                     .inputs = {Partials(5), Partials(n), Partials(1)},
                     .dtypes = kF32Only});
  }
  for (double sum : {0.0, 4.0, static_cast<double>(std::numeric_limits<float>::infinity())}) {
    cases.push_back({.op = "clip_factor",
                     .name = absl::StrCat("no limit ", sum),
                     .inputs = {Scalar(sum)},
                     .attrs = {{"max_norm", std::numeric_limits<double>::infinity()}},
                     .dtypes = kF32Only});
  }
  for (double sum : {0.0, 0.25, 1.0, 100.0}) {
    cases.push_back({.op = "clip_factor",
                     .name = absl::StrCat(sum),
                     .inputs = {Scalar(sum)},
                     .attrs = {{"max_norm", 1.0}},
                     .dtypes = kF32Only});
  }
}

void AddDropout(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{0, 3}, Shape{1, 1}, Shape{7}, Shape{3, 5, 7}, Shape{16, 1001}}) {
    for (double p : {0.0, 0.1, 0.5, 0.9}) {
      for (const std::vector<double>& rng : {std::vector<double>{1, 0, 0, 0}, {7, 3, 5, 0}}) {
        cases.push_back({.op = "dropout",
                         .name = absl::StrCat(shape.ToString(), " p ", p, " step ", rng[1]),
                         .inputs = {Normal(shape), Values({4}, rng).As(DType::kI64)},
                         .attrs = {{"p", p}, {"stream", int64_t{1234567890123}}}});
      }
    }
  }
  cases.push_back({.op = "dropout",
                   .name = "off",
                   .inputs = {Normal({3, 5}), Values({4}, {1, 2, 3, 0}).As(DType::kI64)},
                   .attrs = {{"p", 0.5}, {"stream", int64_t{3}}, {"training", false}}});
}

}  // namespace

std::vector<OpCase> UpdateCases() {
  std::vector<OpCase> cases;
  AddState(cases);
  AddDropout(cases);
  return cases;
}

}  // namespace oc::parity
