#include "openclaw/devices/cpu/onednn/tap_conv2d.h"

#include <algorithm>
#include <cstring>
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
constexpr int64_t kChannels = 16;  // a worker's input channels are a multiple of

int64_t Length(const WorkRange& r) { return r.end - r.begin; }

// Outputs whose patch has tap k inside of the axis.
WorkRange OutputsOf(const ops::WindowAxis& a, int64_t input, int64_t output, int64_t k) {
  const int64_t first = k * a.dilation - a.before;  // where output 0 has the tap
  const int64_t begin = first >= 0 ? 0 : (-first + a.stride - 1) / a.stride;
  const int64_t end = first >= input ? 0 : (input - 1 - first) / a.stride + 1;
  const int64_t last = std::min(output, end);
  return {std::min(begin, last), last};
}

class TapGradWeight : public HostKernel {
 public:
  explicit TapGradWeight(const ConvGeometry& g)
      : g_(g),
        size_(SizeInBytes(g.dtype)),
        sum_kind_(g.sum == DType::kF32 ? kFloat32 : kBFloat16) {}

  Status Prepare(const onednn::Context& context, int threads) {
    for (int64_t kh = 0; kh < g_.window.h.kernel; ++kh) {
      for (int64_t kw = 0; kw < g_.window.w.kernel; ++kw) AddTap(kh, kw);
    }
    for (int worker = 0; worker < threads; ++worker) {
      Worker w;
      w.channels = SplitWork(g_.in, kChannels, threads, worker);
      const int64_t channels = Length(w.channels);
      if (channels == 0) break;
      int64_t most = 0;
      for (const Tap& tap : taps_) most = std::max(most, Depth(tap));
      w.x = Reserve(most * channels * size_);
      w.sums = Reserve(g_.out * g_.taps() * channels * SizeInBytes(g_.sum));
      OC_RETURN_IF_ERROR(PrepareCalls(context, w));
      workers_.push_back(std::move(w));
    }
    return OkStatus();
  }

  const char* implementation() const override { return "onednn"; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  Status Run(const KernelArgs& args) override {
    args.pool.ParallelFor(g_.out_height * g_.batch, 1, [&](int64_t begin, int64_t end) {
      for (const Form& form : forms_) CopyGradient(form, args, begin, end);
    });
    return onednn::RunParts(args.pool, workers_, [&](Worker& w) { return RunWorker(w, args); });
  }

 private:
  // The gradient of the output in columns `w` alone, as rows [h][image][w][channel]: the rows h of
  // a tap lie in one piece.
  struct Form {
    WorkRange w;
    int64_t offset = 0;
  };
  struct Tap {
    int64_t kh, kw;
    WorkRange h;
    size_t form;
  };
  struct Worker {
    WorkRange channels;
    int64_t x = 0, sums = 0, scratch = 0;            // where they are in the workspace
    std::map<int64_t, std::unique_ptr<Call>> calls;  // by depth; none where it is an sgemm
  };

  int64_t Reserve(int64_t bytes) {
    const int64_t offset = workspace_bytes_;
    workspace_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }

  void AddTap(int64_t kh, int64_t kw) {
    const WorkRange w = OutputsOf(g_.window.w, g_.width, g_.out_width, kw);
    size_t form = 0;
    while (form < forms_.size() &&
           (forms_[form].w.begin != w.begin || forms_[form].w.end != w.end)) {
      ++form;
    }
    if (form == forms_.size()) {
      forms_.push_back({w, Reserve(g_.out_height * g_.batch * Length(w) * g_.out * size_)});
    }
    taps_.push_back({kh, kw, OutputsOf(g_.window.h, g_.height, g_.out_height, kh), form});
  }

  // Pixels that a tap sums over.
  int64_t Depth(const Tap& tap) const {
    return Length(tap.h) * g_.batch * Length(forms_[tap.form].w);
  }

  Status PrepareCalls(const onednn::Context& context, Worker& w) {
    if (g_.dtype == DType::kF32) return OkStatus();
    int64_t scratch = 0;
    const int64_t n = Length(w.channels);
    for (const Tap& tap : taps_) {
      const int64_t k = Depth(tap);
      if (k == 0 || w.calls.count(k) > 0) continue;
      onednn::ProductSpec spec;
      OC_ASSIGN_OR_RETURN(spec.a, Layout::Strided(g_.dtype, {g_.out, k}, {1, g_.out}));
      OC_ASSIGN_OR_RETURN(spec.b, Layout::Strided(g_.dtype, {k, n}, {n, 1}));
      OC_ASSIGN_OR_RETURN(spec.c, Layout::Strided(g_.sum, {g_.out, n}, {g_.taps() * n, 1}));
      OC_ASSIGN_OR_RETURN(auto call, onednn::MakeProduct(context, spec));
      scratch = std::max(scratch, call->scratch_bytes());
      w.calls.emplace(k, std::move(call));
    }
    w.scratch = Reserve(scratch);
    return OkStatus();
  }

  // Lines begin..end-1 of [h][image].
  void CopyGradient(const Form& form, const KernelArgs& args, int64_t begin, int64_t end) const {
    const int64_t pixel = g_.out * size_, bytes = Length(form.w) * pixel;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t h = line / g_.batch, image = line % g_.batch;
      const std::byte* from =
          args.inputs[0] + ((image * g_.out_height + h) * g_.out_width + form.w.begin) * pixel;
      std::memcpy(args.workspace + form.offset + line * bytes, from, static_cast<size_t>(bytes));
    }
  }

