// Convolutions, pools and batch norm.
#include <cmath>

#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

using Ints = std::vector<int64_t>;

struct Conv {
  std::string name;
  Shape x, w;
  Ints stride = {1, 1};
  Ints padding = {0, 0, 0, 0};
  Ints dilation = {1, 1};
  int64_t groups = 1;
};

std::vector<Conv> Convs() {
  return {
      {"one by one", {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"odd", {2, 5, 7, 3}, {5, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"pointwise", {2, 6, 5, 17}, {9, 17, 1, 1}},
      {"pointwise strided", {2, 7, 6, 8}, {16, 8, 1, 1}, {2, 2}},
      {"strided", {2, 9, 8, 4}, {6, 4, 3, 3}, {2, 2}, {1, 1, 1, 1}},
      {"uneven strides", {1, 11, 10, 2}, {3, 2, 2, 3}, {3, 2}},
      {"one-sided padding", {1, 6, 6, 3}, {4, 3, 3, 2}, {2, 1}, {0, 1, 2, 0}},
      {"wide padding", {1, 3, 4, 2}, {2, 2, 2, 2}, {1, 1}, {3, 2, 1, 3}},
      {"dilated", {1, 9, 11, 2}, {3, 2, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 3}},
      {"dilated strided", {2, 9, 9, 2}, {2, 2, 2, 3}, {2, 2}, {1, 0, 0, 1}, {3, 2}},
      {"groups", {2, 5, 5, 6}, {9, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
      {"depthwise", {1, 6, 5, 7}, {7, 1, 3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 7},
      {"two outputs a depth", {1, 5, 4, 3}, {6, 1, 2, 2}, {1, 1}, {0, 0, 1, 1}, {1, 1}, 3},
      {"rows only", {2, 8, 1, 5}, {4, 5, 3, 1}, {1, 1}, {1, 0, 1, 0}},
      {"window as large as the image", {3, 4, 5, 3}, {7, 3, 4, 5}},
      {"first layer", {2, 17, 15, 3}, {16, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
      {"vector widths", {2, 8, 8, 32}, {32, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"vector widths and one", {1, 7, 7, 33}, {31, 33, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"digits", {4, 28, 28, 1}, {6, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}},
  };
}

void AddConv2d(std::vector<OpCase>& cases) {
  for (const Conv& c : Convs()) {
    const Attributes attrs = {{"stride", c.stride},
                              {"padding", c.padding},
                              {"dilation", c.dilation},
                              {"groups", c.groups}};
    const Input x = Normal(c.x), w = Normal(c.w);
    cases.push_back({.op = "conv2d", .name = c.name, .inputs = {x, w}, .attrs = attrs});
    cases.push_back({.op = "conv2d",
                     .name = c.name + " with bias",
                     .inputs = {x, w, Normal({c.w[0]})},
                     .attrs = attrs});

    const auto output =
        BuiltinOps()->Find("conv2d")->infer({{{DType::kF32, c.x}, {DType::kF32, c.w}}, attrs});
    OC_CHECK(output.ok(), c.name, ": ", output.status().ToString());
    const Input dy = Normal((*output)[0].shape);
    Attributes input_attrs = attrs, weight_attrs = attrs;
    input_attrs.Set("input_shape", c.x);
    weight_attrs.Set("weight_shape", c.w);
    cases.push_back(
        {.op = "conv2d_grad_input", .name = c.name, .inputs = {dy, w}, .attrs = input_attrs});
    cases.push_back(
        {.op = "conv2d_grad_weight", .name = c.name, .inputs = {dy, x}, .attrs = weight_attrs});
  }
}

struct Pool {
  std::string name;
  Shape x;
  Ints kernel;
  Ints stride;
  Ints padding = {0, 0, 0, 0};
};

std::vector<Pool> Pools() {
  return {
      {"one by one", {1, 1, 1, 1}, {1, 1}, {1, 1}},
      {"halves", {2, 8, 6, 5}, {2, 2}, {2, 2}},
      {"halves of an odd image", {2, 7, 9, 3}, {2, 2}, {2, 2}},
      {"overlapping", {2, 9, 8, 4}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {"overlapping by much", {1, 6, 7, 2}, {4, 5}, {1, 1}, {2, 1, 3, 4}},
      {"gaps", {1, 11, 9, 3}, {2, 1}, {3, 4}},
      {"one-sided padding", {1, 5, 5, 7}, {2, 3}, {2, 1}, {1, 0, 0, 2}},
      {"global", {3, 7, 7, 33}, {7, 7}, {7, 7}},
      {"as many positions as a byte holds", {1, 16, 17, 2}, {16, 16}, {1, 1}},
      {"vector widths", {2, 6, 6, 64}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
  };
}

void AddPools(std::vector<OpCase>& cases) {
  for (const Pool& p : Pools()) {
    const Attributes attrs = {{"kernel", p.kernel}, {"stride", p.stride}, {"padding", p.padding}};
    cases.push_back({.op = "max_pool2d", .name = p.name, .inputs = {Normal(p.x)}, .attrs = attrs});
    // Few values: ties go to the first position.
    cases.push_back({.op = "max_pool2d",
                     .name = p.name + " with ties",
                     .inputs = {Whole(p.x, -2, 1)},
                     .attrs = attrs,
                     .gradient = false});
    // What is no number is not hidden, and nothing around the image is chosen, though nothing
    // within it is larger.
    cases.push_back(
        {.op = "max_pool2d",
         .name = p.name + " without numbers",
         .inputs = {Values(p.x, {1, NAN, -INFINITY, 2, INFINITY, -1, NAN, 0, -3, 1, 4})},
         .attrs = attrs,
         .gradient = false});
    cases.push_back({.op = "max_pool2d",
                     .name = p.name + " of the least",
                     .inputs = {Constant(p.x, -INFINITY)},
                     .attrs = attrs,
                     .gradient = false});
    const auto output = BuiltinOps()->Find("max_pool2d")->infer({{{DType::kF32, p.x}}, attrs});
    OC_CHECK(output.ok(), p.name, ": ", output.status().ToString());
    const Shape y = (*output)[0].shape;
    Attributes grad_attrs = attrs;
    grad_attrs.Set("input_shape", p.x);
    cases.push_back(
        {.op = "max_pool2d_grad",
         .name = p.name,
         .inputs = {Normal(y), Whole(y, 0, 0).As(DType::kU8)},
         .attrs = grad_attrs,
         .prepare = [attrs, x = p.x](OpRunner& reference, std::vector<Tensor>& inputs) -> Status {
           Tensor image({inputs[0].dtype(), x});
           for (int64_t i = 0; i < image.num_elements(); ++i) {
             image.set(i, static_cast<double>((i * 7919) % 101));
           }
           OC_ASSIGN_OR_RETURN(std::vector<Tensor> pooled,
                               reference.Run("max_pool2d", attrs, {image}));
           inputs[1] = pooled[1];
           return OkStatus();
         }});
    for (bool include : {true, false}) {
      const std::string name = p.name + (include ? "" : " without padding in the count");
      Attributes avg = attrs, avg_grad = grad_attrs;
      avg.Set("count_include_pad", include);
      avg_grad.Set("count_include_pad", include);
      cases.push_back({.op = "avg_pool2d", .name = name, .inputs = {Normal(p.x, 1)}, .attrs = avg});
      cases.push_back(
          {.op = "avg_pool2d_grad", .name = name, .inputs = {Normal(y)}, .attrs = avg_grad});
    }
  }
}

// Statistics are f32, or f64 for f64.
Tensor Statistics(const Tensor& like, DType activations, double low) {
  Tensor t({activations == DType::kF64 ? DType::kF64 : DType::kF32, like.shape()});
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, low + 0.3 * static_cast<double>((i * 37) % 11));
  }
  return t;
}

void AddBatchNorm(std::vector<OpCase>& cases) {
  // Of two rows the gradient cancels but for eps: at least three.
  for (const Shape& x : {Shape{3, 1}, Shape{5, 3}, Shape{33, 17}, Shape{2, 3, 5, 7},
                         Shape{4, 7, 7, 64}, Shape{3, 1, 1, 33}, Shape{129, 65}}) {
    const Shape c = {x[-1]};
    for (const std::string& activation : {std::string("none"), std::string("relu")}) {
      const Attributes common = {{"eps", 1e-3}, {"activation", activation}};
      for (bool training : {true, false}) {
        Attributes attrs = common;
        attrs.Set("training", training);
        cases.push_back(
            {.op = "batch_norm",
             .name = absl::StrCat(x.ToString(), " ", activation, training ? "" : " fixed"),
             .inputs = {Normal(x, 0.5, 2), Uniform(c, 0.5, 1.5), Normal(c), Normal(c), Normal(c)},
             .attrs = attrs,
             .prepare =
                 [](OpRunner&, std::vector<Tensor>& inputs) {
                   inputs[3] = Statistics(inputs[3], inputs[0].dtype(), -1);
                   inputs[4] = Statistics(inputs[4], inputs[0].dtype(), 0.5);
                   return OkStatus();
                 },
             .gradient_inputs = {0, 1, 2},
             // Small, so that no element crosses relu's kink.
             .step = activation == "relu" ? 1e-7 : 1e-5,
             .gradient_tolerance = activation == "relu" ? 1e-5 : 1e-6});
      }
      cases.push_back(
          {.op = "batch_norm_grad",
           .name = absl::StrCat(x.ToString(), " ", activation),
           .inputs = {Normal(x), Normal(x, 0.5, 2), Uniform(c, 0.5, 1.5), Normal(c), Normal(c),
                      Normal(c)},
           .attrs = common,
           .prepare = [common](OpRunner& reference, std::vector<Tensor>& inputs) -> Status {
             const Tensor zero = Statistics(inputs[4], inputs[0].dtype(), 0);
             OC_ASSIGN_OR_RETURN(std::vector<Tensor> y,
                                 reference.Run("batch_norm", common,
                                               {inputs[1], inputs[2], inputs[3], zero, zero}));
             inputs[4] = y[1];
             inputs[5] = y[2];
             return OkStatus();
           }});
    }
  }
  for (const Shape& rows : {Shape{1}, Shape{2}, Shape{4, 7, 7}}) {
    cases.push_back({.op = "unbiased_var",
                     .name = rows.ToString(),
                     .inputs = {Uniform({13}, 0, 3)},
                     .attrs = {{"rows", rows}}});
  }
}

}  // namespace

std::vector<OpCase> ImageCases() {
  std::vector<OpCase> cases;
  AddConv2d(cases);
  AddPools(cases);
  AddBatchNorm(cases);
  return cases;
}

}  // namespace oc::parity
