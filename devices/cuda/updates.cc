// Optimizers and what else changes state, each over a list of tensors at once.
#include <cmath>
#include <limits>

#include "openclaw/devices/cuda/kernels/adafactor.h"
#include "openclaw/devices/cuda/kernels/lists.h"
#include "openclaw/devices/cuda/plan.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::cuda {
namespace {

using kernels::ListTensor;

// A list's tensors without their memory, and where what they share stands.
class Tensors {
 public:
  explicit Tensors(const OpRequest& r) : list_(ListOf(*r.def, r.attrs, r.inputs.size())) {
    outputs_ = static_cast<int>(r.outputs.size()) / list_.tensors;
    for (int t = 0; t < list_.tensors; ++t) {
      ListTensor tensor;
      for (int i = 0; i < list_.operands; ++i) {
        const TensorType& type = r.inputs[static_cast<size_t>(t * list_.operands + i)];
        if (i == 0) tensor.n = type.shape.num_elements();
        tensor.in_types[i] = TypeOf(type.dtype);
        if (i == 3) tensor.sums = type.shape.num_elements();
      }
      for (int i = 0; i < outputs_; ++i) {
        tensor.out_types[i] = TypeOf(r.outputs[static_cast<size_t>(t * outputs_ + i)].dtype);
      }
      tensors_.push_back(tensor);
    }
  }

  // With the memory of a call.
  std::vector<ListTensor> Of(const Call& c) const {
    std::vector<ListTensor> tensors = tensors_;
    for (int t = 0; t < list_.tensors; ++t) {
      ListTensor& tensor = tensors[static_cast<size_t>(t)];
      for (int i = 0; i < list_.operands; ++i) tensor.in[i] = c.In(t * list_.operands + i);
      for (int i = 0; i < outputs_; ++i) tensor.out[i] = c.Out(t * outputs_ + i);
    }
    return tensors;
  }
  const float* Shared(const Call& c, int i) const {
    return c.In<float>(list_.tensors * list_.operands + i);
  }
  int count() const { return list_.tensors; }
  int operands() const { return list_.operands; }
  int outputs() const { return outputs_; }

 private:
  TensorList list_;
  int outputs_ = 1;
  std::vector<ListTensor> tensors_;
};

float AsFloat(double x) { return static_cast<float>(x); }
float RateScale(const OpRequest& r) { return AsFloat(r.attrs.Double("lr_scale", 1.0)); }
kernels::Clipping ClippingOf(const OpRequest& r) {
  return {.limit = AsFloat(r.attrs.Double("clip_value", std::numeric_limits<double>::infinity()))};
}
float Decay(const OpRequest& r) { return AsFloat(r.attrs.Double("weight_decay")); }

// A launch of Step over the list; `bind(step, tensors, call)` gives it the numbers of the call.
template <typename Step, typename Bind>
Status AddStep(const OpRequest& r, OpPlan& plan, const Step& step, const Bind& bind) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  plan.Launch([=, tensors = Tensors(r)](const Call& c) {
    Step bound = step;
    bind(bound, tensors, c);
    return kernels::Launch(bound, tensors.Of(c), c.stream);
  });
  return OkStatus();
}

Status Sgd(const OpRequest& r, const Traits&, OpPlan& plan) {
  const kernels::SgdStep step{.clip = ClippingOf(r),
                              .lr_scale = RateScale(r),
                              .momentum = AsFloat(r.attrs.Double("momentum")),
                              .decay = Decay(r),
                              .nesterov = r.attrs.Bool("nesterov")};
  return AddStep(r, plan, step, [](kernels::SgdStep& s, const Tensors& t, const Call& c) {
    s.lr = t.Shared(c, 0);
    s.clip.factor = t.Shared(c, 1);
  });
}

kernels::Betas BetasOf(const OpRequest& r, double default_eps) {
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  return {.beta1 = AsFloat(beta1),
          .beta2 = AsFloat(beta2),
          .rest1 = AsFloat(1 - beta1),
          .rest2 = AsFloat(1 - beta2),
          .log_beta1 = AsFloat(std::log(beta1)),
          .log_beta2 = AsFloat(std::log(beta2)),
          .eps = AsFloat(r.attrs.Double("eps", default_eps))};
}