  Status RunWorker(const Worker& w, const KernelArgs& args) const {
    for (size_t t = 0; t < taps_.size(); ++t) {
      GatherPixels(w, taps_[t], args);
      OC_RETURN_IF_ERROR(Multiply(w, static_cast<int64_t>(t), args));
    }
    GetPatchLoops().unpack[sum_kind_](
        args.workspace + w.sums,
        args.outputs[0] + w.channels.begin * g_.taps() * SizeInBytes(g_.sum), Length(w.channels),
        g_.in, g_.taps(), 0, g_.out, g_.accumulate);
    return OkStatus();
  }

  // The worker's channels of a tap's pixels, in the order of the gradient's form.
  void GatherPixels(const Worker& w, const Tap& tap, const KernelArgs& args) const {
    const auto& [wh, ww] = g_.window;
    const WorkRange columns = forms_[tap.form].w;
    const int64_t pixel = g_.in * size_;
    const auto bytes = static_cast<size_t>(Length(w.channels) * size_);
    std::byte* to = args.workspace + w.x;
    for (int64_t oh = tap.h.begin; oh < tap.h.end; ++oh) {
      const int64_t h = oh * wh.stride - wh.before + tap.kh * wh.dilation;
      for (int64_t image = 0; image < g_.batch; ++image) {
        const std::byte* line =
            args.inputs[1] + (image * g_.height + h) * g_.width * pixel + w.channels.begin * size_;
        for (int64_t ow = columns.begin; ow < columns.end; ++ow, to += bytes) {
          const int64_t x = ow * ww.stride - ww.before + tap.kw * ww.dilation;
          std::memcpy(to, line + x * pixel, bytes);
        }
      }
    }
  }

  Status Multiply(const Worker& w, int64_t t, const KernelArgs& args) const {
    const Tap& tap = taps_[static_cast<size_t>(t)];
    const Form& form = forms_[tap.form];
    const int64_t n = Length(w.channels), k = Depth(tap), row = g_.taps() * n;
    std::byte* const sums = args.workspace + w.sums + t * n * SizeInBytes(g_.sum);
    if (k == 0) {
      const auto bytes = static_cast<size_t>(n * SizeInBytes(g_.sum));
      for (int64_t o = 0; o < g_.out; ++o) {
        std::memset(sums + o * row * SizeInBytes(g_.sum), 0, bytes);
      }
      return OkStatus();
    }
    std::byte* const dy =
        args.workspace + form.offset + tap.h.begin * g_.batch * Length(form.w) * g_.out * size_;
    std::byte* const x = args.workspace + w.x;
    if (g_.dtype == DType::kF32) {
      return onednn::Sgemm(true, false, g_.out, n, k, reinterpret_cast<const float*>(dy), g_.out,
                           reinterpret_cast<const float*>(x), n, 0.0f,
                           reinterpret_cast<float*>(sums), row);
    }
    void* operands[] = {dy, x, sums};
    return w.calls.at(k)->Run(operands, args.workspace + w.scratch);
  }

  const ConvGeometry g_;
  const int64_t size_;
  const FloatKind sum_kind_;
  std::vector<Form> forms_;
  std::vector<Tap> taps_;  // in the order of the window
  std::vector<Worker> workers_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace

bool SuitsTaps(const ConvGeometry& g, int threads) {
  constexpr int64_t kSmallImage = 16, kFewest = 64;
  constexpr double kWorthCutting = 0.9;  // share of the patches that is inside
  if (ActiveIsa() == Isa::kNone || g.kind != Kind::kGradWeight || g.groups != 1) return false;
  // With fewer channels a worker, what is copied costs more than the products gain.
  if (g.out < kFewest || g.in < kFewest * std::max(threads, 2)) return false;
  if (g.out_height * g.out_width > kSmallImage) return false;
  const auto inside = [](const ops::WindowAxis& a, int64_t input, int64_t output) {
    int64_t outputs = 0;
    for (int64_t k = 0; k < a.kernel; ++k) outputs += Length(OutputsOf(a, input, output, k));
    return static_cast<double>(outputs) / static_cast<double>(a.kernel * output);
  };
  return inside(g.window.h, g.height, g.out_height) * inside(g.window.w, g.width, g.out_width) <
         kWorthCutting;
}

StatusOr<std::unique_ptr<HostKernel>> NewTapGradWeight(const onednn::Context& context,
                                                       const ConvGeometry& g, int threads) {
  auto kernel = std::make_unique<TapGradWeight>(g);
  OC_RETURN_IF_ERROR(kernel->Prepare(context, threads));
  return std::unique_ptr<HostKernel>(std::move(kernel));
}

}  // namespace oc::cpu
