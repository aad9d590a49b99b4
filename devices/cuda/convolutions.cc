// Convolutions by cuDNN, with the plan measured once a shape; by their definition where cuDNN has
// none for a shape or where an operand does not lie on 16 bytes. Weights are kept as
// [out, in, rows, columns], and cuDNN's fast plans want them as images lie: they are turned before
// each use, which is small beside the convolution.
#include "openclaw/devices/cuda/kernels/conv2d.h"

#include <map>

#include "openclaw/devices/cuda/kernels/elementwise.h"
#include "openclaw/devices/cuda/measure.h"
#include "openclaw/graph/ops/window.h"

namespace oc::cuda {
namespace {

using kernels::ConvShape;
using Kind = DnnGraph::Convolution;

constexpr int kCandidates = 8;
constexpr const char* kKindNames[] = {"forward", "input", "weight"};

StatusOr<ConvShape> ShapeOf(const OpRequest& r, const Shape& x, const Shape& w, const Shape& y) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Conv2dWindow(r.attrs, w));
  return ConvShape{.type = TypeOf(r.inputs[0].dtype),
                   .batch = x[0].size(),
                   .height = x[1].size(),
                   .width = x[2].size(),
                   .in = x[3].size(),
                   .out = w[0].size(),
                   .in_group = w[1].size(),
                   .groups = r.attrs.Int("groups", 1),
                   .out_height = y[1].size(),
                   .out_width = y[2].size(),
                   .tap_rows = w[2].size(),
                   .tap_columns = w[3].size(),
                   .stride_h = window.h.stride,
                   .stride_w = window.w.stride,
                   .pad_top = window.h.before,
                   .pad_left = window.w.before,
                   .pad_bottom = window.h.after,
                   .pad_right = window.w.after,
                   .dilation_h = window.h.dilation,
                   .dilation_w = window.w.dilation};
}

struct ConvParts {
  Kind kind;
  ConvShape shape;
  bool bias = false, accumulate = false, deterministic = false, tf32 = false;
  kernels::Type sum = kernels::Type::kF32;  // of the weights' gradient
};

std::string NameOf(const ConvParts& p, int units) {
  const ConvShape& s = p.shape;
  return absl::StrCat(
      "conv2d ", kKindNames[static_cast<int>(p.kind)], " ", static_cast<int>(s.type), " ", s.batch,
      "x", s.height, "x", s.width, "x", s.in, " ", s.out, "x", s.in_group, "x", s.tap_rows, "x",
      s.tap_columns, " ", s.out_height, "x", s.out_width, " ", s.stride_h, ",", s.stride_w, " ",
      s.pad_top, ",", s.pad_left, ",", s.pad_bottom, ",", s.pad_right, " ", s.dilation_h, ",",
      s.dilation_w, p.deterministic ? " deterministic" : "", p.tf32 ? " tf32" : "", " ", units);
}

// The numbers of plans that were measured in this process.
struct Picks {
  std::mutex mutex;
  std::map<std::string, int> by_name;
};
Picks& Picked() {
  static auto* const all = new Picks;
  return *all;
}

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Where the three tensors of a run lie: the images x and y, or their gradients, and the weights.
struct Places {
  const void *x, *w, *y, *bias = nullptr;
};

class ConvStep : public Step {
 public:
  explicit ConvStep(const ConvParts& parts) : p_(parts) {}

  StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) override;
  const char* implementation() const override { return plan_ != nullptr ? "cudnn" : "cuda"; }
  // Whether another plan repeats its results is not asked.
  bool deterministic() const override { return plan_ == nullptr || p_.deterministic; }
  Status Run(const Call& call, char* scratch, const std::string& where) const override;

 private:
  enum Tensors : DnnTensor { kX, kW, kY };

  static constexpr int64_t kRoom = 256;  // what lies in scratch begins at a multiple of it
  static int64_t RoomFor(int64_t bytes) { return (bytes + kRoom - 1) / kRoom * kRoom; }
  // Taps that lie wholly in the padding: seen to go wrong in cuDNN 9.19 (f32, gradient of weights).
  bool wide_padding() const {
    const ConvShape& s = p_.shape;
    const int64_t reach_h = s.dilation_h * (s.tap_rows - 1);
    const int64_t reach_w = s.dilation_w * (s.tap_columns - 1);
    return s.pad_top > reach_h || s.pad_bottom > reach_h || s.pad_left > reach_w ||
           s.pad_right > reach_w;
  }

  StatusOr<std::shared_ptr<const DnnPlan>> Make(const CudaSlice& slice,
                                                const std::shared_ptr<Dnn>& dnn,
                                                const std::string& where) const;
  int64_t weight_bytes() const {
    return RoomFor(p_.shape.w_elements() * kernels::BytesOf(p_.shape.type));
  }
  // Weights that lie the same either way need not be turned.
  bool turned() const {
    return (p_.shape.taps() != 1 && p_.shape.in_group != 1) ||
           (p_.kind == Kind::kWeight && (p_.accumulate || p_.sum != p_.shape.type));
  }
  Places PlacesOf(const Call& call) const;
  Status RunPlan(const Places& at, const Call& call, char* scratch, const std::string& where) const;
  cudaError_t RunOwn(const Places& at, cudaStream_t stream) const;

  const ConvParts p_;
  std::shared_ptr<const DnnPlan> plan_;
};

