#include "openclaw/devices/cpu/native/softmax_loops.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

Kernel MakeSoftmax(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetSoftmaxLoops().softmax[kind];
  const int64_t n = LastDim(x), rows = n == 0 ? 0 : RowsOf(x), row_bytes = n * SizeInBytes(x.dtype);
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, args.outputs[0] + begin * row_bytes, end - begin, n);
    });
  });
}

Kernel MakeSoftmaxGrad(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetSoftmaxLoops().softmax_grad[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, args.inputs[1] + begin * row_bytes,
           args.outputs[0] + begin * row_bytes, end - begin, n);
    });
  });
}

Status CheckLabels(const int32_t* labels, int64_t rows, int64_t classes, int64_t ignore) {
  for (int64_t r = 0; r < rows; ++r) {
    if ((labels[r] < 0 || labels[r] >= classes) && labels[r] != ignore) {
      return OutOfRange("label ", labels[r], " of row ", r, ": there are ", classes,
                        " classes (0 to ", classes - 1, ")");
    }
  }
  return OkStatus();
}

Kernel MakeCrossEntropy(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetSoftmaxLoops().cross_entropy[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const int64_t ignore = request.attrs.Int("ignore_index", -1);
  const auto run = [=](const KernelArgs& args) -> Status {
    const int32_t* labels = args.in<int32_t>(1);
    OC_RETURN_IF_ERROR(CheckLabels(labels, rows, n, ignore));
    float* losses = reinterpret_cast<float*>(args.workspace);
    Split(args.pool, n == 0 ? 0 : rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * row_bytes, labels + begin, args.out<float>(1) + begin,
           losses + begin, end - begin, n, ignore);
    });
    if (n == 0) {  // every label is ignored
      std::fill_n(args.out<float>(1), rows, -std::numeric_limits<float>::infinity());
      std::fill_n(losses, rows, 0.0f);
    }
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += losses[r];
    *args.out<float>(0) = static_cast<float>(sum);
    return OkStatus();
  };
  return MakeKernel(run, rows * static_cast<int64_t>(sizeof(float)));
}

Kernel MakeCrossEntropyGrad(const OpRequest& request, int) {
  const TensorType& x = request.inputs[1];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetSoftmaxLoops().cross_entropy_grad[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const int64_t ignore = request.attrs.Int("ignore_index", -1);
  return MakeKernel([=](const KernelArgs& args) -> Status {
    const int32_t* labels = args.in<int32_t>(2);
    OC_RETURN_IF_ERROR(CheckLabels(labels, rows, n, ignore));
    const float dloss = *args.in<float>(0);
    Split(args.pool, rows, n, 1, [&](int64_t begin, int64_t end) {
      loop(dloss, args.inputs[1] + begin * row_bytes, labels + begin, args.in<float>(3) + begin,
           args.outputs[0] + begin * row_bytes, end - begin, n, ignore);
    });
    return OkStatus();
  });
}

Kernel MakeCountValid(const OpRequest& request, int) {
  const int64_t n = request.inputs[0].shape.num_elements();
  const int64_t ignore = request.attrs.Int("ignore_index", -1);
  return MakeKernel([=](const KernelArgs& args) {
    const int32_t* labels = args.in<int32_t>(0);
    int64_t valid = 0;
    for (int64_t i = 0; i < n; ++i) valid += labels[i] != ignore ? 1 : 0;
    *args.out<float>(0) = static_cast<float>(valid);
  });
}

Kernel MakeCountCorrect(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetSoftmaxLoops().count_correct[kind];
  const int64_t rows = RowsOf(x), n = LastDim(x), row_bytes = n * SizeInBytes(x.dtype);
  const int64_t ignore = request.attrs.Int("ignore_index", -1);
  const auto run = [=](const KernelArgs& args) -> Status {
    const int32_t* labels = args.in<int32_t>(1);
    OC_RETURN_IF_ERROR(CheckLabels(labels, rows, n, ignore));
    std::atomic<int64_t> correct = 0;  // whole numbers: any order gives the same
    Split(args.pool, n == 0 ? 0 : rows, n, 1, [&](int64_t begin, int64_t end) {
      correct += loop(args.inputs[0] + begin * row_bytes, labels + begin, end - begin, n, ignore);
    });
    *args.out<float>(0) = static_cast<float>(correct.load());
    return OkStatus();
  };
  return MakeKernel(run);
}

}  // namespace

void RegisterSoftmax(KernelRegistry& registry) {
  registry.Add("softmax", MakeSoftmax);
  registry.Add("softmax_grad", MakeSoftmaxGrad);
  registry.Add("cross_entropy", MakeCrossEntropy);
  registry.Add("cross_entropy_grad", MakeCrossEntropyGrad);
  registry.Add("count_valid", MakeCountValid);
  registry.Add("count_correct", MakeCountCorrect);
}

}  // namespace oc::cpu
