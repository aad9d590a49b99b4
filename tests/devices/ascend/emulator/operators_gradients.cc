// Operators of elements that are gradients, and GELU.
#include <cstring>

#include "operators.h"

namespace ascend_emulator {
namespace {

using At3 = std::array<int64_t, 3>;

// op, aclnnTanhBackward and its like: equal types and shapes.
template <typename F>
int32_t Gradient(const char* name, const aclTensor* gradient, const aclTensor* saved,
                 aclTensor* out, F f, uint64_t* size, aclOpExecutor** executor) {
  return Operator(name, size, executor)
      .In(gradient, kFloats)
      .In(saved, kFloats)
      .Out(out, kFloats)
      .SameType(gradient, saved)
      .SameType(gradient, out)
      .SameShape(gradient, saved)
      .SameShape(gradient, out)
      .Elementwise()
      .Done([f](const std::vector<View>& v) {
        Walk<3>(v[2].dims, {&v[0], &v[1], &v[2]}, [&](const At3& at) {
          Store(v[2], at[2], f(Load(v[0], at[0]), Load(v[1], at[1])));
        });
      });
}

constexpr double kRoot = 0.7978845608028654, kCube = 0.044715;

double Gelu(double x, bool tanh) {
  if (!tanh) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + std::tanh(kRoot * (x + kCube * x * x * x)));
}

double GeluSlope(double x, bool tanh) {
  if (!tanh) {
    return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  }
  const double t = std::tanh(kRoot * (x + kCube * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * kCube * x * x);
}

}  // namespace

EMULATOR_EXPORT int32_t aclnnThresholdBackwardGetWorkspaceSize(const aclTensor* gradient,
                                                               const aclTensor* self,
                                                               const aclScalar* threshold,
                                                               aclTensor* out, uint64_t* size,
                                                               aclOpExecutor** executor) {
  if (threshold == nullptr) return Fail(kAclnnParamNullptr, "aclnnThresholdBackward: threshold");
  return Gradient(
      "ThresholdBackward", gradient, self, out,
      [limit = threshold->value](double dy, double x) { return x > limit ? dy : 0; }, size,
      executor);
}

EMULATOR_EXPORT int32_t aclnnTanhBackwardGetWorkspaceSize(const aclTensor* gradient,
                                                          const aclTensor* output, aclTensor* out,
                                                          uint64_t* size,
                                                          aclOpExecutor** executor) {
  return Gradient(
      "TanhBackward", gradient, output, out, [](double dy, double y) { return dy * (1 - y * y); },
      size, executor);
}

EMULATOR_EXPORT int32_t aclnnSigmoidBackwardGetWorkspaceSize(const aclTensor* gradient,
                                                             const aclTensor* output,
                                                             aclTensor* out, uint64_t* size,
                                                             aclOpExecutor** executor) {
  return Gradient(
      "SigmoidBackward", gradient, output, out,
      [](double dy, double y) { return dy * y * (1 - y); }, size, executor);
}

EMULATOR_EXPORT int32_t aclnnSiluBackwardGetWorkspaceSize(const aclTensor* gradient,
                                                          const aclTensor* self, aclTensor* out,
                                                          uint64_t* size,
                                                          aclOpExecutor** executor) {
  return Gradient(
      "SiluBackward", gradient, self, out,
      [](double dy, double x) {
        const double s = 1 / (1 + std::exp(-x));
        return dy * s * (1 + x * (1 - s));
      },
      size, executor);
}

// op, aclnnGeluV2: approximate 0 is the error function, 1 the hyperbolic tangent.
EMULATOR_EXPORT int32_t aclnnGeluV2GetWorkspaceSize(const aclTensor* x, int64_t approximate,
                                                    aclTensor* y, uint64_t* size,
                                                    aclOpExecutor** executor) {
  return Operator("GeluV2", size, executor)
      .In(x, kFloats)
      .Out(y, kFloats)
      .SameType(x, y)
      .SameShape(x, y)
      .Require(approximate == 0 || approximate == 1, "approximate is 0 or 1")
      .Elementwise()
      .Done([tanh = approximate == 1](const std::vector<View>& v) {
        Walk<2>(v[1].dims, {&v[0], &v[1]}, [&](const std::array<int64_t, 2>& at) {
          Store(v[1], at[1], Gelu(Load(v[0], at[0]), tanh));
        });
      });
}

// op, aclnnGeluBackwardV2: approximate is the text "none" or "tanh".
EMULATOR_EXPORT int32_t aclnnGeluBackwardV2GetWorkspaceSize(const aclTensor* gradient,
                                                            const aclTensor* self,
                                                            char* approximate, aclTensor* out,
                                                            uint64_t* size,
                                                            aclOpExecutor** executor) {
  if (approximate == nullptr) return Fail(kAclnnParamNullptr, "aclnnGeluBackwardV2: approximate");
  const bool tanh = std::strcmp(approximate, "tanh") == 0;
  if (!tanh && std::strcmp(approximate, "none") != 0) {
    return Fail(kAclnnParamInvalid, "aclnnGeluBackwardV2: approximate is none or tanh");
  }
  return Gradient(
      "GeluBackwardV2", gradient, self, out,
      [tanh](double dy, double x) { return dy * GeluSlope(x, tanh); }, size, executor);
}

// op, aclnnSoftmaxBackward: out = output * (gradient - sum of gradient * output along dim).
EMULATOR_EXPORT int32_t aclnnSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradient,
                                                             const aclTensor* output, int64_t dim,
                                                             aclTensor* out, uint64_t* size,
                                                             aclOpExecutor** executor) {
  return Operator("SoftmaxBackward", size, executor)
      .In(gradient, kFloats)
      .In(output, kFloats)
      .Out(out, kFloats)
      .SameType(gradient, output)
      .SameType(gradient, out)
      .SameShape(gradient, output)
      .SameShape(gradient, out)
      .Require(gradient == nullptr || dim == -1 ||
                   dim == static_cast<int64_t>(gradient->dims.size()) - 1,
               "emulated along the last dimension alone")
      .Workspace(1024)
      .Done([](const std::vector<View>& v) {
        std::vector<View> rows[3];
        for (int i = 0; i < 3; ++i)
          WalkRows(v[i], [&](const View& row) { rows[i].push_back(row); });
        for (size_t r = 0; r < rows[0].size(); ++r) {
          const View &dy = rows[0][r], &y = rows[1][r], &dx = rows[2][r];
          double dot = 0;
          for (int64_t j = 0; j < y.dims[0]; ++j) {
            dot += Load(dy, j * dy.strides[0]) * Load(y, j * y.strides[0]);
          }
          for (int64_t j = 0; j < y.dims[0]; ++j) {
            Store(dx, j * dx.strides[0],
                  Load(y, j * y.strides[0]) * (Load(dy, j * dy.strides[0]) - dot));
          }
        }
      });
}

}  // namespace ascend_emulator