StatusOr<std::shared_ptr<const DnnPlan>> ConvStep::Make(const CudaSlice& slice,
                                                        const std::shared_ptr<Dnn>& dnn,
                                                        const std::string& where) const {
  const ConvShape& s = p_.shape;
  const DnnType type = DnnTypeOf(s.type);
  DnnGraph graph(dnn);
  const auto image = [&](int64_t height, int64_t width, int64_t channels) {
    return graph.Memory({s.batch, channels, height, width},
                        {height * width * channels, 1, width * channels, channels}, type);
  };
  const DnnTensor x = image(s.height, s.width, s.in);
  const DnnTensor w =
      graph.Memory({s.out, s.in_group, s.tap_rows, s.tap_columns},
                   {s.taps() * s.in_group, 1, s.tap_columns * s.in_group, s.in_group}, type);
  const DnnTensor y = image(s.out_height, s.out_width, s.out);
  graph.Convolve(p_.kind,
                 {.stride = {s.stride_h, s.stride_w},
                  .before = {s.pad_top, s.pad_left},
                  .after = {s.pad_bottom, s.pad_right},
                  .dilation = {s.dilation_h, s.dilation_w}},
                 x, w, y);
  DnnGraph::Options options{.deterministic = p_.deterministic,
                            .exact = s.type == kernels::Type::kF32 && !p_.tf32};
  const std::string name = NameOf(p_, slice.traits().units);
  Picks& picks = Picked();
  {
    std::lock_guard<std::mutex> lock(picks.mutex);
    const auto known = picks.by_name.find(name);
    if (known != picks.by_name.end()) {
      options.pick = known->second;
      return graph.Build(options);
    }
  }
  const int64_t bytes = kernels::BytesOf(s.type);
  constexpr int64_t kMostWorkspace = int64_t{1} << 30;
  OC_ASSIGN_OR_RETURN(const auto measure,
                      Measure::Create(slice,
                                      {s.x_elements() * bytes, s.w_elements() * 4,
                                       s.y_elements() * bytes, kMostWorkspace},
                                      where));
  if (measure == nullptr) return graph.Build(options);
  constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16};
  for (size_t i = 0; i < 3; ++i) {
    OC_RETURN_IF_ERROR(measure->Fill(i, kTypes[static_cast<int>(s.type)]));
  }
  double best = 0;
  options.candidates = kCandidates;
  options.measure = [&](const DnnPlan& plan) -> StatusOr<double> {
    if (plan.workspace_bytes() > kMostWorkspace) return -1.0;
    const std::pair<DnnTensor, const void*> pointers[] = {
        {kX, measure->memory(0)}, {kW, measure->memory(1)}, {kY, measure->memory(2)}};
    const auto run = [&] { return plan.Run(measure->stream(), pointers, measure->memory(3)).ok(); };
    OC_ASSIGN_OR_RETURN(const double seconds, measure->Time(run, best));
    // Results that are to repeat are of the first plan that runs: another run may measure
    // otherwise.
    if (p_.deterministic) return std::min(seconds, 0.0);
    if (seconds >= 0 && (best == 0 || seconds < best)) best = seconds;
    return seconds;
  };
  auto built = graph.Build(options);
  if (built.ok()) {
    std::lock_guard<std::mutex> lock(picks.mutex);
    picks.by_name[name] = options.pick;
  }
  return built;
}

StatusOr<int64_t> ConvStep::Prepare(const CudaSlice& slice, const std::string& where) {
  const ConvShape& s = p_.shape;
  if (s.x_elements() == 0 || s.y_elements() == 0 || s.w_elements() == 0) return int64_t{0};
  OC_ASSIGN_OR_RETURN(const std::shared_ptr<Dnn> dnn, slice.dnn());
  if (wide_padding()) return int64_t{0};
  auto made = dnn->Plan(NameOf(p_, slice.traits().units), [&] { return Make(slice, dnn, where); });
  if (made.ok()) {
    plan_ = *std::move(made);
    return plan_->workspace_bytes() + (turned() ? weight_bytes() : 0);
  }
  return absl::IsUnimplemented(made.status()) ? StatusOr<int64_t>(0) : made.status();
}

