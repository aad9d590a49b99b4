// Pools, and convolutions as products over patches. A window's positions are views of the padded
// image, strides apart, so that nothing but operators of elements and products is needed.
#include <algorithm>
#include <cmath>

#include "openclaw/devices/ascend/plan.h"
#include "openclaw/graph/ops/window.h"

namespace oc::ascend {
namespace {

// The windows over an NHWC image of `channels`.
struct Windows {
  Windows(const Shape& x, const Shape& y, const ops::Window2d& win)
      : batch(x[0].size()),
        height(x[1].size()),
        width(x[2].size()),
        channels(x[3].size()),
        out_height(y[1].size()),
        out_width(y[2].size()),
        h(win.h),
        w(win.w) {}

  int64_t padded_height() const { return height + h.before + h.after; }
  int64_t padded_width() const { return width + w.before + w.after; }
  bool padded() const { return (h.before | h.after | w.before | w.after) != 0; }
  std::vector<int64_t> PaddedDims() const {
    return {batch, padded_height(), padded_width(), channels};
  }
  View Middle(const View& padded_image) const {
    return padded_image.Sliced(1, h.before, height).Sliced(2, w.before, width);
  }
  // The image with what lies around it; itself where nothing does.
  View Pad(Plan& plan, const View& x, double around) const {
    if (!padded()) return x;
    const View image = plan.Reserve(DType::kF32, PaddedDims());
    plan.Call(Operator::kInplaceFillScalar, {image, Number{around}});
    plan.Copy(x, Middle(image));
    return image;
  }
  // Position (kh, kw) of all windows: [batch, out height, out width, channels].
  View At(const View& image, int64_t kh, int64_t kw) const {
    const int64_t row = padded_width() * channels;
    View v = image;
    v.dims = {batch, out_height, out_width, channels};
    v.strides = {padded_height() * row, h.stride * row, w.stride * channels, 1};
    v.offset += kh * h.dilation * row + kw * w.dilation * channels;
    return v;
  }
  // All positions: [batch, out height, out width, kernel height, kernel width, channels].
  View All(const View& image) const {
    View v = At(image, 0, 0);
    v.dims = {batch, out_height, out_width, h.kernel, w.kernel, channels};
    v.strides = {v.strides[0],          v.strides[1],
                 v.strides[2],          h.dilation * padded_width() * channels,
                 w.dilation * channels, 1};
    return v;
  }
  int64_t positions() const { return h.kernel * w.kernel; }
  int64_t pixels() const { return out_height * out_width; }

  int64_t batch, height, width, channels, out_height, out_width;
  ops::WindowAxis h, w;
};

// Adds to each position of the windows, from zero: dx.
class Spread {
 public:
  Spread(Plan& plan, const Windows& windows, const View& dx)
      : plan_(plan),
        windows_(windows),
        dx_(dx),
        image_(windows.padded() ? plan.Reserve(DType::kF32, windows.PaddedDims()) : dx) {
    plan_.Clear(image_);
  }
  View At(int64_t kh, int64_t kw) const { return windows_.At(image_, kh, kw); }
  void Add(const View& to, const View& from) {
    plan_.Call(Operator::kInplaceAdd, {to, from, Number{1}});
  }
  void Finish() {
    if (windows_.padded()) plan_.Copy(windows_.Middle(image_), dx_);
  }

