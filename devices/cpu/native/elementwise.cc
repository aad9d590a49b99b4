#include "openclaw/devices/cpu/native/elementwise_loops.h"

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// Elements of a part are a multiple of this: parts begin on cache lines.
constexpr int64_t kAlign = 64;

Kernel MakeUnary(const OpRequest& request, Unary op, float p, float q) {
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(request.inputs[0]));
  const UnaryLoop loop = GetElementwiseLoops().unary[static_cast<int>(op)][kind];
  const int64_t n = request.outputs[0].shape.num_elements();
  const int64_t size = SizeInBytes(request.outputs[0].dtype);
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, n, 1, kAlign, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * size, args.outputs[0] + begin * size, end - begin, p, q);
    });
  });
}

void AddUnary(KernelRegistry& registry, const char* name, Unary op) {
  registry.Add(name, [op](const OpRequest& request, int) {
    Unary chosen = op;
    if (op == Unary::kGelu && request.attrs.String("approximate", "none") == "tanh") {
      chosen = Unary::kGeluTanh;
    }
    return MakeUnary(request, chosen, static_cast<float>(request.attrs.Double("factor", 1.0)),
                     static_cast<float>(request.attrs.Double("offset", 0.0)));
  });
}

// A loop over (a, b, y) where b is a suffix of a.
Kernel MakeBinary(const OpRequest& request, BinaryLoop loop, float p) {
  const int64_t n = request.inputs[1].shape.num_elements();
  const int64_t rows = n == 0 ? 0 : request.inputs[0].shape.num_elements() / n;
  const int64_t a_size = SizeInBytes(request.inputs[0].dtype);
  const int64_t b_size = SizeInBytes(request.inputs[1].dtype);
  const int64_t y_size = SizeInBytes(request.outputs[0].dtype);
  return MakeKernel([=](const KernelArgs& args) {
    const std::byte* const a = args.inputs[0];
    const std::byte* const b = args.inputs[1];
    std::byte* const y = args.outputs[0];
    if (rows > n || rows >= 16) {
      const int64_t align = n == 1 ? kAlign : 1;
      Split(args.pool, rows, n, align, [&](int64_t begin, int64_t end) {
        loop(a + begin * n * a_size, b, y + begin * n * y_size, end - begin, n, p);
      });
      return;
    }
    Split(args.pool, n, rows, kAlign, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * n + begin;
        // A single element is the loop's sign for a scalar b: the same result.
        loop(a + at * a_size, b + begin * b_size, y + at * y_size, 1, end - begin, p);
      }
    });
  });
}

void AddBinary(KernelRegistry& registry, const char* name, Binary op) {
  registry.Add(name, [op](const OpRequest& request, int) -> Kernel {
    const TensorType& a = request.inputs[0];
    if (a.dtype != request.inputs[1].dtype) return NoKernel(request.inputs[1]);
    if (!IsFloat(a.dtype) && op <= Binary::kMul) {
      OC_ASSIGN_OR_RETURN(const IntKind kind, IntKindOf(a));
      return MakeBinary(request, GetElementwiseLoops().integer[static_cast<int>(op)][kind], 0);
    }
    OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(a));
    Binary chosen = op;
    if (op == Binary::kGeluGrad && request.attrs.String("approximate", "none") == "tanh") {
      chosen = Binary::kGeluTanhGrad;
    }
    return MakeBinary(request, GetElementwiseLoops().binary[static_cast<int>(chosen)][kind], 0);
  });
}

void AddCompare(KernelRegistry& registry, const char* name, Compare op) {
  registry.Add(name, [op](const OpRequest& request, int) -> Kernel {
    const TensorType& a = request.inputs[0];
    const int index = static_cast<int>(op);
    if (IsFloat(a.dtype)) {
      OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(a));
      return MakeBinary(request, GetElementwiseLoops().compare[index][kind], 0);
    }
    OC_ASSIGN_OR_RETURN(const IntKind kind, IntKindOf(a));
    return MakeBinary(request, GetElementwiseLoops().compare_integer[index][kind], 0);
  });
}

Kernel MakeWhere(const OpRequest& request, int) {
  const int64_t size = SizeInBytes(request.outputs[0].dtype);
  const int64_t n = request.outputs[0].shape.num_elements();
  const WhereLoop loop = GetElementwiseLoops().where[__builtin_ctz(static_cast<unsigned>(size))];
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, n, 1, kAlign, [&](int64_t begin, int64_t end) {
      loop(args.in<uint8_t>(0) + begin, args.inputs[1] + begin * size,
           args.inputs[2] + begin * size, args.outputs[0] + begin * size, end - begin);
    });
  });
}

StatusOr<CastKind> CastKindOf(const TensorType& type) {
  switch (type.dtype) {
    case DType::kF32:
      return kCastF32;
    case DType::kBF16:
      return kCastBF16;
    case DType::kF16:
      return kCastF16;
    case DType::kI32:
      return kCastI32;
    case DType::kI64:
      return kCastI64;
    case DType::kU8:
      return kCastU8;
    case DType::kBool:
      return kCastBool;
    case DType::kF64:
      return kCastF64;
    default:
      return NoKernel(type);
  }
}

Kernel MakeCast(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const CastKind from, CastKindOf(request.inputs[0]));
  OC_ASSIGN_OR_RETURN(const CastKind to, CastKindOf(request.outputs[0]));
  const CastLoop loop = GetElementwiseLoops().cast[from][to];
  const int64_t n = request.outputs[0].shape.num_elements();
  const int64_t x_size = SizeInBytes(request.inputs[0].dtype);
  const int64_t y_size = SizeInBytes(request.outputs[0].dtype);
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, n, 1, kAlign, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * x_size, args.outputs[0] + begin * y_size, end - begin);
    });
  });
}

}  // namespace

void RegisterElementwise(KernelRegistry& registry) {
  AddUnary(registry, "relu", Unary::kRelu);
  AddUnary(registry, "silu", Unary::kSilu);
  AddUnary(registry, "tanh", Unary::kTanh);
  AddUnary(registry, "sigmoid", Unary::kSigmoid);
  AddUnary(registry, "exp", Unary::kExp);
  AddUnary(registry, "log", Unary::kLog);
  AddUnary(registry, "sqrt", Unary::kSqrt);
  AddUnary(registry, "reciprocal", Unary::kReciprocal);
  AddUnary(registry, "gelu", Unary::kGelu);
  AddUnary(registry, "scale", Unary::kScale);
  AddBinary(registry, "add", Binary::kAdd);
  AddBinary(registry, "sub", Binary::kSub);
  AddBinary(registry, "mul", Binary::kMul);
  AddBinary(registry, "div", Binary::kDiv);
  AddBinary(registry, "relu_grad", Binary::kReluGrad);
  AddBinary(registry, "tanh_grad", Binary::kTanhGrad);
  AddBinary(registry, "sigmoid_grad", Binary::kSigmoidGrad);
  AddBinary(registry, "sqrt_grad", Binary::kSqrtGrad);
  AddBinary(registry, "silu_grad", Binary::kSiluGrad);
  AddBinary(registry, "gelu_grad", Binary::kGeluGrad);
  AddCompare(registry, "equal", Compare::kEqual);
  AddCompare(registry, "less", Compare::kLess);
  AddCompare(registry, "greater", Compare::kGreater);
  registry.Add("where", MakeWhere);
  registry.Add("cast", MakeCast);
}

}  // namespace oc::cpu
