#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

const std::vector<Shape> kShapes = {{0}, {1}, {7}, {33}, {3, 5}, {129, 517}};
const std::vector<DType> kWide = {DType::kF32, DType::kF64};

Input Scalar(double value) { return Constant({}, value).As(DType::kF32); }

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
    cases.push_back({.op = "sum_squares", .name = name, .inputs = {Normal(shape)}});
    cases.push_back({.op = "sum_squares",
                     .name = "three " + name,
                     .inputs = {Normal(shape), Normal({4}), Normal({257})}});
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

void AddSgd(std::vector<OpCase>& cases) {
  for (const Shape& shape : kShapes) {
    for (double decay : {0.0, 0.1}) {
      const std::string name = absl::StrCat(shape.ToString(), " decay ", decay);
      cases.push_back({.op = "sgd",
                       .name = name,
                       .inputs = {Normal(shape), Normal(shape), Scalar(0.1), Scalar(0.5)},
                       .attrs = {{"weight_decay", decay}},
                       .dtypes = kWide});
      for (bool nesterov : {false, true}) {
        cases.push_back(
            {.op = "sgd",
             .name = absl::StrCat(name, nesterov ? " nesterov" : " momentum"),
             .inputs = {Normal(shape), Normal(shape), Scalar(0.1), Scalar(0.5), Normal(shape)},
             .attrs = {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", decay}},
             .dtypes = kWide});
      }
    }
  }
}

void AddAdamW(std::vector<OpCase>& cases) {
  for (const Shape& shape : kShapes) {
    for (double step : {1.0, 100.0}) {
      cases.push_back(
          {.op = "adamw",
           .name = absl::StrCat(shape.ToString(), " step ", step),
           .inputs = {Normal(shape), Normal(shape), Normal(shape), Uniform(shape, 0.1, 1),
                      Scalar(1e-2), Scalar(step), Scalar(0.7)},
           .attrs = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
           .dtypes = kWide});
    }
  }
  cases.push_back({.op = "adamw",
                   .name = "from nothing",
                   .inputs = {Normal({65}), Normal({65}), Constant({65}, 0), Constant({65}, 0),
                              Scalar(1e-2), Scalar(1), Scalar(1)},
                   .dtypes = kWide});
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
  AddSgd(cases);
  AddAdamW(cases);
  AddDropout(cases);
  return cases;
}

}  // namespace oc::parity
