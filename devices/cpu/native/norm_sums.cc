// Norms over fixed chunks (graph/sum_chunks.h), and LAMB, which needs them. A chunk's sum is the
// same whoever computes it.
#include <cmath>

#include "openclaw/devices/cpu/native/optimizer_loops.h"
#include "openclaw/devices/cpu/native/tensor_list.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

Kernel MakeSumSquares(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().sum_squares[runs.kind(0)];
  return MakeKernel([=](const KernelArgs& args) {
    runs.ForChunks(args.pool, [&](int t, int64_t chunk, int64_t begin, int64_t end) {
      double sum = 0;
      ForBlocks(begin, end, [&](int64_t from, int64_t to) {
        sum += loop(runs.in(args, t, 0, from), to - from);
      });
      args.out<float>(t)[chunk] = static_cast<float>(sum);
    });
  });
}

double TotalOf(const float* sums, int64_t chunks) {
  double total = 0;
  for (int64_t c = 0; c < chunks; ++c) total += sums[c];
  return total;
}

Kernel MakeSumPartials(const OpRequest& request, int) {
  std::vector<int64_t> chunks;
  for (const TensorType& x : request.inputs) chunks.push_back(x.shape.num_elements());
  const bool accumulate = request.accumulate != 0;
  return MakeKernel([=](const KernelArgs& args) {
    double sum = accumulate ? *args.out<float>(0) : 0.0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      sum += TotalOf(args.in<float>(static_cast<int>(i)), chunks[i]);
    }
    *args.out<float>(0) = static_cast<float>(sum);
  });
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

// What of LAMB's settings does not change from step to step, and what does.
struct Lamb {
  explicit Lamb(const OpRequest& request)
      : beta1(request.attrs.Double("beta1", 0.9)), beta2(request.attrs.Double("beta2", 0.999)) {
    base.limit = ClipLimit(request);
    base.beta1 = static_cast<float>(beta1);
    base.beta2 = static_cast<float>(beta2);
    base.rest1 = static_cast<float>(1.0 - beta1);
    base.rest2 = static_cast<float>(1.0 - beta2);
    base.eps = static_cast<float>(request.attrs.Double("eps", 1e-6));
    base.decay = static_cast<float>(request.attrs.Double("weight_decay", 0.0));
  }
  LambStep At(double step) const {
    LambStep s = base;
    s.mean_scale = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step)));
    s.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, step)));
    return s;
  }
  double beta1, beta2;
  LambStep base = {};
};

Kernel MakeLambMoments(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().lamb_moments[runs.kind(0)][runs.kind(1)];
  const Lamb lamb(request);
  return MakeKernel([=](const KernelArgs& args) {
    LambStep step = lamb.At(runs.shared(args, 0));
    step.clip = runs.shared(args, 1);
    runs.ForChunks(args.pool, [&](int t, int64_t chunk, int64_t begin, int64_t end) {
      double p_sum = 0, step_sum = 0;
      ForBlocks(begin, end, [&](int64_t from, int64_t to) {
        float p_squares = 0, step_squares = 0;
        loop(runs.in(args, t, 0, from), runs.in(args, t, 1, from), runs.out(args, t, 0, 2, from),
             runs.out(args, t, 1, 3, from), to - from, step, &p_squares, &step_squares);
        p_sum += p_squares;
        step_sum += step_squares;
      });
      args.out<float>(t * 4 + 2)[chunk] = static_cast<float>(p_sum);
      args.out<float>(t * 4 + 3)[chunk] = static_cast<float>(step_sum);
    });
  });
}

Kernel MakeLambStep(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  const auto loop = GetOptimizerLoops().lamb_step[runs.kind(0)];
  const Lamb lamb(request);
  const double scale = RateScale(request);
  std::vector<int64_t> chunks;
  for (int t = 0; t < runs.tensors(); ++t) {
    chunks.push_back(request.inputs[t * 5 + 3].shape.num_elements());
  }
  const auto run = [=](const KernelArgs& args) {
    const LambStep base = lamb.At(runs.shared(args, 1));
    const double lr = runs.shared(args, 0) * scale;
    float* rates = reinterpret_cast<float*>(args.workspace);
    for (int t = 0; t < runs.tensors(); ++t) {
      const double p = TotalOf(args.in<float>(t * 5 + 3), chunks[t]);
      const double wanted = TotalOf(args.in<float>(t * 5 + 4), chunks[t]);
      rates[t] = static_cast<float>(lr * (p > 0 && wanted > 0 ? std::sqrt(p / wanted) : 1.0));
    }
    runs.ForParts(args.pool, [&](int t, int64_t begin, int64_t end) {
      LambStep step = base;
      step.rate = rates[t];
      loop(runs.out(args, t, 0, 0, begin), runs.in(args, t, 1, begin), runs.in(args, t, 2, begin),
           end - begin, step);
    });
  };
  return MakeKernel(run, runs.tensors() * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

void RegisterNormSums(KernelRegistry& registry) {
  registry.Add("sum_squares", MakeSumSquares);
  registry.Add("sum_partials", MakeSumPartials, 1);
  registry.Add("clip_factor", MakeClipFactor);
  registry.Add("lamb_moments", MakeLambMoments);
  registry.Add("lamb_step", MakeLambStep);
}

}  // namespace oc::cpu
