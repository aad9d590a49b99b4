// conv2d and its gradients. Activations stay NHWC as they lie in the arena; weights are plain OIHW
// there and are copied into the form that the library likes, in the workspace, by all workers
// together (a few percent of the convolution's time). Each worker convolves its share of the batch;
// partial weight gradients are added in the order of the workers.
#include <algorithm>
#include <optional>
#include <utility>

#include "openclaw/devices/cpu/onednn/conv_geometry.h"
#include "openclaw/devices/cpu/onednn/first_error.h"
#include "openclaw/devices/cpu/onednn/fold_conv2d.h"
#include "openclaw/devices/cpu/onednn/onednn.h"
#include "openclaw/devices/cpu/onednn/patch_conv2d.h"
#include "openclaw/devices/cpu/onednn/tap_conv2d.h"
#include "openclaw/devices/cpu/onednn/weight_copy.h"
#include "openclaw/devices/cpu/widened.h"

namespace oc::cpu {
namespace {

using onednn::Call;
using onednn::Context;
using onednn::ConvolutionSpec;
using onednn::Dims;
using onednn::Layout;
using Geometry = ConvGeometry;
using Kind = ConvolutionSpec::Kind;

constexpr int64_t kAlignment = 64;
int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

StatusOr<Layout> Images(DType dtype, int64_t b, int64_t h, int64_t w, int64_t c) {
  return Layout::Strided(dtype, {b, c, h, w}, {h * w * c, 1, w * c, c});
}

// The convolution of `batch` images, with weights as `weights` lie (empty: as the library likes).
StatusOr<std::unique_ptr<Call>> Convolve(const Context& context, const Geometry& g, int64_t batch,
                                         const Layout& weights) {
  ConvolutionSpec spec;
  spec.kind = g.kind;
  OC_ASSIGN_OR_RETURN(spec.x, Images(g.dtype, batch, g.height, g.width, g.in));
  OC_ASSIGN_OR_RETURN(spec.y, Images(g.dtype, batch, g.out_height, g.out_width, g.out));
  spec.w = weights;
  if (weights.empty()) {
    // Sums over the batch are kept in f32, also between workers.
    const DType dtype = g.kind == Kind::kGradWeight ? DType::kF32 : g.dtype;
    OC_ASSIGN_OR_RETURN(spec.w, Layout::Any(dtype, WeightDims(g)));
  }
  if (g.kind == Kind::kGradWeight && g.dtype != DType::kF32) {
    OC_ASSIGN_OR_RETURN(spec.hint_w, Layout::Any(g.dtype, WeightDims(g)));
  }
  if (g.bias) {
    OC_ASSIGN_OR_RETURN(spec.bias, Layout::Strided(g.dtype, {g.out}, {1}));
  }
  const auto& [h, w] = g.window;
  spec.stride = {h.stride, w.stride};
  spec.dilation = {h.dilation, w.dilation};
  spec.pad_before = {h.before, w.before};
  spec.pad_after = {h.after, w.after};
  return MakeConvolution(context, spec);
}

class ConvolutionKernel : public HostKernel {
 public:
  static StatusOr<std::unique_ptr<HostKernel>> Create(const Context& context, const Geometry& g,
                                                      int threads) {
    std::unique_ptr<ConvolutionKernel> kernel(new ConvolutionKernel(g));
    OC_RETURN_IF_ERROR(kernel->Prepare(context, threads));
    return std::unique_ptr<HostKernel>(std::move(kernel));
  }
  const char* implementation() const override { return "onednn"; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  Status Run(const KernelArgs& args) override {
    return g_.kind == Kind::kGradWeight ? RunGradWeight(args) : RunWithWeights(args);
  }

 private:
  struct Part {
    WorkRange images;
    std::unique_ptr<Call> call;
    int64_t scratch = 0;  // where it is in the workspace
  };
  explicit ConvolutionKernel(const Geometry& g) : g_(g) {}

  int64_t Reserve(int64_t bytes) {
    const int64_t offset = workspace_bytes_;
    workspace_bytes_ += Align(bytes);
    return offset;
  }

  Status Prepare(const Context& context, int threads) {
    OC_ASSIGN_OR_RETURN(const Layout plain, PlainWeights(g_));
    for (int worker = 0; worker < threads; ++worker) {
      Part part;
      part.images = SplitWork(g_.batch, 1, threads, worker);
      const int64_t count = part.images.end - part.images.begin;
      if (count == 0) break;
      OC_ASSIGN_OR_RETURN(part.call, Convolve(context, g_, count, weights_));
      weights_ = part.call->layout(1);  // all parts take that of the first
      part.scratch = Reserve(part.call->scratch_bytes());
      parts_.push_back(std::move(part));
    }
    const bool plain_enough = weights_ == plain;
    if (g_.kind == Kind::kGradWeight) {
      // One partial sum a worker; they are added to the first.
      partial_bytes_ = Align(weights_.bytes());
      weights_offset_ = Reserve(partial_bytes_ * static_cast<int64_t>(parts_.size()));
    } else if (!plain_enough) {
      weights_offset_ = Reserve(weights_.bytes());
    }
    if (g_.kind == Kind::kGradWeight || !plain_enough) {
      OC_ASSIGN_OR_RETURN(copy_, WeightCopy::Create(context, g_, plain, weights_, threads));
      copy_scratch_ = Reserve(copy_->scratch_bytes());
    }
    return OkStatus();
  }

  int64_t x_image_bytes() const { return g_.height * g_.width * g_.in * SizeInBytes(g_.dtype); }
  int64_t y_image_bytes() const {
    return g_.out_height * g_.out_width * g_.out * SizeInBytes(g_.dtype);
  }

  Status RunCall(int worker, const std::byte* x, const std::byte* w, const std::byte* y,
                 const std::byte* bias, std::byte* workspace) const {
    if (worker >= static_cast<int>(parts_.size())) return OkStatus();
    const Part& part = parts_[worker];
    // The library's interface knows no constant operands.
    void* operands[] = {const_cast<std::byte*>(x + part.images.begin * x_image_bytes()),
                        const_cast<std::byte*>(w),
                        const_cast<std::byte*>(y + part.images.begin * y_image_bytes()),
                        const_cast<std::byte*>(bias)};
    return part.call->Run(operands, workspace + part.scratch);
  }

  // Forward and the input's gradient: weights are read.
  Status RunWithWeights(const KernelArgs& args) const {
    onednn::FirstError error;
    const bool forward = g_.kind == Kind::kForward;
    const std::byte* x = forward ? args.inputs[0] : args.outputs[0];
    const std::byte* y = forward ? args.outputs[0] : args.inputs[0];
    const std::byte* w = args.inputs[1];
    if (copy_.has_value()) {
      std::byte* blocked = args.workspace + weights_offset_;
      args.pool.Run([&](int worker) {
        error.Keep(copy_->ToBlocked(worker, w, blocked, args.workspace + copy_scratch_));
      });
      w = blocked;
    }
    args.pool.Run([&](int worker) {
      error.Keep(RunCall(worker, x, w, y, g_.bias ? args.inputs[2] : nullptr, args.workspace));
    });
    return error.Take();
  }

  Status RunGradWeight(const KernelArgs& args) const {
    onednn::FirstError error;
    std::byte* partials = args.workspace + weights_offset_;
    args.pool.Run([&](int worker) {
      error.Keep(RunCall(worker, args.inputs[1], partials + worker * partial_bytes_, args.inputs[0],
                         nullptr, args.workspace));
    });
    OC_RETURN_IF_ERROR(error.Take());
    float* sum = reinterpret_cast<float*>(partials);
    const auto count = static_cast<int64_t>(parts_.size());
    if (count > 1 && !copy_->adds_partials()) {
      args.pool.ParallelFor(weights_.bytes() / 4, 16, [&](int64_t begin, int64_t end) {
        for (size_t p = 1; p < parts_.size(); ++p) {
          const float* partial =
              reinterpret_cast<const float*>(partials + static_cast<int64_t>(p) * partial_bytes_);
          for (int64_t i = begin; i < end; ++i) sum[i] += partial[i];
        }
      });
    }
    args.pool.Run([&](int worker) {
      error.Keep(copy_->ToPlain(worker, {sum, count, partial_bytes_ / SizeInBytes(DType::kF32)},
                                args.outputs[0], args.workspace + copy_scratch_));
    });
    return error.Take();
  }

  Geometry g_;
  std::vector<Part> parts_;
  Layout weights_;                  // the library's form
  std::optional<WeightCopy> copy_;  // none where the library takes plain weights
  int64_t workspace_bytes_ = 0, weights_offset_ = 0, partial_bytes_ = 0, copy_scratch_ = 0;
};

}  // namespace

void RegisterOneDnnConvolutions(KernelRegistry& registry, std::shared_ptr<const Context> context) {
  const auto add = [&](const char* op, Kind kind, uint32_t accumulable) {
    registry.Add(op,
                 WithF16([context, kind](const OpRequest& request,
                                         int threads) -> StatusOr<std::unique_ptr<HostKernel>> {
                   OC_ASSIGN_OR_RETURN(const Geometry g, ConvGeometryOf(kind, request));
                   if (SuitsTaps(g, threads)) return NewTapGradWeight(*context, g, threads);
                   if (SuitsPatches(g)) return NewPatchConvolution(*context, g, threads);
                   if (SuitsFold(g)) return NewFoldConvolution(*context, g, threads);
                   return ConvolutionKernel::Create(*context, g, threads);
                 }),
                 accumulable, /*sum_types=*/true);
  };
  add("conv2d", Kind::kForward, 0);
  add("conv2d_grad_input", Kind::kGradInput, 0);
  add("conv2d_grad_weight", Kind::kGradWeight, 1);
}

}  // namespace oc::cpu
