#include "openclaw/devices/cpu/onednn/patch_conv2d.h"

#include <cstring>
#include <utility>

#include "openclaw/devices/cpu/native/patch_loops.h"
#include "openclaw/devices/cpu/onednn/split_product.h"

namespace oc::cpu {
namespace {

using onednn::Product;
using onednn::SplitProduct;
using Kind = onednn::ConvolutionSpec::Kind;

constexpr int64_t kAlignment = 64;

// Each output pixel is a product with one input pixel: weights are a matrix as they lie.
bool HasOneTap(const ConvGeometry& g) {
  const auto one = [](const ops::WindowAxis& a) {
    return a.kernel == 1 && a.before == 0 && a.after == 0;
  };
  return g.groups == 1 && one(g.window.h) && one(g.window.w);
}
// And nothing is copied.
bool IsPointwise(const ConvGeometry& g) {
  return HasOneTap(g) && g.window.h.stride == 1 && g.window.w.stride == 1;
}

PatchAxis AxisOf(const ops::WindowAxis& a, int64_t input, int64_t output) {
  return {input, output, a.kernel, a.stride, a.before, a.dilation};
}

class PatchConvolution : public HostKernel {
 public:
  explicit PatchConvolution(const ConvGeometry& g)
      : g_(g), one_tap_(HasOneTap(g)), pointwise_(IsPointwise(g)) {
    kind_ = g.dtype == DType::kF32 ? kFloat32 : kBFloat16;
    sizes_ = {AxisOf(g.window.h, g.height, g.out_height), AxisOf(g.window.w, g.width, g.out_width),
              g.in};
  }

  Status Prepare(const onednn::Context& context, int threads) {
    const int64_t size = SizeInBytes(g_.dtype);
    OC_ASSIGN_OR_RETURN(product_, SplitProduct::Create(context, MakeProduct(), threads));
    if (!pointwise_) {
      rows_ = Reserve(g_.out_pixels() * g_.taps() * g_.in * size);
    }
    if (!one_tap_) {
      const int64_t weight_size = SizeInBytes(g_.kind == Kind::kGradWeight ? g_.sum : g_.dtype);
      weights_ = Reserve(g_.out * g_.in * g_.taps() * weight_size);
    }
    scratch_ = Reserve(product_->workspace_bytes());
    return OkStatus();
  }

  const char* implementation() const override { return "onednn"; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  Status Run(const KernelArgs& args) override {
    if (pointwise_) {
      return product_->Run(args.pool, args.inputs[0], args.inputs[1], Bias(args), args.outputs[0],
                           args.workspace + scratch_);
    }
    return g_.kind == Kind::kGradInput ? RunGradInput(args) : RunOnRows(args);
  }

 private:
  const std::byte* Bias(const KernelArgs& args) const { return g_.bias ? args.inputs[2] : nullptr; }

  // Forward and the weights' gradient.
  Status RunOnRows(const KernelArgs& args) const {
    std::byte* const rows = args.workspace + rows_;
    std::byte* const packed = args.workspace + weights_;
    std::byte* const scratch = args.workspace + scratch_;
    const PatchLoops& loops = GetPatchLoops();
    const bool grad_weight = g_.kind == Kind::kGradWeight;
    const std::byte* const images = args.inputs[grad_weight ? 1 : 0];
    args.pool.Run([&](int worker) {
      const int threads = args.pool.threads();
      const WorkRange pixels = SplitWork(g_.out_pixels(), 1, threads, worker);
      loops.gather[kind_](sizes_, images, rows, pixels.begin, pixels.end);
      if (!grad_weight && !one_tap_) {
        const WorkRange out = SplitWork(g_.out, 1, threads, worker);
        loops.pack[kind_](args.inputs[1], packed, g_.in, g_.taps(), out.begin, out.end);
      }
    });
    if (!grad_weight) {
      return product_->Run(args.pool, rows, one_tap_ ? args.inputs[1] : packed, Bias(args),
                           args.outputs[0], scratch);
    }
    std::byte* const dw = one_tap_ ? args.outputs[0] : packed;
    OC_RETURN_IF_ERROR(product_->Run(args.pool, args.inputs[0], rows, nullptr, dw, scratch));
    if (one_tap_) return OkStatus();
    args.pool.ParallelFor(g_.out, 1, [&](int64_t begin, int64_t end) {
      loops.unpack[g_.sum == DType::kF32 ? kFloat32 : kind_](packed, args.outputs[0], g_.in, g_.in,
                                                             g_.taps(), begin, end, g_.accumulate);
    });
    return OkStatus();
  }

  // Of one tap: a row of the product an output pixel, and zeros between them.
  Status RunGradInput(const KernelArgs& args) const {
    std::byte* const rows = args.workspace + rows_;
    OC_RETURN_IF_ERROR(product_->Run(args.pool, args.inputs[0], args.inputs[1], nullptr, rows,
                                     args.workspace + scratch_));
    const int64_t pixel = g_.in * SizeInBytes(g_.dtype), line = g_.width * pixel;
    const int64_t stride_h = g_.window.h.stride, stride_w = g_.window.w.stride;
    args.pool.ParallelFor(g_.batch * g_.height, 1, [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; ++l) {
        std::byte* const to = args.outputs[0] + l * line;
        std::memset(to, 0, static_cast<size_t>(line));
        const int64_t h = l % g_.height;
        if (h % stride_h != 0) continue;
        const std::byte* from =
            rows + (l / g_.height * g_.out_height + h / stride_h) * g_.out_width * pixel;
        for (int64_t w = 0; w < g_.out_width; ++w, from += pixel) {
          std::memcpy(to + w * stride_w * pixel, from, static_cast<size_t>(pixel));
        }
      }
    });
    return OkStatus();
  }

