#include <cmath>

#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"
#include "openclaw/graph/ops/window.h"

namespace oc::reference {
namespace {

// x[batch, height, width, channels] -> y[batch, out_height, out_width, channels].
struct Sizes {
  Sizes(const Shape& x, const Shape& y, const Attributes& attrs)
      : window(*ops::Pool2dWindow(attrs)),
        batch(x[0].size()),
        height(x[1].size()),
        width(x[2].size()),
        channels(x[3].size()),
        out_height(y[1].size()),
        out_width(y[2].size()) {}

  int64_t X(int64_t b, int64_t h, int64_t w, int64_t c) const {
    return ((b * height + h) * width + w) * channels + c;
  }
  int64_t Y(int64_t b, int64_t h, int64_t w, int64_t c) const {
    return ((b * out_height + h) * out_width + w) * channels + c;
  }

  ops::Window2d window;
  int64_t batch, height, width, channels, out_height, out_width;
};

// f(b, oh, ow, c) for every output.
template <typename F>
void ForOutputs(const Sizes& s, const F& f) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t oh = 0; oh < s.out_height; ++oh) {
      for (int64_t ow = 0; ow < s.out_width; ++ow) {
        for (int64_t c = 0; c < s.channels; ++c) f(b, oh, ow, c);
      }
    }
  }
}

// f(h, w, kh * KW + kw) for the positions of a window that lie within the image.
template <typename F>
void ForPositions(const Sizes& s, int64_t oh, int64_t ow, const F& f) {
  for (int64_t kh = 0; kh < s.window.h.kernel; ++kh) {
    const int64_t h = s.window.h.Position(oh, kh);
    if (h < 0 || h >= s.height) continue;
    for (int64_t kw = 0; kw < s.window.w.kernel; ++kw) {
      const int64_t w = s.window.w.Position(ow, kw);
      if (w >= 0 && w < s.width) f(h, w, kh * s.window.w.kernel + kw);
    }
  }
}

// Every dx: the sum over the windows that read it of term(b, oh, ow, c, position within the
// window).
template <typename Term, typename T>
void SumOverWindows(const Sizes& s, T* dx, const Term& term) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.height; ++h) {
      for (int64_t w = 0; w < s.width; ++w) {
        for (int64_t c = 0; c < s.channels; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < s.window.h.kernel * s.window.w.kernel; ++k) {
            const int64_t oh = s.window.h.Window(h, k / s.window.w.kernel, s.out_height);
            const int64_t ow = s.window.w.Window(w, k % s.window.w.kernel, s.out_width);
            if (oh >= 0 && ow >= 0) sum += term(b, oh, ow, c, k);
          }
          Store(dx, s.X(b, h, w, c), sum);
        }
      }
    }
  }
}

template <typename T>
Status Max(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.inputs[0].shape, request.outputs[0].shape, request.attrs);
  const T* x = args.in<T>(0);
  ForOutputs(s, [&](int64_t b, int64_t oh, int64_t ow, int64_t c) {
    double best = -INFINITY;
    int64_t index = -1;
    ForPositions(s, oh, ow, [&](int64_t h, int64_t w, int64_t position) {
      const double v = Load(x, s.X(b, h, w, c));
      // The first largest; what is no number wins, so that it is not hidden.
      if (index < 0 || v > best || (std::isnan(v) && !std::isnan(best))) {
        best = v;
        index = position;
      }
    });
    Store(args.out<T>(0), s.Y(b, oh, ow, c), best);
    args.out<uint8_t>(1)[s.Y(b, oh, ow, c)] = static_cast<uint8_t>(index);
  });
  return OkStatus();
}

template <typename T>
Status MaxGrad(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.outputs[0].shape, request.inputs[0].shape, request.attrs);
  const T* dy = args.in<T>(0);
  const uint8_t* index = args.in<uint8_t>(1);
  SumOverWindows(s, args.out<T>(0),
                 [&](int64_t b, int64_t oh, int64_t ow, int64_t c, int64_t position) {
                   const int64_t y = s.Y(b, oh, ow, c);
                   return index[y] == position ? Load(dy, y) : 0.0;
                 });
  return OkStatus();
}

// What the sum of a window is divided by.
double Divisor(const Sizes& s, const Attributes& attrs, int64_t oh, int64_t ow) {
  if (attrs.Bool("count_include_pad", true)) {
    return static_cast<double>(s.window.h.kernel * s.window.w.kernel);
  }
  double count = 0;
  ForPositions(s, oh, ow, [&](int64_t, int64_t, int64_t) { ++count; });
  return count;
}

template <typename T>
Status Avg(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.inputs[0].shape, request.outputs[0].shape, request.attrs);
  const T* x = args.in<T>(0);
  ForOutputs(s, [&](int64_t b, int64_t oh, int64_t ow, int64_t c) {
    double sum = 0;
    ForPositions(s, oh, ow,
                 [&](int64_t h, int64_t w, int64_t) { sum += Load(x, s.X(b, h, w, c)); });
    Store(args.out<T>(0), s.Y(b, oh, ow, c), sum / Divisor(s, request.attrs, oh, ow));
  });
  return OkStatus();
}

template <typename T>
Status AvgGrad(const OpRequest& request, const KernelArgs& args) {
  const Sizes s(request.outputs[0].shape, request.inputs[0].shape, request.attrs);
  const T* dy = args.in<T>(0);
  SumOverWindows(s, args.out<T>(0), [&](int64_t b, int64_t oh, int64_t ow, int64_t c, int64_t) {
    return Load(dy, s.Y(b, oh, ow, c)) / Divisor(s, request.attrs, oh, ow);
  });
  return OkStatus();
}

}  // namespace

void RegisterPool2d(KernelRegistry& registry) {
  registry.Add("max_pool2d", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Max<T>(r, a);
               }));
  registry.Add("max_pool2d_grad",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return MaxGrad<T>(r, a);
               }));
  registry.Add("avg_pool2d", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Avg<T>(r, a);
               }));
  registry.Add("avg_pool2d_grad",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return AvgGrad<T>(r, a);
               }));
}

}  // namespace oc::reference
