#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

using Ints = std::vector<int64_t>;

const std::vector<DType> kAll = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                 DType::kI32, DType::kI64, DType::kU8,   DType::kBool};

Input Numbers(const Shape& shape) { return Whole(shape, 0, 120); }

void AddTranspose(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, Ints>> list = {{{}, {}},
                                                    {{5}, {0}},
                                                    {{3, 7}, {1, 0}},
                                                    {{0, 7}, {1, 0}},
                                                    {{65, 130}, {1, 0}},
                                                    {{2, 3, 5}, {0, 2, 1}},
                                                    {{2, 3, 5}, {2, 0, 1}},
                                                    {{2, 33, 4, 17}, {0, 2, 1, 3}},
                                                    {{2, 3, 4, 5, 6}, {4, 3, 2, 1, 0}},
                                                    {{3, 8, 9, 16}, {0, 3, 1, 2}},
                                                    {{3, 16, 8, 9}, {0, 2, 3, 1}}};
  for (const auto& [shape, permutation] : list) {
    cases.push_back(
        {.op = "transpose",
         .name = absl::StrCat(shape.ToString(), Attributes({{"by", permutation}}).ToString()),
         .inputs = {Numbers(shape)},
         .attrs = {{"permutation", permutation}},
         .dtypes = kAll});
  }
}

void AddBroadcast(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, Shape>> list = {{{}, {3, 5}},
                                                     {{1}, {7}},
                                                     {{5}, {3, 5}},
                                                     {{3, 1}, {3, 5}},
                                                     {{1, 5}, {3, 5}},
                                                     {{2, 1, 4}, {2, 3, 4}},
                                                     {{4, 1, 1, 6}, {2, 4, 3, 5, 6}},
                                                     {{1}, {0}},
                                                     {{3, 5}, {3, 5}},
                                                     {{1, 257}, {129, 257}},
                                                     {{129, 1}, {129, 257}}};
  for (const auto& [from, to] : list) {
    cases.push_back({.op = "broadcast_to",
                     .name = absl::StrCat(from.ToString(), to.ToString()),
                     .inputs = {Numbers(from)},
                     .attrs = {{"shape", to}},
                     .dtypes = kAll});
  }
}

void AddSliceAndPad(std::vector<OpCase>& cases) {
  struct Part {
    Shape shape;
    int64_t axis, begin, end;
  };
  const std::vector<Part> parts = {
      {{7}, 0, 2, 5},        {{7}, 0, 0, 7},       {{7}, 0, 3, 3},    {{3, 8, 5}, 1, 1, 7},
      {{3, 8, 5}, -1, 2, 5}, {{3, 8, 5}, 0, 2, 3}, {{0, 4}, 1, 1, 3}, {{65, 301}, 1, 1, 300}};
  for (const Part& p : parts) {
    const std::string name = absl::StrCat(p.shape.ToString(), p.axis, ":", p.begin, "-", p.end);
    cases.push_back({.op = "slice",
                     .name = name,
                     .inputs = {Numbers(p.shape)},
                     .attrs = {{"axis", p.axis}, {"begin", p.begin}, {"end", p.end}},
                     .dtypes = kAll});
    cases.push_back({.op = "pad",
                     .name = name,
                     .inputs = {Numbers(p.shape)},
                     .attrs = {{"axis", p.axis}, {"before", p.begin}, {"after", p.end}},
                     .dtypes = kAll});
  }
}

void AddConcat(std::vector<OpCase>& cases) {
  const auto add = [&](const std::vector<Shape>& shapes, int64_t axis) {
    OpCase c{.op = "concat",
             .name = absl::StrCat(shapes.size(), shapes[0].ToString(), axis),
             .attrs = {{"axis", axis}},
             .dtypes = kAll};
    for (const Shape& s : shapes) c.inputs.push_back(Numbers(s));
    cases.push_back(c);
  };
  add({{5}}, 0);
  add({{5}, {3}}, 0);
  add({{5}, {0}, {1}}, 0);
  add({{2, 3}, {2, 4}, {2, 1}}, 1);
  add({{2, 3}, {4, 3}}, 0);
  add({{2, 3, 5}, {2, 1, 5}}, -2);
  add({{33, 100}, {33, 201}}, -1);
}

}  // namespace

std::vector<OpCase> ShapeCases() {
  std::vector<OpCase> cases;
  AddTranspose(cases);
  AddBroadcast(cases);
  AddSliceAndPad(cases);
  AddConcat(cases);
  cases.push_back({.op = "reshape",
                   .name = "merge",
                   .inputs = {Numbers({2, 3, 5})},
                   .attrs = {{"shape", Shape{6, 5}}},
                   .dtypes = kAll});
  cases.push_back({.op = "reshape",
                   .name = "split",
                   .inputs = {Numbers({12})},
                   .attrs = {{"shape", Shape{3, 1, 4}}},
                   .dtypes = kAll});
  return cases;
}

}  // namespace oc::parity