Status AdamWith(const OpRequest& r, OpPlan& plan, bool decoupled) {
  const kernels::AdamStep step{.clip = ClippingOf(r),
                               .betas = BetasOf(r, 1e-8),
                               .lr_scale = RateScale(r),
                               .decay = decoupled ? 0 : Decay(r),
                               .decoupled = decoupled ? Decay(r) : 0};
  return AddStep(r, plan, step, [](kernels::AdamStep& s, const Tensors& t, const Call& c) {
    s.lr = t.Shared(c, 0);
    s.step = t.Shared(c, 1);
    s.clip.factor = t.Shared(c, 2);
  });
}
Status Adam(const OpRequest& r, const Traits&, OpPlan& plan) { return AdamWith(r, plan, false); }
Status AdamW(const OpRequest& r, const Traits&, OpPlan& plan) { return AdamWith(r, plan, true); }

Status Lion(const OpRequest& r, const Traits&, OpPlan& plan) {
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.99);
  const kernels::LionStep step{.clip = ClippingOf(r),
                               .lr_scale = RateScale(r),
                               .beta1 = AsFloat(beta1),
                               .rest1 = AsFloat(1 - beta1),
                               .beta2 = AsFloat(beta2),
                               .rest2 = AsFloat(1 - beta2),
                               .decay = Decay(r)};
  return AddStep(r, plan, step, [](kernels::LionStep& s, const Tensors& t, const Call& c) {
    s.lr = t.Shared(c, 0);
    s.clip.factor = t.Shared(c, 1);
  });
}

Status LambMoments(const OpRequest& r, const Traits&, OpPlan& plan) {
  const kernels::LambMoments moments{
      .clip = ClippingOf(r), .betas = BetasOf(r, 1e-6), .decay = Decay(r), .chunk = kSumChunk};
  return AddStep(r, plan, moments, [](kernels::LambMoments& s, const Tensors& t, const Call& c) {
    s.step = t.Shared(c, 0);
    s.clip.factor = t.Shared(c, 1);
  });
}

Status LambStep(const OpRequest& r, const Traits&, OpPlan& plan) {
  const kernels::LambStep step{
      .betas = BetasOf(r, 1e-6), .lr_scale = RateScale(r), .decay = Decay(r)};
  return AddStep(r, plan, step, [](kernels::LambStep& s, const Tensors& t, const Call& c) {
    s.lr = t.Shared(c, 0);
    s.step = t.Shared(c, 1);
  });
}

Status MuonMomentum(const OpRequest& r, const Traits&, OpPlan& plan) {
  const double momentum = r.attrs.Double("momentum", 0.95);
  const kernels::MuonMomentum step{.clip = ClippingOf(r),
                                   .momentum = AsFloat(momentum),
                                   .rest = AsFloat(1 - momentum),
                                   .nesterov = r.attrs.Bool("nesterov", true)};
  return AddStep(r, plan, step, [](kernels::MuonMomentum& s, const Tensors& t, const Call& c) {
    s.clip.factor = t.Shared(c, 0);
  });
}

Status DecayedStep(const OpRequest& r, const Traits&, OpPlan& plan) {
  const kernels::DecayedStep step{.lr_scale = RateScale(r),
                                  .factor = AsFloat(r.attrs.Double("factor", 1.0)),
                                  .decay = Decay(r)};
  return AddStep(r, plan, step, [](kernels::DecayedStep& s, const Tensors& t, const Call& c) {
    s.lr = t.Shared(c, 0);
  });
}

Status Ema(const OpRequest& r, const Traits&, OpPlan& plan) {
  const kernels::Blend blend{.rate = AsFloat(1 - r.attrs.Double("decay"))};
  return AddStep(r, plan, blend, [](kernels::Blend& s, const Tensors& t, const Call& c) {
    s.step = t.Shared(c, 0);
  });
}

Status SumSquares(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddStep(r, plan, kernels::SumSquares{.chunk = kSumChunk},
                 [](kernels::SumSquares&, const Tensors&, const Call&) {});
}

// Ops of one state and what it takes up.
std::vector<ListTensor> StateOf(const OpRequest& r) {
  ListTensor tensor;
  tensor.n = r.inputs[0].shape.num_elements();
  for (int i = 0; i < 2; ++i) tensor.in_types[i] = TypeOf(r.inputs[static_cast<size_t>(i)].dtype);
  tensor.out_types[0] = TypeOf(r.outputs[0].dtype);
  return {tensor};
}

template <typename Step>
Status AddState(const OpRequest& r, OpPlan& plan, const Step& step) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  plan.Launch([=, state = StateOf(r)](const Call& c) {
    std::vector<ListTensor> bound = state;
    for (int i = 0; i < 2; ++i) bound[0].in[i] = c.In(i);
    bound[0].out[0] = c.Out(0);
    return kernels::Launch(step, bound, c.stream);
  });
  return OkStatus();
}

