// Pools, and convolutions: as products over patches, or, in groups, as loops.
#include <algorithm>

#include "openclaw/devices/opencl/products.h"
#include "openclaw/graph/ops/window.h"

namespace oc::opencl {
namespace {

// Shapes and window of one op.
struct Sizes {
  int64_t batch, height, width, in, out_height, out_width, out, groups = 1;
  ops::Window2d window;

  Sizes(const Shape& x, const Shape& y, int64_t g, const ops::Window2d& win)
      : batch(x[0].size()),
        height(x[1].size()),
        width(x[2].size()),
        in(x[3].size()),
        out_height(y[1].size()),
        out_width(y[2].size()),
        out(y[3].size()),
        groups(g),
        window(win) {}

  KernelStep& AddTo(KernelStep& step) const {
    return step.Ints({batch, height, width, in, out_height, out_width, out, groups}, 0)
        .Ints({window.h.kernel, window.h.stride, window.h.before, window.h.dilation,
               window.w.kernel, window.w.stride, window.w.before, window.w.dilation},
              0);
  }
  int64_t x_elements() const { return batch * height * width * in; }
  int64_t y_elements() const { return batch * out_height * out_width * out; }
  int64_t pixels() const { return out_height * out_width; }  // of an image's output
  int64_t patch() const { return in * window.h.kernel * window.w.kernel; }
  bool padded() const { return (window.h.before | window.w.before) != 0 || tail_padded(); }
  bool tail_padded() const { return (window.h.after | window.w.after) != 0; }
  // Whose patches are the image itself.
  bool pointwise() const {
    return window.h.kernel * window.w.kernel == 1 && window.h.stride * window.w.stride == 1 &&
           !padded();
  }
};

StatusOr<Sizes> PoolSizes(const OpRequest& r, const TensorType& x, const TensorType& y) {
  OC_RETURN_IF_ERROR(WantFloat(x));
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  return Sizes(x.shape, y.shape, 1, window);
}

int32_t IncludesPadding(const OpRequest& r) {
  return r.attrs.Bool("count_include_pad", true) ? 1 : 0;
}

Status MaxPool(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, PoolSizes(r, r.inputs[0], r.outputs[0]));
  s.AddTo(plan.Kernel("images", "max_pool").In(0).Out(0).Out(1)).Items(s.y_elements());
  return OkStatus();
}
Status MaxPoolGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, PoolSizes(r, r.outputs[0], r.inputs[0]));
  s.AddTo(plan.Kernel("images", "max_pool_grad").In(0).In(1).Out(0)).Items(s.x_elements());
  return OkStatus();
}
Status AvgPool(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, PoolSizes(r, r.inputs[0], r.outputs[0]));
  s.AddTo(plan.Kernel("images", "avg_pool").In(0).Out(0))
      .Int32(IncludesPadding(r))
      .Items(s.y_elements());
  return OkStatus();
}
Status AvgPoolGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, PoolSizes(r, r.outputs[0], r.inputs[0]));
  s.AddTo(plan.Kernel("images", "avg_pool_grad").In(0).Out(0))
      .Int32(IncludesPadding(r))
      .Items(s.x_elements());
  return OkStatus();
}

// The batch in parts whose patches fit into a workspace of bounded size.
struct Part {
  int64_t first = 0, images = 0;
};
std::vector<Part> PartsOf(const Sizes& s) {
  constexpr int64_t kMostFloats = int64_t{8} << 20;
  const int64_t an_image = std::max<int64_t>(1, s.pixels() * s.patch());
  const int64_t images =
      std::clamp<int64_t>(kMostFloats / an_image, 1, std::max<int64_t>(1, s.batch));
  std::vector<Part> parts;
  // Of an empty batch one empty part: the weight's gradient is zero then.
  for (int64_t first = 0; first == 0 || first < s.batch; first += images) {
    parts.push_back({first, std::min(images, s.batch - first)});
  }
  return parts;
}

Operand ReserveColumns(OpPlan& plan, const Sizes& s, const std::vector<Part>& parts) {
  return plan.Reserve(parts[0].images * s.pixels() * s.patch());
}

// Of input x: where products read patches, a part of the batch at a time.
class Patches {
 public:
  Patches(OpPlan& plan, const OpRequest& r, const Sizes& s, int x, const std::vector<Part>& parts)
      : plan_(plan), s_(s), x_(x) {
    // The image itself where its patches are the same.
    floats_ = s.pointwise() ? AsFloats(plan, r.inputs[static_cast<size_t>(x)], In(x))
                            : ReserveColumns(plan, s, parts);
  }
  Operand Add(const Part& part) const {
    if (s_.pointwise()) return Further(floats_, part.first * s_.height * s_.width * s_.in);
    s_.AddTo(plan_.Kernel("images", "patches").In(x_).Add(floats_))
        .Int(part.first)
        .Int(part.images)
        .Items(part.images * s_.pixels() * s_.patch());
    return floats_;
  }

