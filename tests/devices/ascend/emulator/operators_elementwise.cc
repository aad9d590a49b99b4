// Operators of elements.
#include <algorithm>

#include "operators.h"

namespace ascend_emulator {
namespace {

using At2 = std::array<int64_t, 2>;
using At3 = std::array<int64_t, 3>;

// op, aclnnRelu and its like: out has the type and shape of self.
template <typename F>
int32_t Unary(const char* name, const aclTensor* self, aclTensor* out, Types types, F f,
              uint64_t* size, aclOpExecutor** executor) {
  return Operator(name, size, executor)
      .In(self, types)
      .Out(out, types)
      .SameType(self, out)
      .SameShape(self, out)
      .Elementwise()
      .Done([f](const std::vector<View>& v) {
        Walk<2>(v[1].dims, {&v[0], &v[1]},
                [&](const At2& at) { Store(v[1], at[1], f(Load(v[0], at[0]))); });
      });
}

// op, aclnnAdd and its like: the operands broadcast to out.
template <typename F, typename W>
int32_t Binary(const char* name, const aclTensor* self, const aclTensor* other, aclTensor* out,
               Types types, F floats, W wholes, uint64_t* size, aclOpExecutor** executor) {
  return Operator(name, size, executor)
      .In(self, types)
      .In(other, types)
      .Out(out, types)
      .SameType(self, other)
      .SameType(self, out)
      .Broadcast(out, {self, other})
      .Elementwise()
      .Done([floats, wholes](const std::vector<View>& v) {
        const bool whole = IsWhole(v[0].dtype);
        Walk<3>(v[2].dims, {&v[0], &v[1], &v[2]}, [&](const At3& at) {
          if (whole) {
            StoreWhole(v[2], at[2], wholes(LoadWhole(v[0], at[0]), LoadWhole(v[1], at[1])));
          } else {
            Store(v[2], at[2], floats(Load(v[0], at[0]), Load(v[1], at[1])));
          }
        });
      });
}

template <typename F>
int32_t Compare(const char* name, const aclTensor* self, const aclTensor* other, aclTensor* out,
                F f, uint64_t* size, aclOpExecutor** executor) {
  return Operator(name, size, executor)
      .In(self, kAllTypes)
      .In(other, kAllTypes)
      .Out(out, kBools)
      .SameType(self, other)
      .Broadcast(out, {self, other})
      .Elementwise()
      .Done([f](const std::vector<View>& v) {
        const bool whole = IsWhole(v[0].dtype);
        Walk<3>(v[2].dims, {&v[0], &v[1], &v[2]}, [&](const At3& at) {
          const bool is = whole ? f(LoadWhole(v[0], at[0]), LoadWhole(v[1], at[1]))
                                : f(Load(v[0], at[0]), Load(v[1], at[1]));
          StoreWhole(v[2], at[2], is ? 1 : 0);
        });
      });
}

// op, aclnnAdd and its like: the scalar converts to the tensors' type, so none with a fraction's
// type beside whole numbers.
bool ScalarFits(const aclTensor* self, const aclScalar* scalar) {
  return self == nullptr || scalar == nullptr || !IsWhole(self->dtype) ||
         scalar->dtype == kAclInt64;
}

// With a number of the host. `f` gets elements of one type, doubles or whole.
template <typename F>
int32_t WithScalar(const char* name, const aclTensor* self, const aclScalar* other, aclTensor* out,
                   Types types, Types out_types, F f, uint64_t* size, aclOpExecutor** executor) {
  Operator op(name, size, executor);
  op.In(self, types).NotNull(other, "the scalar").Out(out, out_types).SameShape(self, out);
  op.Require(ScalarFits(self, other), "a scalar of floats beside whole numbers").Elementwise();
  const aclScalar number = other == nullptr ? aclScalar{} : *other;
  return op.Done([f, number](const std::vector<View>& v) {
    const bool whole = IsWhole(v[0].dtype);
    Walk<2>(v[1].dims, {&v[0], &v[1]}, [&](const At2& at) {
      if (whole) {
        StoreWhole(v[1], at[1], static_cast<int64_t>(f(LoadWhole(v[0], at[0]), number.integer)));
      } else {
        Store(v[1], at[1], static_cast<double>(f(Load(v[0], at[0]), number.value)));
      }
    });
  });
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Of two's complement, which wraps.
int64_t WrappedSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrappedProduct(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

#define OC_UNARY_(name, types, expression)                                                       \
  EMULATOR_EXPORT int32_t aclnn##name##GetWorkspaceSize(                                         \
      const aclTensor* self, aclTensor* out, uint64_t* size, aclOpExecutor** executor) {         \
    return Unary(                                                                                \
        #name, self, out, types, [](double x) -> double { return expression; }, size, executor); \
  }
OC_UNARY_(Relu, kFloats | kIndices, x < 0 ? 0 : x)
OC_UNARY_(Silu, kFloats, x* Sigmoid(x))
OC_UNARY_(Tanh, kFloats, std::tanh(x))
OC_UNARY_(Sigmoid, kFloats, Sigmoid(x))
OC_UNARY_(Exp, kFloats | TypeBit(kAclDouble), std::exp(x))
OC_UNARY_(Expm1, kFloats, std::expm1(x))
OC_UNARY_(Log, kFloats | TypeBit(kAclDouble), std::log(x))
OC_UNARY_(Sqrt, kFloats | TypeBit(kAclDouble), std::sqrt(x))
OC_UNARY_(Reciprocal, kFloats | TypeBit(kAclDouble), 1 / x)
#undef OC_UNARY_

// op, aclnnCast: dtype is out's; floats lose their fraction.
EMULATOR_EXPORT int32_t aclnnCastGetWorkspaceSize(const aclTensor* self, int32_t dtype,
                                                  aclTensor* out, uint64_t* size,
                                                  aclOpExecutor** executor) {
  return Operator("Cast", size, executor)
      .In(self, kAllTypes)
      .Out(out, kAllTypes)
      .SameShape(self, out)
      .Require(out == nullptr || out->dtype == dtype, "dtype is not out's")
      .Done([](const std::vector<View>& v) {
        const bool whole = IsWhole(v[0].dtype) && IsWhole(v[1].dtype);
        Walk<2>(v[1].dims, {&v[0], &v[1]}, [&](const At2& at) {
          if (whole) {
            StoreWhole(v[1], at[1], LoadWhole(v[0], at[0]));
          } else {
            Store(v[1], at[1], Load(v[0], at[0]));
          }
        });
      });
}

// op, aclnnAdd: self + alpha * other.
EMULATOR_EXPORT int32_t aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                                 const aclScalar* alpha, aclTensor* out,
                                                 uint64_t* size, aclOpExecutor** executor) {
  if (alpha == nullptr) return Fail(kAclnnParamNullptr, "aclnnAdd: alpha is null");
  if (!ScalarFits(self, alpha)) {
    return Fail(kAclnnParamInvalid, "aclnnAdd: alpha of floats beside whole numbers");
  }
  const double factor = alpha->value;
  const int64_t whole = alpha->integer;
  return Binary(
      "Add", self, other, out, kAllTypes, [factor](double a, double b) { return a + factor * b; },
      [whole](int64_t a, int64_t b) { return WrappedSum(a, WrappedProduct(whole, b)); }, size,
      executor);
}

// op, aclnnInplaceAdd: the operands broadcast to self.
EMULATOR_EXPORT int32_t aclnnInplaceAddGetWorkspaceSize(aclTensor* self, const aclTensor* other,
                                                        const aclScalar* alpha, uint64_t* size,
                                                        aclOpExecutor** executor) {
  Operator op("InplaceAdd", size, executor);
  op.In(self, kAllTypes).In(other, kAllTypes).NotNull(alpha, "alpha").SameType(self, other);
  op.Broadcast(self, {self, other});
  op.Require(ScalarFits(self, alpha), "alpha of floats beside whole numbers");
  const aclScalar factor = alpha == nullptr ? aclScalar{} : *alpha;
  return op.Done([factor](const std::vector<View>& v) {
    const bool whole = IsWhole(v[0].dtype);
    Walk<2>(v[0].dims, {&v[0], &v[1]}, [&](const At2& at) {
      if (whole) {
        const int64_t added = WrappedProduct(factor.integer, LoadWhole(v[1], at[1]));
        StoreWhole(v[0], at[0], WrappedSum(LoadWhole(v[0], at[0]), added));
      } else {
        Store(v[0], at[0], Load(v[0], at[0]) + factor.value * Load(v[1], at[1]));
      }
    });
  });
}

#define OC_BINARY_(name, types, floats, wholes)                                                   \
  EMULATOR_EXPORT int32_t aclnn##name##GetWorkspaceSize(                                          \
      const aclTensor* self, const aclTensor* other, aclTensor* out, uint64_t* size,              \
      aclOpExecutor** executor) {                                                                 \
    return Binary(                                                                                \
        #name, self, other, out, types,                                                           \
        []([[maybe_unused]] double a, [[maybe_unused]] double b) -> double { return floats; },    \
        []([[maybe_unused]] int64_t a, [[maybe_unused]] int64_t b) -> int64_t { return wholes; }, \
        size, executor);                                                                          \
  }
OC_BINARY_(Mul, kAllTypes, a* b, WrappedProduct(a, b))
OC_BINARY_(Div, kFloats | TypeBit(kAclDouble), a / b, 0)
OC_BINARY_(LogicalAnd, kBools, 0, a != 0 && b != 0 ? 1 : 0)
OC_BINARY_(LogicalOr, kBools, 0, a != 0 || b != 0 ? 1 : 0)
OC_BINARY_(BitwiseXorTensor, kWholes | kBools, 0, a ^ b)
// op, aclnnRightShift: arithmetic.
OC_BINARY_(RightShift, kWholes, 0, a >> b)
#undef OC_BINARY_

#define OC_COMPARE_(name, sign)                                                            \
  EMULATOR_EXPORT int32_t aclnn##name##GetWorkspaceSize(                                   \
      const aclTensor* self, const aclTensor* other, aclTensor* out, uint64_t* size,       \
      aclOpExecutor** executor) {                                                          \
    return Compare(                                                                        \
        #name, self, other, out, [](auto a, auto b) { return a sign b; }, size, executor); \
  }
OC_COMPARE_(EqTensor, ==)
OC_COMPARE_(LtTensor, <)
OC_COMPARE_(GtTensor, >)
#undef OC_COMPARE_

// op, aclnnAdds: self + alpha * other.
EMULATOR_EXPORT int32_t aclnnAddsGetWorkspaceSize(const aclTensor* self, const aclScalar* other,
                                                  const aclScalar* alpha, aclTensor* out,
                                                  uint64_t* size, aclOpExecutor** executor) {
  if (alpha == nullptr) return Fail(kAclnnParamNullptr, "aclnnAdds: alpha is null");
  if (!ScalarFits(self, alpha)) {
    return Fail(kAclnnParamInvalid, "aclnnAdds: alpha of floats beside whole numbers");
  }
  const double factor = alpha->value;
  const int64_t whole = alpha->integer;
  return WithScalar(
      "Adds", self, other, out, kAllTypes, kAllTypes,
      [factor, whole](auto a, auto b) {
        if constexpr (std::is_same_v<decltype(a), int64_t>) {
          return WrappedSum(a, WrappedProduct(whole, b));
        } else {
          return a + factor * b;
        }
      },
      size, executor);
}

#define OC_SCALAR_(name, types, out_types, expression)                                        \
  EMULATOR_EXPORT int32_t aclnn##name##GetWorkspaceSize(                                      \
      const aclTensor* self, const aclScalar* other, aclTensor* out, uint64_t* size,          \
      aclOpExecutor** executor) {                                                             \
    return WithScalar(                                                                        \
        #name, self, other, out, types, out_types, [](auto a, auto b) { return expression; }, \
        size, executor);                                                                      \
  }
OC_SCALAR_(NeScalar, kAllTypes, kBools, a != b)
OC_SCALAR_(LtScalar, kAllTypes, kBools, a < b)
OC_SCALAR_(GeScalar, kAllTypes, kBools, a >= b)
OC_SCALAR_(ClampMax, kFloats | kIndices, kFloats | kIndices, a > b ? b : a)
OC_SCALAR_(BitwiseAndScalar, kWholes | kBools, kWholes | kBools,
           static_cast<int64_t>(a) & static_cast<int64_t>(b))
#undef OC_SCALAR_

EMULATOR_EXPORT int32_t aclnnMulsGetWorkspaceSize(const aclTensor* self, const aclScalar* other,
                                                  aclTensor* out, uint64_t* size,
                                                  aclOpExecutor** executor) {
  return WithScalar(
      "Muls", self, other, out, kAllTypes, kAllTypes,
      [](auto a, auto b) {
        if constexpr (std::is_same_v<decltype(a), int64_t>) {
          return WrappedProduct(a, b);
        } else {
          return a * b;
        }
      },
      size, executor);
}

EMULATOR_EXPORT int32_t aclnnSWhereGetWorkspaceSize(const aclTensor* condition,
                                                    const aclTensor* self, const aclTensor* other,
                                                    aclTensor* out, uint64_t* size,
                                                    aclOpExecutor** executor) {
  return Operator("SWhere", size, executor)
      .In(condition, kBools | TypeBit(kAclUint8))
      .In(self, kAllTypes)
      .In(other, kAllTypes)
      .Out(out, kAllTypes)
      .SameType(self, other)
      .SameType(self, out)
      .Broadcast(out, {condition, self, other})
      .Elementwise()
      .Done([](const std::vector<View>& v) {
        Walk<4>(v[3].dims, {&v[0], &v[1], &v[2], &v[3]}, [&](const std::array<int64_t, 4>& at) {
          const int from = LoadWhole(v[0], at[0]) != 0 ? 1 : 2;
          if (IsWhole(v[1].dtype)) {
            StoreWhole(v[3], at[3], LoadWhole(v[from], at[from]));
          } else {
            Store(v[3], at[3], Load(v[from], at[from]));
          }
        });
      });
}

}  // namespace ascend_emulator
