#include <cmath>

#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

using Ints = std::vector<int64_t>;

void AddReduce(std::vector<OpCase>& cases, const std::string& op) {
  const std::vector<std::pair<Shape, Ints>> list = {{{}, {}},
                                                    {{1}, {0}},
                                                    {{7}, {0}},
                                                    {{1000}, {}},
                                                    {{3, 5}, {0}},
                                                    {{3, 5}, {1}},
                                                    {{3, 5}, {}},
                                                    {{3, 5}, {-1}},
                                                    {{2, 3, 5}, {1}},
                                                    {{2, 3, 5}, {0, 2}},
                                                    {{2, 3, 5}, {0, 1}},
                                                    {{4, 7, 7, 16}, {1, 2}},
                                                    {{0, 5}, {1}},
                                                    {{257, 130}, {0}},
                                                    {{257, 130}, {1}},
                                                    {{8, 33, 65}, {0, 1}},
                                                    {{2, 3, 4, 5}, {1, 3}}};
  for (const auto& [shape, axes] : list) {
    for (bool keep : {false, true}) {
      const std::string name = absl::StrCat(
          shape.ToString(), Attributes({{"axes", axes}}).ToString(), keep ? " kept" : "");
      const Attributes attrs = {{"axes", axes}, {"keep_dims", keep}};
      // Not around zero: a sum of cancelling terms says little about a relative error.
      cases.push_back({.op = op, .name = name, .inputs = {Normal(shape, 1)}, .attrs = attrs});
      if (op != "reduce_mean") {
        cases.push_back({.op = op,
                         .name = name + " integers",
                         .inputs = {Whole(shape, 0, 7)},
                         .attrs = attrs,
                         .dtypes = {DType::kI32, DType::kI64}});
      }
    }
  }
}

void AddSoftmax(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 1}, Shape{0, 5}, Shape{3, 5},
                             Shape{2, 3, 17}, Shape{65, 257}, Shape{4, 1000}}) {
    cases.push_back({.op = "softmax", .name = shape.ToString(), .inputs = {Normal(shape, 0, 3)}});
    cases.push_back({.op = "softmax_grad",
                     .name = shape.ToString(),
                     .inputs = {Normal(shape), Normal(shape, 0, 3)},
                     .prepare = [](OpRunner& reference, std::vector<Tensor>& inputs) -> Status {
                       OC_ASSIGN_OR_RETURN(std::vector<Tensor> y,
                                           reference.Run("softmax", {}, {inputs[1]}));
                       inputs[1] = y[0];
                       return OkStatus();
                     }});
  }
  cases.push_back({.op = "softmax",
                   .name = "large",
                   .inputs = {Values({2, 4}, {1e4, 1e4, -1e4, 0, -3e4, -3e4, -3e4, -3e4})},
                   .gradient = false});
  cases.push_back({.op = "softmax",
                   .name = "masked",
                   .inputs = {Values({2, 4}, {1, -INFINITY, 2, -INFINITY, 0, 1, -INFINITY, 3})},
                   .gradient = false});
}

}  // namespace

std::vector<OpCase> ReduceCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max"}) AddReduce(cases, op);
  AddSoftmax(cases);
  return cases;
}

}  // namespace oc::parity
