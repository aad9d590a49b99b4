#include "openclaw/devices/cpu/onednn/fold_conv2d.h"

#include <algorithm>
#include <map>
#include <utility>

#include "openclaw/devices/cpu/native/patch_loops.h"
#include "openclaw/devices/cpu/onednn/first_error.h"

namespace oc::cpu {
namespace {

using onednn::Call;
using onednn::Layout;
using Kind = onednn::ConvolutionSpec::Kind;

constexpr int64_t kAlignment = 64;
// Of a piece: channels of the images, and about how many output pixels.
constexpr int64_t kChannels = 64, kPixels = 512;

int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t Length(const WorkRange& r) { return r.end - r.begin; }
int64_t Parts(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

class FoldConvolution : public HostKernel {
 public:
  explicit FoldConvolution(const ConvGeometry& g)
      : g_(g),
        kind_(g.dtype == DType::kF32 ? kFloat32 : kBFloat16),
        out_image_(g.out_height * g.out_width),
        images_at_once_(std::max<int64_t>(1, kPixels / out_image_)) {
    const auto axis = [](const ops::WindowAxis& a, int64_t input, int64_t output) {
      return PatchAxis{input, output, a.kernel, a.stride, a.before, a.dilation};
    };
    sizes_ = {axis(g.window.h, g.height, g.out_height), axis(g.window.w, g.width, g.out_width), 0};
  }

  Status Prepare(const onednn::Context& context, int threads) {
    Share(threads);
    for (Worker& w : workers_) {
      const int64_t images = std::min(images_at_once_, Length(w.images));
      const int64_t channels = std::min(kChannels, Length(w.channels));
      w.product = Reserve(images * out_image_ * channels * g_.taps() * SizeInBytes(DType::kF32));
      w.sums = Reserve(g_.height * g_.width * channels * SizeInBytes(DType::kF32));
      OC_RETURN_IF_ERROR(PrepareProducts(context, w));
    }
    return OkStatus();
  }

  const char* implementation() const override { return "onednn"; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  Status Run(const KernelArgs& args) override {
    return onednn::RunParts(args.pool, workers_, [&](Worker& w) { return RunWorker(w, args); });
  }

 private:
  struct Worker {
    WorkRange images, channels;
    int64_t product = 0, sums = 0, scratch = 0;  // where they are in the workspace
    // By pixels and columns; none where the product is an sgemm.
    std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Call>> calls;
  };

  // Pieces of channels times groups of images, so that the one who has most has as little as can
  // be; of equals the one with more groups of channels, which copies less of the weights.
  void Share(int threads) {
    const int64_t pieces = Parts(g_.in, kChannels);
    int64_t best = 0, by_images = 1, by_channels = 1;
    for (int64_t c = std::min<int64_t>(pieces, threads); c >= 1; --c) {
      const int64_t i = std::min<int64_t>(g_.batch, threads / c);
      const int64_t load = Parts(pieces, c) * Parts(g_.batch, i);
      if (best == 0 || load < best) best = load, by_channels = c, by_images = i;
    }
    for (int64_t c = 0; c < by_channels; ++c) {
      for (int64_t i = 0; i < by_images; ++i) {
        Worker w;
        w.channels =
            SplitWork(g_.in, kChannels, static_cast<int>(by_channels), static_cast<int>(c));
        w.images = SplitWork(g_.batch, 1, static_cast<int>(by_images), static_cast<int>(i));
        if (Length(w.channels) > 0 && Length(w.images) > 0) workers_.push_back(std::move(w));
      }
    }
  }

  int64_t Reserve(int64_t bytes) {
    const int64_t offset = workspace_bytes_;
    workspace_bytes_ += Align(bytes);
    return offset;
  }

  // f(images, channels) for every piece of a worker, pieces of one group of channels in a row.
  template <typename F>
  Status ForPieces(const Worker& w, const F& f) const {
    for (int64_t c = w.channels.begin; c < w.channels.end; c += kChannels) {
      const WorkRange channels{c, std::min(c + kChannels, w.channels.end)};
      for (int64_t i = w.images.begin; i < w.images.end; i += images_at_once_) {
        OC_RETURN_IF_ERROR(f(WorkRange{i, std::min(i + images_at_once_, w.images.end)}, channels));
      }
    }
    return OkStatus();
  }

  Status PrepareProducts(const onednn::Context& context, Worker& w) {
    if (g_.dtype == DType::kF32) return OkStatus();
    int64_t scratch = 0;
    OC_RETURN_IF_ERROR(ForPieces(w, [&](WorkRange images, WorkRange channels) -> Status {
      const int64_t m = Length(images) * out_image_, n = Length(channels) * g_.taps();
      std::unique_ptr<Call>& call = w.calls[{m, n}];
      if (call != nullptr) return OkStatus();
      onednn::ProductSpec spec;
      OC_ASSIGN_OR_RETURN(spec.a, Layout::Strided(g_.dtype, {m, g_.out}, {g_.out, 1}));
      OC_ASSIGN_OR_RETURN(spec.b, Layout::Strided(g_.dtype, {g_.out, n}, {g_.in * g_.taps(), 1}));
      OC_ASSIGN_OR_RETURN(spec.c, Layout::Strided(DType::kF32, {m, n}, {n, 1}));
      OC_ASSIGN_OR_RETURN(call, onednn::MakeProduct(context, spec));
      scratch = std::max(scratch, call->scratch_bytes());
      return OkStatus();
    }));
    w.scratch = Reserve(scratch);
    return OkStatus();
  }

  Status RunWorker(const Worker& w, const KernelArgs& args) const {
    return ForPieces(w, [&](WorkRange images, WorkRange channels) {
      OC_RETURN_IF_ERROR(Multiply(w, args, images, channels));
      FoldPiece(w, args, images, channels);
      return OkStatus();
    });
  }

  Status Multiply(const Worker& w, const KernelArgs& args, WorkRange images,
                  WorkRange channels) const {
    const int64_t m = Length(images) * out_image_, n = Length(channels) * g_.taps();
    const int64_t size = SizeInBytes(g_.dtype), line = g_.in * g_.taps();
    const std::byte* dy = args.inputs[0] + images.begin * out_image_ * g_.out * size;
    const std::byte* weights = args.inputs[1] + channels.begin * g_.taps() * size;
    std::byte* product = args.workspace + w.product;
    if (g_.dtype == DType::kF32) {
      return onednn::Sgemm(false, false, m, n, g_.out, reinterpret_cast<const float*>(dy), g_.out,
                           reinterpret_cast<const float*>(weights), line, 0.0f,
                           reinterpret_cast<float*>(product), n);
    }
    // The library's interface knows no constant operands.
    void* operands[] = {const_cast<std::byte*>(dy), const_cast<std::byte*>(weights), product};
    return w.calls.at({m, n})->Run(operands, args.workspace + w.scratch);
  }

  void FoldPiece(const Worker& w, const KernelArgs& args, WorkRange images,
                 WorkRange channels) const {
    PatchSizes sizes = sizes_;
    sizes.channels = Length(channels);
    const int64_t row = sizes.channels * g_.taps(), in_image = g_.height * g_.width;
    auto* const sums = reinterpret_cast<float*>(args.workspace + w.sums);
    const auto* product = reinterpret_cast<const float*>(args.workspace + w.product);
    for (int64_t i = images.begin; i < images.end; ++i, product += out_image_ * row) {
      std::byte* const image =
          args.outputs[0] + (i * in_image * g_.in + channels.begin) * SizeInBytes(g_.dtype);
      GetPatchLoops().fold[kind_](sizes, product, row, sums, image, g_.in);
    }
  }

  const ConvGeometry g_;
  const FloatKind kind_;
  const int64_t out_image_;       // pixels
  const int64_t images_at_once_;  // of a piece
  PatchSizes sizes_;
  std::vector<Worker> workers_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace

// Times of the library's kernel as shares of this one's, 3x3, on images of w x w pixels from the
// output (AVX-512 with bf16; one worker; channels in -> out; stride 1, and 2 after the stroke):
//
//            w   2          4          5          6          7          8          10
//   f32 64->64   .86/1.72   .61/1.25   .65/1.18   .99/1.12   .97/1.07   .95/1.05   .79/1.01
//     128->256     - /1.83  .68/1.18     - /1.02    - / .97  .88/1.02     - / .98    - / .95
//     256->256   .91/1.84   .77/1.41   .77/1.30  1.11/1.25  1.07/1.23  1.07/1.18   .95/1.15
//     512->512  1.35/2.06  1.17/1.46  1.10/1.42  1.12/1.35  1.11/1.26  1.12/1.31  1.25/1.27
//   bf16 64->64  .63/ .84   .53/ .76   .54/ .68   .56/ .67   .82/ .74   .70/ .79   .63/ .71
//     128->256     - /1.41  .85/1.57     - /1.29    - / .88 1.08/1.28     - /1.14    - / .98
//     256->256  1.32/1.54   .84/1.71   .71/1.39   .73/ .88  1.15/1.26  1.00/1.15   .85/1.03
//     512->512  1.23/1.66   .89/1.83   .75/1.49   .80/ .96  1.18/1.33  1.05/1.23   .90/1.08
//
// The library skips what falls outside of an image, which is much of the smallest ones; in bf16 it
// likes widths that its registers hold just so.
bool SuitsFold(const ConvGeometry& g) {
  constexpr int64_t kTaps = 9, kFewest = 64, kSome = 128, kMany = 256, kMost = 512;
  if (ActiveIsa() == Isa::kNone || g.kind != Kind::kGradInput || g.groups != 1) return false;
  if (g.taps() != kTaps || g.in < kFewest) return false;
  const int64_t pixels = g.out_height * g.out_width;
  const bool strided = g.window.h.stride > 1 || g.window.w.stride > 1;
  if (g.dtype == DType::kF32) {
    if (strided && pixels <= 4 * 4) return true;
    return g.in >= kMany && (strided || g.out >= kMost) && pixels <= 10 * 10;
  }
  if (g.in < kSome || g.out < kMany || pixels > 8 * 8) return false;
  return strided ? g.out_width != 6 : g.out_width == 7 || g.out_width <= 2;
}

StatusOr<std::unique_ptr<HostKernel>> NewFoldConvolution(const onednn::Context& context,
                                                         const ConvGeometry& g, int threads) {
  auto kernel = std::make_unique<FoldConvolution>(g);
  OC_RETURN_IF_ERROR(kernel->Prepare(context, threads));
  return std::unique_ptr<HostKernel>(std::move(kernel));
}

}  // namespace oc::cpu
