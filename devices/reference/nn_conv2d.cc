#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"
#include "openclaw/graph/ops/window.h"

namespace oc::reference {

void RegisterNn(KernelRegistry& registry) {
  RegisterConv2d(registry);
  RegisterPool2d(registry);
  RegisterBatchNorm(registry);
  RegisterLayerNorm(registry);
  RegisterCrossEntropy(registry);
  RegisterEmbedding(registry);
  RegisterAttention(registry);
}

namespace {

// Sizes of x[batch, height, width, in] * w[out, in_group, kernel] -> y[batch, out_height,
// out_width, out].
struct Sizes {
  Sizes(const Shape& x, const Shape& w, const Shape& y, const Attributes& attrs)
      : window(*ops::Conv2dWindow(attrs, w)),
        batch(x[0].size()),
        height(x[1].size()),
        width(x[2].size()),
        in(x[3].size()),
        out(w[0].size()),
        in_group(w[1].size()),
        out_group(out / attrs.Int("groups", 1)),
        out_height(y[1].size()),
        out_width(y[2].size()) {}

  int64_t X(int64_t b, int64_t h, int64_t w, int64_t i) const {
    return ((b * height + h) * width + w) * in + i;
  }
  int64_t W(int64_t o, int64_t i, int64_t kh, int64_t kw) const {
    return ((o * in_group + i) * window.h.kernel + kh) * window.w.kernel + kw;
  }
  int64_t Y(int64_t b, int64_t h, int64_t w, int64_t o) const {
    return ((b * out_height + h) * out_width + w) * out + o;
  }
  // The first input channel that output channel o reads.
  int64_t FirstInput(int64_t o) const { return o / out_group * in_group; }

  ops::Window2d window;
  int64_t batch, height, width, in, out, in_group, out_group, out_height, out_width;
};

// One pixel of the output, before the bias.
template <typename T>
double Pixel(const Sizes& s, const T* x, const T* w, int64_t b, int64_t oh, int64_t ow, int64_t o) {
  double sum = 0;
  for (int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
    const int64_t h = s.window.h.Position(oh, kh);
    if (h < 0 || h >= s.height) continue;
    for (int64_t kw = 0; kw < s.window.w.kernel; ++kw) {
      const int64_t v = s.window.w.Position(ow, kw);
      if (v < 0 || v >= s.width) continue;
      for (int64_t i = 0; i < s.in_group; ++i) {
        sum += Load(x, s.X(b, h, v, s.FirstInput(o) + i)) * Load(w, s.W(o, i, kh, kw));
      }
    }
  }
  return sum;
}

template <typename T>
Status Forward(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape,
                request.attrs);
  const bool has_bias = request.inputs.size() == 3;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.out_height; ++h) {
      for (int64_t w = 0; w < s.out_width; ++w) {
        for (int64_t o = 0; o < s.out; ++o) {
          const double bias = has_bias ? Load(args.in<T>(2), o) : 0;
          Store(args.out<T>(0), s.Y(b, h, w, o),
                Pixel(s, args.in<T>(0), args.in<T>(1), b, h, w, o) + bias);
        }
      }
    }
  }
  return OkStatus();
}

// One pixel of the input's gradient: all windows that read it.
template <typename T>
double InputPixel(const Sizes& s, const T* dy, const T* weight, int64_t b, int64_t h, int64_t w,
                  int64_t channel) {
  const int64_t group = channel / s.in_group;
  double sum = 0;
  for (int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
    const int64_t oh = s.window.h.Window(h, kh, s.out_height);
    if (oh < 0) continue;
    for (int64_t kw = 0; kw < s.window.w.kernel; ++kw) {
      const int64_t ow = s.window.w.Window(w, kw, s.out_width);
      if (ow < 0) continue;
      for (int64_t o = group * s.out_group; o < (group + 1) * s.out_group; ++o) {
        sum += Load(dy, s.Y(b, oh, ow, o)) * Load(weight, s.W(o, channel % s.in_group, kh, kw));
      }
    }
  }
  return sum;
}

template <typename T>
Status GradInput(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape,
                request.attrs);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.height; ++h) {
      for (int64_t w = 0; w < s.width; ++w) {
        for (int64_t i = 0; i < s.in; ++i) {
          Store(args.out<T>(0), s.X(b, h, w, i),
                InputPixel(s, args.in<T>(0), args.in<T>(1), b, h, w, i));
        }
      }
    }
  }
  return OkStatus();
}

// One element of the weight's gradient: all pixels of the output.
template <typename T>
double WeightElement(const Sizes& s, const T* dy, const T* x, int64_t o, int64_t i, int64_t kh,
                     int64_t kw) {
  double sum = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t oh = 0; oh < s.out_height; ++oh) {
      const int64_t h = s.window.h.Position(oh, kh);
      if (h < 0 || h >= s.height) continue;
      for (int64_t ow = 0; ow < s.out_width; ++ow) {
        const int64_t w = s.window.w.Position(ow, kw);
        if (w < 0 || w >= s.width) continue;
        sum += Load(dy, s.Y(b, oh, ow, o)) * Load(x, s.X(b, h, w, s.FirstInput(o) + i));
      }
    }
  }
  return sum;
}

template <typename T>
Status GradWeight(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.inputs[1].shape, request.outputs[0].shape, request.inputs[0].shape,
                request.attrs);
  for (int64_t o = 0; o < s.out; ++o) {
    for (int64_t i = 0; i < s.in_group; ++i) {
      for (int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
        for (int64_t kw = 0; kw < s.window.w.kernel; ++kw) {
          StoreSum(request, args, 0, s.W(o, i, kh, kw),
                   WeightElement(s, args.in<T>(0), args.in<T>(1), o, i, kh, kw));
        }
      }
    }
  }
  return OkStatus();
}

}  // namespace

void RegisterConv2d(KernelRegistry& registry) {
  registry.Add("conv2d", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Forward<T>(r, a);
               }));
  registry.Add("conv2d_grad_input",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return GradInput<T>(r, a);
               }));
  registry.Add("conv2d_grad_weight",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return GradWeight<T>(r, a);
               }),
               /*accumulable=*/1, /*sum_types=*/true);
}

}  // namespace oc::reference
