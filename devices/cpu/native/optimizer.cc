#include <cmath>

#include "openclaw/devices/cpu/native/optimizer_loops.h"
#include "openclaw/devices/cpu/native/tensor_list.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// accumulate and lerp take one tensor each: they are no lists, but split like one.
Kernel MakeAccumulate(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().accumulate[runs.kind(0)][runs.kind(1)];
  return MakeKernel([=](const KernelArgs& args) {
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin), end - begin);
    });
  });
}

Kernel MakeLerp(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().lerp[runs.kind(0)][runs.kind(1)];
  const float rate = static_cast<float>(request.attrs.Double("rate", 0.1));
  return MakeKernel([=](const KernelArgs& args) {
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin), end - begin, rate);
    });
  });
}

Kernel MakeEma(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().lerp[runs.kind(0)][runs.kind(1)];
  const float later = static_cast<float>(1.0 - request.attrs.Double("decay", 0.999));
  return MakeKernel([=](const KernelArgs& args) {
    const float rate = runs.shared(args, 0) < 1.5f ? 1.0f : later;
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin), end - begin, rate);
    });
  });
}

Kernel MakeSgd(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().sgd[runs.kind(0)][runs.kind(1)];
  SgdStep base = {};
  base.momentum = static_cast<float>(request.attrs.Double("momentum", 0.0));
  base.weight_decay = static_cast<float>(request.attrs.Double("weight_decay", 0.0));
  base.nesterov = request.attrs.Bool("nesterov", false);
  base.limit = ClipLimit(request);
  const bool has_momentum = base.momentum != 0;
  const double scale = RateScale(request);
  return MakeKernel([=](const KernelArgs& args) {
    SgdStep step = base;
    step.lr = static_cast<float>(runs.shared(args, 0) * scale);
    step.clip = runs.shared(args, 1);
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin),
           has_momentum ? runs.out(args, t, 1, 2, begin) : nullptr, end - begin, step);
    });
  });
}

Kernel MakeAdamWith(const OpRequest& request, bool decoupled) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().adam[runs.kind(0)][runs.kind(1)];
  const double beta1 = request.attrs.Double("beta1", 0.9);
  const double beta2 = request.attrs.Double("beta2", 0.999);
  const double decay = request.attrs.Double("weight_decay", 0.0);
  const double scale = RateScale(request);
  AdamStep base = {};
  base.limit = ClipLimit(request);
  base.beta1 = static_cast<float>(beta1);
  base.beta2 = static_cast<float>(beta2);
  base.rest1 = static_cast<float>(1.0 - beta1);
  base.rest2 = static_cast<float>(1.0 - beta2);
  base.eps = static_cast<float>(request.attrs.Double("eps", 1e-8));
  base.decay = decoupled ? 0.0f : static_cast<float>(decay);
  return MakeKernel([=](const KernelArgs& args) {
    const double lr = runs.shared(args, 0) * scale, t = runs.shared(args, 1);
    AdamStep step = base;
    step.clip = runs.shared(args, 2);
    step.keep = decoupled ? static_cast<float>(1.0 - lr * decay) : 1.0f;
    step.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
    step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, t)));
    runs.ForParts(args.pool, [&](int tensor, int64_t begin, int64_t end) {
      loop(runs.out(args, tensor, 0, 0, begin), runs.in(args, tensor, 1, begin),
           runs.out(args, tensor, 1, 2, begin), runs.out(args, tensor, 2, 3, begin), end - begin,
           step);
    });
  });
}
Kernel MakeAdam(const OpRequest& request, int) { return MakeAdamWith(request, false); }
Kernel MakeAdamW(const OpRequest& request, int) { return MakeAdamWith(request, true); }

Kernel MakeLion(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().lion[runs.kind(0)][runs.kind(1)];
  const double beta1 = request.attrs.Double("beta1", 0.9);
  const double beta2 = request.attrs.Double("beta2", 0.99);
  const double decay = request.attrs.Double("weight_decay", 0.0), scale = RateScale(request);
  LionStep base = {};
  base.limit = ClipLimit(request);
  base.beta1 = static_cast<float>(beta1);
  base.beta2 = static_cast<float>(beta2);
  base.rest1 = static_cast<float>(1.0 - beta1);
  base.rest2 = static_cast<float>(1.0 - beta2);
  return MakeKernel([=](const KernelArgs& args) {
    const double lr = runs.shared(args, 0) * scale;
    LionStep step = base;
    step.clip = runs.shared(args, 1);
    step.lr = static_cast<float>(lr);
    step.keep = static_cast<float>(1.0 - lr * decay);
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin),
           runs.out(args, t, 1, 2, begin), end - begin, step);
    });
  });
}

Kernel MakeMuonMomentum(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().muon_momentum[runs.kind(1)][runs.kind(0)];
  const double momentum = request.attrs.Double("momentum", 0.95);
  MomentumStep base = {};
  base.limit = ClipLimit(request);
  base.momentum = static_cast<float>(momentum);
  base.rest = static_cast<float>(1.0 - momentum);
  base.nesterov = request.attrs.Bool("nesterov", true);
  return MakeKernel([=](const KernelArgs& args) {
    MomentumStep step = base;
    step.clip = runs.shared(args, 0);
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 1, begin), runs.in(args, t, 0, begin),
           runs.out(args, t, 1, 1, begin), end - begin, step);
    });
  });
}

Kernel MakeDecayedStep(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().decayed_step[runs.kind(0)][runs.kind(1)];
  const double factor = request.attrs.Double("factor", 1.0), scale = RateScale(request);
  const double decay = request.attrs.Double("weight_decay", 0.0);
  return MakeKernel([=](const KernelArgs& args) {
    const double lr = runs.shared(args, 0) * scale;
    const auto keep = static_cast<float>(1.0 - lr * decay);
    const auto rate = static_cast<float>(lr * factor);
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin), end - begin, keep, rate);
    });
  });
}

}  // namespace

void RegisterOptimizer(KernelRegistry& registry) {
  registry.Add("accumulate", MakeAccumulate);
  registry.Add("lerp", MakeLerp);
  registry.Add("ema", MakeEma);
  registry.Add("sgd", MakeSgd);
  registry.Add("adam", MakeAdam);
  registry.Add("adamw", MakeAdamW);
  registry.Add("lion", MakeLion);
  registry.Add("muon_momentum", MakeMuonMomentum);
  registry.Add("decayed_step", MakeDecayedStep);
}

}  // namespace oc::cpu