 private:
  Plan& plan_;
  const Windows& windows_;
  const View dx_, image_;
};

// The first position of each window that lies within the image: [1, out height, out width, 1].
View FirstInside(Plan& plan, const Windows& s) {
  const auto first = [](const ops::WindowAxis& axis, int64_t window) {
    int64_t k = 0;
    while (axis.Position(window, k) < 0) ++k;
    return k;
  };
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < s.out_height; ++i) {
    for (int64_t j = 0; j < s.out_width; ++j) {
      positions.push_back(first(s.h, i) * s.w.kernel + first(s.w, j));
    }
  }
  return plan.Constant(positions, {1, s.out_height, s.out_width, 1});
}

// The first largest; what is no number wins, so that it is not hidden.
Status MaxPool(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  const Windows windows(r.inputs[0].shape, r.outputs[0].shape, window);
  const View y = plan.OutF32(0), index = plan.Reserve(DType::kI32, y.dims);
  const View better = plan.Reserve(DType::kBool, y.dims);
  const View x_number = plan.Reserve(DType::kBool, y.dims);
  const View y_number = plan.Reserve(DType::kBool, y.dims);
  const View image = windows.Pad(plan, plan.InF32(0), -INFINITY);
  int64_t begin = 0;
  if (windows.h.before == 0 && windows.w.before == 0) {
    // Each window begins within the image, for padding is smaller than the kernel.
    plan.Copy(windows.At(image, 0, 0), y);
    plan.Clear(index);
    begin = 1;
  } else {
    // What lies around the image is never better than this, so no place there is chosen.
    plan.Call(Operator::kInplaceFillScalar, {y, Number{-INFINITY}});
    plan.Call(Operator::kCast, {FirstInside(plan, windows).Expanded(y.dims), DType::kI32, index});
  }
  plan.Call(Operator::kEqTensor, {y, y, y_number});
  for (int64_t k = begin; k < windows.positions(); ++k) {
    const View x = windows.At(image, k / windows.w.kernel, k % windows.w.kernel);
    // better = x > y or (y is a number and x is not); y_number: as y is after this.
    plan.Call(Operator::kEqTensor, {x, x, x_number});
    plan.Call(Operator::kLogicalAnd, {x_number, y_number, x_number});
    plan.Call(Operator::kBitwiseXorTensor, {x_number, y_number, y_number});
    plan.Call(Operator::kGtTensor, {x, y, better});
    plan.Call(Operator::kLogicalOr, {better, y_number, better});
    plan.Copy(x_number, y_number);
    plan.Call(Operator::kSWhere, {better, x, y, y});
    plan.Call(Operator::kInplaceMaskedFillScalar, {index, better, Whole{k}});
  }
  plan.Call(Operator::kCast, {index, DType::kU8, plan.Out(1)});
  return OkStatus();
}

Status MaxPoolGrad(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  const Windows windows(r.outputs[0].shape, r.inputs[0].shape, window);
  const View dy = plan.InF32(0), index = plan.Reserve(DType::kI32, dy.dims);
  const View other = plan.Reserve(DType::kBool, dy.dims);
  const View part = plan.Reserve(DType::kF32, dy.dims);
  const View zero = plan.Constant(std::vector<float>{0}, {1});
  plan.Call(Operator::kCast, {plan.In(1), DType::kI32, index});
  Spread spread(plan, windows, plan.OutF32(0));
  for (int64_t k = 0; k < windows.positions(); ++k) {
    plan.Call(Operator::kNeScalar, {index, Whole{k}, other});
    plan.Call(Operator::kSWhere, {other, zero, dy, part});
    spread.Add(spread.At(k / windows.w.kernel, k % windows.w.kernel), part);
  }
  spread.Finish();
  return OkStatus();
}

// to = from / (the elements of each window).
void DivideByCount(const OpRequest& r, Plan& plan, const Windows& s, const View& from,
                   const View& to) {
  if (r.attrs.Bool("count_include_pad", true) || !s.padded()) {
    return plan.Scale(from, 1.0 / static_cast<double>(s.positions()), to);
  }
  const auto inside = [](const ops::WindowAxis& axis, int64_t window, int64_t size) {
    int64_t count = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t position = axis.Position(window, k);
      if (position >= 0 && position < size) ++count;
    }
    return static_cast<float>(count);
  };
  std::vector<float> factors;
  for (int64_t i = 0; i < s.out_height; ++i) {
    for (int64_t j = 0; j < s.out_width; ++j) {
      factors.push_back(1 / (inside(s.h, i, s.height) * inside(s.w, j, s.width)));
    }
  }
  plan.Mul(from, plan.Constant(factors, {s.out_height, s.out_width, 1}), to);
}

Status AvgPool(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  const Windows windows(r.inputs[0].shape, r.outputs[0].shape, window);
  const View y = plan.OutF32(0), sum = plan.Reserve(DType::kF32, y.dims);
  const View image = windows.Pad(plan, plan.InF32(0), 0);
  plan.Clear(sum);
  for (int64_t k = 0; k < windows.positions(); ++k) {
    const View x = windows.At(image, k / windows.w.kernel, k % windows.w.kernel);
    plan.Call(Operator::kInplaceAdd, {sum, x, Number{1}});
  }
  DivideByCount(r, plan, windows, sum, y);
  return OkStatus();
}

Status AvgPoolGrad(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(r.attrs));
  const Windows windows(r.outputs[0].shape, r.inputs[0].shape, window);
  const View dy = plan.InF32(0), part = plan.Reserve(DType::kF32, dy.dims);
  DivideByCount(r, plan, windows, dy, part);
  Spread spread(plan, windows, plan.OutF32(0));
  for (int64_t k = 0; k < windows.positions(); ++k) {
    spread.Add(spread.At(k / windows.w.kernel, k % windows.w.kernel), part);
  }
  spread.Finish();
  return OkStatus();
}