Status Accumulate(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddState(r, plan, kernels::Accumulation{});
}
Status Lerp(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddState(r, plan, kernels::Blend{.rate = AsFloat(r.attrs.Double("rate"))});
}

Status SumPartials(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  std::vector<ListTensor> lists(r.inputs.size());
  for (size_t i = 0; i < lists.size(); ++i) lists[i].n = r.inputs[i].shape.num_elements();
  plan.Launch([=, add = (r.accumulate & 1) != 0](const Call& c) {
    std::vector<ListTensor> bound = lists;
    for (size_t i = 0; i < bound.size(); ++i) bound[i].in[0] = c.In(static_cast<int>(i));
    return kernels::Launch(kernels::SumPartials{.to = c.Out<float>(0), .add = add}, bound,
                           c.stream);
  });
  return OkStatus();
}

Status ClipFactor(const OpRequest& r, const Traits&, OpPlan& plan) {
  plan.Launch([limit = AsFloat(r.attrs.Double("max_norm"))](const Call& c) {
    return kernels::LaunchClipFactor(c.In<float>(0), limit, c.Out<float>(0), c.stream);
  });
  return OkStatus();
}

kernels::Adafactor AdafactorOf(const OpRequest& r, const TensorType& p, const TensorType& g) {
  kernels::Adafactor a{.n = p.shape.num_elements(),
                       .chunk = kSumChunk,
                       .factored = r.attrs.Bool("factored", true),
                       .gradient_type = TypeOf(g.dtype),
                       .clip = ClippingOf(r),
                       .lr_scale = RateScale(r),
                       .beta2_decay = AsFloat(r.attrs.Double("beta2_decay", -0.8)),
                       .eps1 = AsFloat(r.attrs.Double("eps1", 0x1p-23)),
                       .eps2 = AsFloat(r.attrs.Double("eps2", 1e-3)),
                       .d = AsFloat(r.attrs.Double("d", 1.0)),
                       .decay = Decay(r)};
  if (a.factored && a.n > 0) {
    a.rows = p.shape[-2].size();
    a.columns = p.shape[-1].size();
    a.matrices = a.n / (a.rows * a.columns);
  }
  return a;
}

// A tensor after another: its sums are of the whole tensor.
Status Adafactor(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  for (int t = 0; t < tensors.count(); ++t) {
    const int in = t * tensors.operands(), out = t * tensors.outputs();
    const TensorType& p = r.inputs[static_cast<size_t>(in)];
    if (p.dtype != DType::kF32) {
      return Unimplemented("no kernel of adafactor for ", Name(p.dtype), "; there is f32");
    }
    const kernels::Adafactor one = AdafactorOf(r, p, r.inputs[static_cast<size_t>(in) + 1]);
    if (one.n == 0) continue;
    const int64_t room =
        plan.Reserve(kernels::AdafactorWorkspace(one) * static_cast<int64_t>(sizeof(float)));
    plan.Launch([=](const Call& c) {
      kernels::Adafactor a = one;
      a.p = c.In<float>(in);
      a.g = c.In(in + 1);
      a.new_p = c.Out<float>(out);
      a.row = a.factored ? c.In<float>(in + 2) : nullptr;
      a.column = c.In<float>(in + (a.factored ? 3 : 2));
      a.new_row = a.factored ? c.Out<float>(out + 1) : nullptr;
      a.new_column = c.Out<float>(out + (a.factored ? 2 : 1));
      a.lr = tensors.Shared(c, 0);
      a.step = tensors.Shared(c, 1);
      a.clip.factor = tensors.Shared(c, 2);
      a.workspace = c.Work<float>(room);
      return kernels::Launch(a, c.stream);
    });
  }
  return OkStatus();
}

}  // namespace

void RegisterUpdates(PlanRegistry& registry) {
  registry["accumulate"] = {Accumulate};
  registry["lerp"] = {Lerp};
  registry["ema"] = {Ema};
  registry["sum_squares"] = {SumSquares};
  registry["sum_partials"] = {SumPartials, 1};
  registry["clip_factor"] = {ClipFactor};
  registry["sgd"] = {Sgd};
  registry["adam"] = {Adam};
  registry["adamw"] = {AdamW};
  registry["lion"] = {Lion};
  registry["lamb_moments"] = {LambMoments};
  registry["lamb_step"] = {LambStep};
  registry["adafactor"] = {Adafactor};
  registry["muon_momentum"] = {MuonMomentum};
  registry["decayed_step"] = {DecayedStep};
}

}  // namespace oc::cuda