  Product MakeProduct() const {
    Product p;
    p.dtype = g_.dtype;
    p.sum = g_.kind == Kind::kGradWeight ? g_.sum : g_.dtype;
    switch (g_.kind) {
      case Kind::kForward:
        p.m = g_.out_pixels(), p.n = g_.out, p.k = g_.taps() * g_.in;
        p.transpose_b = true;
        p.bias = g_.bias;
        break;
      case Kind::kGradInput:
        p.m = g_.out_pixels(), p.n = g_.in, p.k = g_.out;  // of one tap
        break;
      case Kind::kGradWeight:
        p.m = g_.out, p.n = g_.taps() * g_.in, p.k = g_.out_pixels();
        p.transpose_a = true;
        p.accumulate = one_tap_ && g_.accumulate;
        break;
    }
    return p;
  }

  int64_t Reserve(int64_t bytes) {
    const int64_t offset = workspace_bytes_;
    workspace_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  ConvGeometry g_;
  bool one_tap_, pointwise_;
  FloatKind kind_;
  PatchSizes sizes_;
  std::unique_ptr<SplitProduct> product_;
  int64_t workspace_bytes_ = 0, rows_ = 0, weights_ = 0, scratch_ = 0;
};

}  // namespace

bool SuitsPatches(const ConvGeometry& g) {
  constexpr int64_t kMinChannels = 32, kSmallImage = 16;
  if (ActiveIsa() == Isa::kNone || g.groups != 1) return false;
  // The library's (2.6.3) gradient of bf16 images is wrong for one tap and a number of channels
  // that is no multiple of its blocks.
  constexpr int64_t kBlock = 16;
  if (g.dtype == DType::kBF16 && g.kind == Kind::kGradInput && HasOneTap(g) &&
      (g.in % kBlock != 0 || g.out % kBlock != 0)) {
    return true;
  }
  if (g.in < kMinChannels || g.out < kMinChannels) return false;
  // With fewer channels what is copied costs more than the product gains.
  constexpr int64_t kChannelsWorthCopying = 128;
  if (HasOneTap(g)) {
    return IsPointwise(g) || g.kind == Kind::kGradInput || g.in >= kChannelsWorthCopying;
  }
  return g.kind != Kind::kGradInput && g.taps() > 1 && g.out_height * g.out_width <= kSmallImage;
}

StatusOr<std::unique_ptr<HostKernel>> NewPatchConvolution(const onednn::Context& context,
                                                          const ConvGeometry& g, int threads) {
  auto kernel = std::make_unique<PatchConvolution>(g);
  OC_RETURN_IF_ERROR(kernel->Prepare(context, threads));
  return std::unique_ptr<HostKernel>(std::move(kernel));
}

}  // namespace oc::cpu
