#include "openclaw/devices/cpu/native/norm_loops.h"

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

Kernel MakeLayerNorm(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetNormLoops().layer_norm[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const size_t inputs = request.inputs.size();
  const float eps = static_cast<float>(request.attrs.Double("eps", 1e-5));
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, inputs > 1 ? args.inputs[1] : nullptr,
           inputs > 2 ? args.inputs[2] : nullptr, args.outputs[0] + begin * row_bytes,
           args.out<float>(1) + begin, args.out<float>(2) + begin, end - begin, n, eps);
    });
  });
}

Kernel MakeRmsNorm(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetNormLoops().rms_norm[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const float eps = static_cast<float>(request.attrs.Double("eps", 1e-5));
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, args.inputs[1], args.outputs[0] + begin * row_bytes,
           args.out<float>(1) + begin, end - begin, n, eps);
    });
  });
}

// dy, x, gamma?, mean (layer norm), rstd.
Kernel MakeGradInput(const OpRequest& request, bool has_mean) {
  const TensorType& x = request.inputs[1];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetNormLoops().grad_input[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const int rstd = static_cast<int>(request.inputs.size()) - 1;
  const int mean = has_mean ? rstd - 1 : -1;
  const bool has_gamma = rstd - (has_mean ? 1 : 0) > 2;
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, args.inputs[1] + begin * row_bytes,
           has_gamma ? args.inputs[2] : nullptr, mean < 0 ? nullptr : args.in<float>(mean) + begin,
           args.in<float>(rstd) + begin, args.outputs[0] + begin * row_bytes, end - begin, n);
    });
  });
}

// dy, x, mean (layer norm), rstd. The columns are split, so the sums do not depend on the threads.
Kernel MakeGradWeight(const OpRequest& request, bool has_mean) {
  const TensorType& x = request.inputs[1];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetNormLoops().grad_weight[kind];
  OC_ASSIGN_OR_RETURN(const FloatKind sum, FloatKindOf(request.outputs[0]));
  const auto store = GetNormLoops().store[sum];
  const int64_t rows = RowsOf(x), n = LastDim(x), size = SizeInBytes(request.outputs[0].dtype);
  const uint32_t accumulate = request.accumulate;
  const int64_t padded = (n + 15) / 16 * 16;  // cache lines of the two sums
  const auto run = [=](const KernelArgs& args) {
    float* const dgamma = reinterpret_cast<float*>(args.workspace);
    float* const dbeta = has_mean ? dgamma + padded : nullptr;
    const float* const mean = has_mean ? args.in<float>(2) : nullptr;
    const float* const rstd = args.in<float>(has_mean ? 3 : 2);
    Split(args.pool, n, rows, 64, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0], args.inputs[1], mean, rstd, dgamma, dbeta, rows, n, begin, end);
      store(dgamma + begin, args.outputs[0] + begin * size, end - begin, (accumulate & 1u) != 0);
      if (has_mean) {
        store(dbeta + begin, args.outputs[1] + begin * size, end - begin, (accumulate & 2u) != 0);
      }
    });
  };
  return MakeKernel(run, padded * 2 * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

void RegisterNorm(KernelRegistry& registry) {
  registry.Add("layer_norm", MakeLayerNorm);
  registry.Add("rms_norm", MakeRmsNorm);
  registry.Add("layer_norm_grad_input",
               [](const OpRequest& request, int) { return MakeGradInput(request, true); });
  registry.Add("rms_norm_grad_input",
               [](const OpRequest& request, int) { return MakeGradInput(request, false); });
  registry.Add(
      "layer_norm_grad_weight",
      [](const OpRequest& request, int) { return MakeGradWeight(request, true); }, 3,
      /*sum_types=*/true);
  registry.Add(
      "rms_norm_grad_weight",
      [](const OpRequest& request, int) { return MakeGradWeight(request, false); }, 1,
      /*sum_types=*/true);
}

}  // namespace oc::cpu
