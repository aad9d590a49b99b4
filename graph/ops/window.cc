#include "openclaw/graph/ops/window.h"

#include <absl/strings/str_join.h>

namespace oc::ops {
namespace {

StatusOr<std::vector<int64_t>> ReadInts(const Attributes& attrs, const char* name,
                                        std::vector<int64_t> fallback, int64_t least) {
  const size_t wanted = fallback.size();
  std::vector<int64_t> values = attrs.Ints(name, std::move(fallback));
  if (values.size() != wanted) {
    return InvalidArgument(name, " is (", absl::StrJoin(values, ", "), "), wants ", wanted,
                           " values");
  }
  for (int64_t v : values) {
    if (v < least) {
      return InvalidArgument(name, " is (", absl::StrJoin(values, ", "),
                             "), wants values of at least ", least);
    }
  }
  return values;
}

StatusOr<Window2d> ReadWindow(const Attributes& attrs, int64_t kernel_h, int64_t kernel_w,
                              std::vector<int64_t> default_stride) {
  OC_ASSIGN_OR_RETURN(const auto stride, ReadInts(attrs, "stride", default_stride, 1));
  OC_ASSIGN_OR_RETURN(const auto padding, ReadInts(attrs, "padding", {0, 0, 0, 0}, 0));
  OC_ASSIGN_OR_RETURN(const auto dilation, ReadInts(attrs, "dilation", {1, 1}, 1));
  return Window2d{{kernel_h, stride[0], padding[0], padding[2], dilation[0]},
                  {kernel_w, stride[1], padding[1], padding[3], dilation[1]}};
}

}  // namespace

StatusOr<Window2d> Conv2dWindow(const Attributes& attrs, const Shape& weight) {
  if (weight.rank() != 4 || !weight.bound()) {
    return InvalidArgument("the weight's shape is ", weight.ToString(),
                           ", wants [O, I / groups, KH, KW] of known sizes");
  }
  const auto sizes = weight.sizes();
  if (sizes[2] < 1 || sizes[3] < 1) {
    return InvalidArgument("the weight's shape is ", weight.ToString(), ": its window is empty");
  }
  return ReadWindow(attrs, sizes[2], sizes[3], {1, 1});
}

StatusOr<Window2d> Pool2dWindow(const Attributes& attrs) {
  OC_ASSIGN_OR_RETURN(const auto kernel, ReadInts(attrs, "kernel", {1, 1}, 1));
  OC_ASSIGN_OR_RETURN(Window2d window, ReadWindow(attrs, kernel[0], kernel[1], kernel));
  for (const WindowAxis& axis : {window.h, window.w}) {
    if (axis.before >= axis.kernel || axis.after >= axis.kernel) {
      return InvalidArgument("padding (", axis.before, ", ", axis.after, ") along a kernel of ",
                             axis.kernel, ": must be smaller, or a window would be empty");
    }
  }
  return window;
}

StatusOr<std::pair<int64_t, int64_t>> ImageSize(const Shape& image, const char* what) {
  if (image.rank() != 4) {
    return InvalidArgument(what, "'s shape is ", image.ToString(), ", wants [B, H, W, C]");
  }
  if (!image[1].bound() || !image[2].bound()) {
    return InvalidArgument(what, "'s shape is ", image.ToString(),
                           ": height and width must be known numbers, only the batch may be named");
  }
  return std::make_pair(image[1].size(), image[2].size());
}

StatusOr<Shape> WindowedShape(const Window2d& window, const Shape& image, Dim channels,
                              const char* what) {
  OC_ASSIGN_OR_RETURN(const auto size, ImageSize(image, what));
  const int64_t h = window.h.Output(size.first), w = window.w.Output(size.second);
  if (h < 1 || w < 1) {
    return InvalidArgument("a window of ", window.h.kernel, " by ", window.w.kernel, " (dilation ",
                           window.h.dilation, ", ", window.w.dilation, ") does not fit into ", what,
                           " of shape ", image.ToString());
  }
  return Shape{image[0], h, w, channels};
}

}  // namespace oc::ops
