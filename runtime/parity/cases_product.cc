#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

// A matrix of the given shape, stored transposed or not.
Shape Stored(Shape s, bool transposed) {
  if (transposed) std::swap(s[-1], s[-2]);
  return s;
}

void AddMatmul(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, Shape>> list = {{{1, 1}, {1, 1}},
                                                     {{3, 5}, {5, 7}},
                                                     {{1, 33}, {33, 1}},
                                                     {{17, 1}, {1, 19}},
                                                     {{0, 3}, {3, 5}},
                                                     {{3, 0}, {0, 5}},
                                                     {{64, 65}, {65, 66}},
                                                     {{2, 3, 5}, {2, 5, 4}},
                                                     {{2, 3, 5}, {5, 4}},
                                                     {{3, 5}, {2, 5, 4}},
                                                     {{2, 3, 4, 5}, {2, 3, 5, 6}},
                                                     {{2, 3, 4, 5}, {5, 6}},
                                                     {{129, 70}, {70, 131}},
                                                     {{3, 40, 33}, {3, 33, 50}}};
  for (const auto& [a, b] : list) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        cases.push_back(
            {.op = "matmul",
             .name = absl::StrCat(a.ToString(), ta ? "^T" : "", b.ToString(), tb ? "^T" : ""),
             .inputs = {Normal(Stored(a, ta)), Normal(Stored(b, tb))},
             .attrs = {{"transpose_a", ta}, {"transpose_b", tb}}});
      }
    }
  }
}

void AddLinear(std::vector<OpCase>& cases) {
  struct Sizes {
    Shape leading;
    int64_t in, out;
  };
  const std::vector<Sizes> list = {{{}, 5, 3},         {{1}, 1, 1},    {{0}, 5, 3},
                                   {{4}, 7, 9},        {{2, 3}, 5, 4}, {{33}, 65, 17},
                                   {{2, 3, 5}, 8, 16}, {{1}, 100, 50}, {{130}, 71, 129}};
  for (const Sizes& s : list) {
    const auto with = [&](int64_t last) {
      std::vector<Dim> dims = s.leading.dims();
      dims.push_back(last);
      return Shape(dims);
    };
    const Shape x = with(s.in), y = with(s.out), w = {s.out, s.in};
    const std::string name = absl::StrCat(x.ToString(), " to ", s.out);
    cases.push_back({.op = "linear", .name = name, .inputs = {Normal(x), Normal(w)}});
    for (const char* activation : {"none", "relu"}) {
      cases.push_back({.op = "linear",
                       .name = absl::StrCat(name, " bias ", activation),
                       .inputs = {Normal(x), Normal(w), Normal({s.out})},
                       .attrs = {{"activation", std::string(activation)}}});
    }
    cases.push_back({.op = "linear",
                     .name = name + " relu",
                     .inputs = {Normal(x), Normal(w)},
                     .attrs = {{"activation", std::string("relu")}}});
    cases.push_back({.op = "linear_grad_input", .name = name, .inputs = {Normal(y), Normal(w)}});
    for (const char* approximate : {"none", "tanh"}) {
      cases.push_back({.op = "linear_gelu",
                       .name = absl::StrCat(name, " ", approximate),
                       .inputs = {Normal(x), Normal(w), Normal({s.out})},
                       .attrs = {{"approximate", std::string(approximate)}},
                       .tolerance = 2,  // y may be of h as it was rounded
                       .gradient = false});
      cases.push_back({.op = "linear_grad_input_gelu",
                       .name = absl::StrCat(name, " ", approximate),
                       .inputs = {Normal(y), Normal(w), Normal(x)},
                       .attrs = {{"approximate", std::string(approximate)}}});
    }
    cases.push_back({.op = "linear_grad_weight", .name = name, .inputs = {Normal(y), Normal(x)}});
  }
}

}  // namespace

std::vector<OpCase> ProductCases() {
  std::vector<OpCase> cases;
  AddMatmul(cases);
  AddLinear(cases);
  return cases;
}

}  // namespace oc::parity