// A convolution in groups, image by image or in parts of the batch whose patches fit into a
// workspace of bounded size.
struct Conv {
  static StatusOr<Conv> Read(const OpRequest& r, const Shape& x, const Shape& y, const Shape& w) {
    OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Conv2dWindow(r.attrs, w));
    Conv c{Windows(x, y, window), std::max<int64_t>(1, r.attrs.Int("groups", 1))};
    c.in = w[1].size();
    c.out = y[3].size() / c.groups;
    constexpr int64_t kMostFloats = int64_t{8} << 20;
    const int64_t an_image = std::max<int64_t>(1, c.windows.pixels() * c.patch());
    c.images =
        std::clamp<int64_t>(kMostFloats / an_image, 1, std::max<int64_t>(1, c.windows.batch));
    return c;
  }
  int64_t patch() const { return windows.positions() * in; }
  int64_t rows(int64_t count) const { return count * windows.pixels(); }

  // The group's weight as [out, patch].
  View Weight(Plan& plan, const View& w, int64_t group) const {
    const View dense = plan.Reserve(DType::kF32, {out, windows.h.kernel, windows.w.kernel, in});
    plan.Copy(w.Sliced(0, group * out, out).Permuted({0, 2, 3, 1}), dense);
    return dense.Shaped({out, patch()});
  }
  // The group's patches of images [first, first + count): [rows, patch].
  View Patches(Plan& plan, const View& image, int64_t group, int64_t first, int64_t count,
               const View& room) const {
    View patches = room;
    patches = patches.Sliced(0, 0, count);
    plan.Copy(windows.All(image).Sliced(0, first, count).Sliced(5, group * in, in), patches);
    return patches.Shaped({rows(count), patch()});
  }
  View RoomForPatches(Plan& plan) const {
    return plan.Reserve(DType::kF32, {std::min(images, windows.batch), windows.out_height,
                                      windows.out_width, windows.h.kernel, windows.w.kernel, in});
  }
  // Rows of images [first, first + count) of the group's part of y.
  View Outputs(const View& y, int64_t group, int64_t first, int64_t count) const {
    return AsRows(y).Sliced(0, rows(first), rows(count)).Sliced(1, group * out, out);
  }
  template <typename F>
  void ForParts(F f) const {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t first = 0; first < windows.batch; first += images) {
        f(g, first, std::min(images, windows.batch - first));
      }
    }
  }

  Windows windows;
  int64_t groups = 1;
  int64_t in = 0, out = 0;  // of a group
  int64_t images = 1;       // of a part
};

Status Conv2d(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const Conv c,
                      Conv::Read(r, r.inputs[0].shape, r.outputs[0].shape, r.inputs[1].shape));
  const View w = plan.InF32(1), y = plan.OutF32(0);
  const View image = c.windows.Pad(plan, plan.InF32(0), 0), room = c.RoomForPatches(plan);
  const View product = plan.Reserve(DType::kF32, {c.rows(c.images), c.out});
  std::vector<View> weights;
  for (int64_t g = 0; g < c.groups; ++g) weights.push_back(c.Weight(plan, w, g));
  c.ForParts([&](int64_t g, int64_t first, int64_t count) {
    const View patches = c.Patches(plan, image, g, first, count, room);
    const View part = product.Sliced(0, 0, c.rows(count));
    plan.Product(patches, weights[static_cast<size_t>(g)].Transposed(), part);
    plan.Copy(part, c.Outputs(y, g, first, count));
  });
  if (r.inputs.size() > 2) plan.Add(y, plan.InF32(2), y);
  return OkStatus();
}

Status Conv2dGradInput(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const Conv c,
                      Conv::Read(r, r.outputs[0].shape, r.inputs[0].shape, r.inputs[1].shape));
  const View dy = plan.InF32(0), w = plan.InF32(1), room = c.RoomForPatches(plan);
  Spread spread(plan, c.windows, plan.OutF32(0));
  std::vector<View> weights;
  for (int64_t g = 0; g < c.groups; ++g) weights.push_back(c.Weight(plan, w, g));
  c.ForParts([&](int64_t g, int64_t first, int64_t count) {
    const View patches = room.Sliced(0, 0, count);
    plan.Product(c.Outputs(dy, g, first, count), weights[static_cast<size_t>(g)],
                 patches.Shaped({c.rows(count), c.patch()}));
    for (int64_t kh = 0; kh < c.windows.h.kernel; ++kh) {
      for (int64_t kw = 0; kw < c.windows.w.kernel; ++kw) {
        View from = patches.Sliced(3, kh, 1).Sliced(4, kw, 1);
        from.dims = {count, c.windows.out_height, c.windows.out_width, c.in};
        from.strides = {from.strides[0], from.strides[1], from.strides[2], 1};
        spread.Add(spread.At(kh, kw).Sliced(0, first, count).Sliced(3, g * c.in, c.in), from);
      }
    }
  });
  spread.Finish();
  return OkStatus();
}

Status Conv2dGradWeight(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const Conv c,
                      Conv::Read(r, r.inputs[1].shape, r.inputs[0].shape, r.outputs[0].shape));
  const View dy = plan.InF32(0), dw = plan.OutF32(0);
  const View image = c.windows.Pad(plan, plan.InF32(1), 0), room = c.RoomForPatches(plan);
  const std::vector<int64_t> dims = {c.out, c.windows.h.kernel, c.windows.w.kernel, c.in};
  const View sum = plan.Reserve(DType::kF32, dims), part = plan.Reserve(DType::kF32, dims);
  c.ForParts([&](int64_t g, int64_t first, int64_t count) {
    const View patches = c.Patches(plan, image, g, first, count, room);
    const View to = first == 0 ? sum : part;
    plan.Product(c.Outputs(dy, g, first, count).Transposed(), patches,
                 to.Shaped({c.out, c.patch()}));
    if (first > 0) plan.Add(sum, part, sum);
    if (first + count == c.windows.batch) {
      plan.Copy(sum.Permuted({0, 3, 1, 2}), dw.Sliced(0, g * c.out, c.out));
    }
  });
  if (c.windows.batch == 0) plan.Clear(dw);
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

}  // namespace oc::ascend