 private:
  OpPlan& plan_;
  const Sizes& s_;
  int x_;
  Operand floats_;
};

StatusOr<Sizes> ConvSizes(const OpRequest& r, const TensorType& x, const TensorType& w,
                          const TensorType& y) {
  OC_RETURN_IF_ERROR(WantFloat(x));
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Conv2dWindow(r.attrs, w.shape));
  return Sizes(x.shape, y.shape, r.attrs.Int("groups", 1), window);
}

Status Conv2d(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, ConvSizes(r, r.inputs[0], r.inputs[1], r.outputs[0]));
  const Operand bias = r.inputs.size() > 2 ? In(2) : Operand{};
  if (s.groups > 1) {
    s.AddTo(plan.Kernel("images", "conv").In(0).In(1).Add(bias).Out(0)).Items(s.y_elements());
  } else {
    const std::vector<Part> parts = PartsOf(s);
    const Patches patches(plan, r, s, 0, parts);
    const Operand weight = AsFloats(plan, r.inputs[1], In(1)), c = ProductOf(plan, r);
    for (const Part& part : parts) {
      const Operand a = patches.Add(part);
      plan.Product({.transpose_b = true,
                    .m = part.images * s.pixels(),
                    .n = s.out,
                    .k = s.patch(),
                    .a = a,
                    .b = weight,
                    .c = Further(c, part.first * s.pixels() * s.out),
                    .lda = s.patch(),
                    .ldb = s.patch(),
                    .ldc = s.out});
    }
    AddFinish(plan, r, c, s.out, bias, false);
  }
  return OkStatus();
}

Status Conv2dGradInput(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, ConvSizes(r, r.outputs[0], r.inputs[1], r.inputs[0]));
  if (s.groups > 1) {
    s.AddTo(plan.Kernel("images", "conv_grad_input").In(0).In(1).Out(0)).Items(s.x_elements());
    return OkStatus();
  }
  const std::vector<Part> parts = PartsOf(s);
  const Operand columns = s.pointwise() ? Operand{} : ReserveColumns(plan, s, parts);
  const Operand dy = AsFloats(plan, r.inputs[0], In(0)),
                weight = AsFloats(plan, r.inputs[1], In(1));
  const Operand images = s.pointwise() ? ProductOf(plan, r) : Operand{};
  for (const Part& part : parts) {
    const int64_t image = s.height * s.width * s.in;
    const Operand c = s.pointwise() ? Further(images, part.first * image) : columns;
    plan.Product({.m = part.images * s.pixels(),
                  .n = s.patch(),
                  .k = s.out,
                  .a = Further(dy, part.first * s.pixels() * s.out),
                  .b = weight,
                  .c = c,
                  .lda = s.out,
                  .ldb = s.patch(),
                  .ldc = s.patch()});
    if (s.pointwise()) continue;
    s.AddTo(plan.Kernel("images", "patches_grad").Add(columns).Out(0))
        .Int(part.first)
        .Int(part.images)
        .Items(part.images * image);
  }
  if (s.pointwise()) AddFinish(plan, r, images, s.in, {}, false);
  return OkStatus();
}

Status Conv2dGradWeight(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, ConvSizes(r, r.inputs[1], r.outputs[0], r.inputs[0]));
  const bool add = (r.accumulate & 1) != 0;
  if (s.groups > 1) {
    s.AddTo(plan.Kernel("images", "conv_grad_weight").In(0).In(1).Out(0))
        .Int32(add ? 1 : 0)
        .Groups(r.outputs[0].shape.num_elements(), kRow);
    return OkStatus();
  }
  const std::vector<Part> parts = PartsOf(s);
  const Patches patches(plan, r, s, 1, parts);
  const Operand dy = AsFloats(plan, r.inputs[0], In(0)), c = ProductOf(plan, r);
  for (const Part& part : parts) {
    const Operand b = patches.Add(part);
    plan.Product({.transpose_a = true,
                  .m = s.out,
                  .n = s.patch(),
                  .k = part.images * s.pixels(),
                  .a = Further(dy, part.first * s.pixels() * s.out),
                  .b = b,
                  .c = c,
                  .lda = s.out,
                  .ldb = s.patch(),
                  .ldc = s.patch(),
                  .beta = part.first > 0 ? 1.0f : BetaOf(r)});
  }
  AddFinish(plan, r, c, s.patch(), {}, false);
  return OkStatus();
}

}  // namespace

void RegisterImages(PlanRegistry& registry) {
  registry["max_pool2d"] = {MaxPool};
  registry["max_pool2d_grad"] = {MaxPoolGrad};
  registry["avg_pool2d"] = {AvgPool};
  registry["avg_pool2d_grad"] = {AvgPoolGrad};
  registry["conv2d"] = {Conv2d};
  registry["conv2d_grad_input"] = {Conv2dGradInput};
  registry["conv2d_grad_weight"] = {Conv2dGradWeight, 1};
}

}  // namespace oc::opencl