Places ConvStep::PlacesOf(const Call& c) const {
  switch (p_.kind) {
    case Kind::kForward:
      return {c.In(0), c.In(1), c.Out(0), p_.bias ? c.In(2) : nullptr};
    case Kind::kInput:
      return {c.Out(0), c.In(1), c.In(0)};
    case Kind::kWeight:
      return {c.In(1), c.Out(0), c.In(0)};
  }
  return {};
}

cudaError_t ConvStep::RunOwn(const Places& at, cudaStream_t stream) const {
  switch (p_.kind) {
    case Kind::kForward:
      return kernels::Conv2d(p_.shape, at.x, at.w, at.bias, const_cast<void*>(at.y), stream);
    case Kind::kInput:
      return kernels::Conv2dGradInput(p_.shape, at.y, at.w, const_cast<void*>(at.x), stream);
    case Kind::kWeight:
      return kernels::Conv2dGradWeight(p_.shape, at.y, at.x, p_.sum, p_.accumulate,
                                       const_cast<void*>(at.w), stream);
  }
  return cudaErrorInvalidValue;
}

Status ConvStep::RunPlan(const Places& at, const Call& call, char* scratch,
                         const std::string& where) const {
  const ConvShape& s = p_.shape;
  const auto done = [&](cudaError_t code) { return ToStatus(code, "launch a kernel", where); };
  const void* weights = at.w;
  if (turned()) {
    weights = scratch;
    scratch += weight_bytes();
    if (p_.kind != Kind::kWeight) {
      OC_RETURN_IF_ERROR(done(kernels::WeightsToLibrary(s.type, at.w, const_cast<void*>(weights),
                                                        s.out, s.in_group, s.taps(), call.stream)));
    }
  }
  const std::pair<DnnTensor, const void*> pointers[] = {{kX, at.x}, {kW, weights}, {kY, at.y}};
  OC_RETURN_IF_ERROR(Annotate(plan_->Run(call.stream, pointers, scratch), where));
  if (p_.kind == Kind::kWeight && turned()) {
    return done(kernels::WeightsFromLibrary(s.type, p_.sum, weights, const_cast<void*>(at.w), s.out,
                                            s.in_group, s.taps(), p_.accumulate, call.stream));
  }
  if (at.bias == nullptr) return OkStatus();
  return done(kernels::Binary(s.type, kernels::BinaryOp::kAdd, at.y, at.bias,
                              const_cast<void*>(at.y), s.y_elements(), s.out, call.stream));
}

Status ConvStep::Run(const Call& call, char* scratch, const std::string& where) const {
  const Places at = PlacesOf(call);
  if (plan_ != nullptr && Aligned(at.x) && Aligned(at.w) && Aligned(at.y)) {
    return RunPlan(at, call, scratch, where);
  }
  return ToStatus(RunOwn(at, call.stream), "launch a kernel", where);
}

Status Conv2d(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const ConvShape shape,
                      ShapeOf(r, r.inputs[0].shape, r.inputs[1].shape, r.outputs[0].shape));
  plan.Add(std::make_unique<ConvStep>(ConvParts{.kind = Kind::kForward,
                                                .shape = shape,
                                                .bias = r.inputs.size() > 2,
                                                .deterministic = r.deterministic,
                                                .tf32 = traits.tf32}));
  return OkStatus();
}

Status Conv2dGradInput(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const ConvShape shape,
                      ShapeOf(r, r.outputs[0].shape, r.inputs[1].shape, r.inputs[0].shape));
  plan.Add(std::make_unique<ConvStep>(ConvParts{.kind = Kind::kInput,
                                                .shape = shape,
                                                .deterministic = r.deterministic,
                                                .tf32 = traits.tf32}));
  return OkStatus();
}

Status Conv2dGradWeight(const OpRequest& r, const Traits& traits, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const ConvShape shape,
                      ShapeOf(r, r.inputs[1].shape, r.outputs[0].shape, r.inputs[0].shape));
  plan.Add(std::make_unique<ConvStep>(ConvParts{.kind = Kind::kWeight,
                                                .shape = shape,
                                                .accumulate = r.accumulate != 0,
                                                .deterministic = r.deterministic,
                                                .tf32 = traits.tf32,
                                                .sum = TypeOf(r.outputs[0].dtype)}));
  return OkStatus();
}

}  // namespace

void RegisterConvolutions(PlanRegistry& registry) {
  registry["conv2d"] = {Conv2d};
  registry["conv2d_grad_input"] = {Conv2dGradInput};
  registry["conv2d_grad_weight"] = {Conv2dGradWeight, 1, true};
}

}  // namespace oc::cuda
