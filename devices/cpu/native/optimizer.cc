#include "openclaw/devices/cpu/native/optimizer_loops.h"

#include <cmath>
#include <vector>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

constexpr int64_t kAlign = 64;

// Dtypes of the state and of what it takes up.
struct Pair {
  FloatKind state, value;
  int64_t n, state_size, value_size;
};
StatusOr<Pair> PairOf(const OpRequest& request) {
  OC_ASSIGN_OR_RETURN(const FloatKind state, FloatKindOf(request.inputs[0]));
  OC_ASSIGN_OR_RETURN(const FloatKind value, FloatKindOf(request.inputs[1]));
  return Pair{state, value, request.inputs[0].shape.num_elements(),
              SizeInBytes(request.inputs[0].dtype), SizeInBytes(request.inputs[1].dtype)};
}

Kernel MakeAccumulate(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pair k, PairOf(request));
  const auto loop = GetOptimizerLoops().accumulate[k.state][k.value];
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, k.n, 1, kAlign, [&](int64_t begin, int64_t end) {
      loop(args.outputs[0] + begin * k.state_size, args.inputs[1] + begin * k.value_size,
           end - begin);
    });
  });
}

Kernel MakeLerp(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pair k, PairOf(request));
  const auto loop = GetOptimizerLoops().lerp[k.state][k.value];
  const float rate = static_cast<float>(request.attrs.Double("rate", 0.1));
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, k.n, 1, kAlign, [&](int64_t begin, int64_t end) {
      loop(args.outputs[0] + begin * k.state_size, args.inputs[1] + begin * k.value_size,
           end - begin, rate);
    });
  });
}

// The sum is made of blocks' sums added in order: the same for any number of threads.
struct SumBlock {
  int input;
  FloatKind kind;
  int64_t offset_bytes, count;
};

Kernel MakeSumSquares(const OpRequest& request, int) {
  constexpr int64_t kBlock = 16384;
  std::vector<SumBlock> blocks;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorType& x = request.inputs[i];
    OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
    const int64_t n = x.shape.num_elements();
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      blocks.push_back(
          {static_cast<int>(i), kind, begin * SizeInBytes(x.dtype), std::min(kBlock, n - begin)});
    }
  }
  const int64_t count = static_cast<int64_t>(blocks.size());
  const bool accumulate = request.accumulate != 0;
  const OptimizerLoops& loops = GetOptimizerLoops();
  const auto run = [blocks = std::move(blocks), count, accumulate, &loops](const KernelArgs& args) {
    float* sums = reinterpret_cast<float*>(args.workspace);
    Split(args.pool, count, kBlock, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const SumBlock& block = blocks[b];
        sums[b] = loops.sum_squares[block.kind](args.inputs[block.input] + block.offset_bytes,
                                                block.count);
      }
    });
    double sum = accumulate ? *args.out<float>(0) : 0.0;
    for (int64_t b = 0; b < count; ++b) sum += sums[b];
    *args.out<float>(0) = static_cast<float>(sum);
  };
  return MakeKernel(run, count * static_cast<int64_t>(sizeof(float)));
}

Kernel MakeClipFactor(const OpRequest& request, int) {
  const double max_norm = request.attrs.Double("max_norm", 1.0);
  return MakeKernel([=](const KernelArgs& args) {
    const double factor = max_norm / (std::sqrt(static_cast<double>(*args.in<float>(0))) + 1e-6);
    // A NaN stays one, unless nothing is clipped.
    const bool all = factor > 1.0 || std::isinf(max_norm);
    *args.out<float>(0) = static_cast<float>(all ? 1.0 : factor);
  });
}

Kernel MakeSgd(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pair k, PairOf(request));
  const auto loop = GetOptimizerLoops().sgd[k.state][k.value];
  const bool has_momentum = request.inputs.size() > 4;
  SgdStep base = {};
  base.momentum = static_cast<float>(request.attrs.Double("momentum", 0.0));
  base.weight_decay = static_cast<float>(request.attrs.Double("weight_decay", 0.0));
  base.nesterov = request.attrs.Bool("nesterov", false);
  return MakeKernel([=](const KernelArgs& args) {
    SgdStep step = base;
    step.lr = *args.in<float>(2);
    step.clip = *args.in<float>(3);
    Split(args.pool, k.n, 1, kAlign, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * k.state_size;
      loop(args.outputs[0] + at, args.inputs[1] + begin * k.value_size,
           has_momentum ? args.outputs[1] + at : nullptr, end - begin, step);
    });
  });
}

Kernel MakeAdamW(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pair k, PairOf(request));
  const auto loop = GetOptimizerLoops().adamw[k.state][k.value];
  const double beta1 = request.attrs.Double("beta1", 0.9);
  const double beta2 = request.attrs.Double("beta2", 0.999);
  const double eps = request.attrs.Double("eps", 1e-8);
  const double decay = request.attrs.Double("weight_decay", 0.0);
  return MakeKernel([=](const KernelArgs& args) {
    const double lr = *args.in<float>(4), t = *args.in<float>(5);
    AdamWStep step = {};
    step.clip = *args.in<float>(6);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.rest1 = static_cast<float>(1.0 - beta1);
    step.rest2 = static_cast<float>(1.0 - beta2);
    step.eps = static_cast<float>(eps);
    step.keep = static_cast<float>(1.0 - lr * decay);
    step.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
    step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, t)));
    Split(args.pool, k.n, 1, kAlign, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * k.state_size;
      loop(args.outputs[0] + at, args.inputs[1] + begin * k.value_size, args.outputs[1] + at,
           args.outputs[2] + at, end - begin, step);
    });
  });
}

}  // namespace

void RegisterOptimizer(KernelRegistry& registry) {
  registry.Add("accumulate", MakeAccumulate);
  registry.Add("lerp", MakeLerp);
  registry.Add("sum_squares", MakeSumSquares, 1);
  registry.Add("clip_factor", MakeClipFactor);
  registry.Add("sgd", MakeSgd);
  registry.Add("adamw", MakeAdamW);
}

}  // namespace oc::cpu
