// How an operator is written: its first phase checks the arguments and gives a body.
//
//   EMULATOR_EXPORT int32_t aclnnExpGetWorkspaceSize(const aclTensor* self, aclTensor* out,
//                                                    uint64_t* size, aclOpExecutor** executor) {
//     return Operator("Exp", size, executor).In(self, kFloats).Out(out, kFloats).Done(...);
//   }
#pragma once

#include <array>
#include <cmath>
#include <initializer_list>

#include "elements.h"
#include "objects.h"

namespace ascend_emulator {

// The functions that the library exports, so that the compiler compares them with acl.h.
#define OC_EMULATOR_DECLARE_(name, ...)                         \
  extern "C" SizeFunction_##name aclnn##name##GetWorkspaceSize; \
  extern "C" LaunchFunction aclnn##name;
OC_ASCEND_OPERATORS(OC_EMULATOR_DECLARE_)
#undef OC_EMULATOR_DECLARE_

// Sets of dtypes.
using Types = uint64_t;
constexpr Types TypeBit(int32_t dtype) { return Types{1} << dtype; }
constexpr Types kFloats = TypeBit(kAclFloat) | TypeBit(kAclFloat16) | TypeBit(kAclBf16);
constexpr Types kIndices = TypeBit(kAclInt32) | TypeBit(kAclInt64);
constexpr Types kWholes = kIndices | TypeBit(kAclUint8);
constexpr Types kBools = TypeBit(kAclBool);
constexpr Types kAllTypes = kFloats | TypeBit(kAclDouble) | kWholes | kBools;

// Checks in order; the first failure is the result. Thread-compatible.
class Operator {
 public:
  Operator(const char* name, uint64_t* size, aclOpExecutor** executor);

  // kAclnnParamNullptr where it is null, kAclnnParamInvalid of another type.
  Operator& In(const aclTensor* t, Types types);
  Operator& Out(const aclTensor* t, Types types);
  // Each element of the output comes of those at its place: it may lie over an operand.
  Operator& Elementwise();
  // May be null.
  Operator& Optional(const aclTensor* t, Types types);
  Operator& OptionalOut(const aclTensor* t, Types types);
  Operator& NotNull(const void* argument, const char* what);
  Operator& Require(bool condition, const char* what);
  // The operands broadcast to `out`.
  Operator& Broadcast(const aclTensor* out, std::initializer_list<const aclTensor*> operands);
  Operator& SameType(const aclTensor* a, const aclTensor* b);
  Operator& SameShape(const aclTensor* a, const aclTensor* b);
  // base, aclSetAclOpExecutorRepeatable: it makes a device tensor of its own.
  Operator& MakesTensors();
  Operator& Workspace(uint64_t bytes);
  int32_t Done(Body body);

 private:
  Operator& Refuse(int32_t code, const std::string& what);

  const std::string name_;
  uint64_t* size_;
  aclOpExecutor** executor_;
  int32_t status_ = kAclSuccess;
  std::vector<const aclTensor*> tensors_;
  std::vector<size_t> outputs_;
  bool elementwise_ = false;
  uint64_t workspace_ = 0;
  bool repeatable_ = true;
};

int64_t Elements(const std::vector<int64_t>& dims);

// Strides by which the view walks `dims`: 0 along what it repeats.
std::vector<int64_t> StridesOver(const View& v, const std::vector<int64_t>& dims);

// Calls f with an offset a view for every element of `dims`, row-major.
template <size_t N, typename F>
void Walk(const std::vector<int64_t>& dims, const std::array<const View*, N>& views, F f) {
  const size_t rank = dims.size();
  std::array<std::vector<int64_t>, N> strides;
  for (size_t v = 0; v < N; ++v) strides[v] = StridesOver(*views[v], dims);
  const int64_t columns = rank == 0 ? 1 : dims[rank - 1];
  std::array<int64_t, N> step{};
  for (size_t v = 0; v < N && rank > 0; ++v) step[v] = strides[v][rank - 1];
  std::vector<int64_t> index(rank, 0);
  std::array<int64_t, N> begin{};
  for (int64_t left = columns == 0 ? 0 : Elements(dims) / columns; left > 0; --left) {
    std::array<int64_t, N> at = begin;
    for (int64_t c = 0; c < columns; ++c) {
      f(at);
      for (size_t v = 0; v < N; ++v) at[v] += step[v];
    }
    for (size_t d = rank == 0 ? 0 : rank - 1; d-- > 0;) {
      ++index[d];
      for (size_t v = 0; v < N; ++v) begin[v] += strides[v][d];
      if (index[d] < dims[d]) break;
      for (size_t v = 0; v < N; ++v) begin[v] -= strides[v][d] * dims[d];
      index[d] = 0;
    }
  }
}

// A view without its last dimension, and how many rows that makes: f(row's view).
template <typename F>
void WalkRows(const View& v, F f) {
  std::vector<int64_t> outer(v.dims.begin(), v.dims.end() - 1);
  View rows = v;
  rows.dims = outer;
  rows.strides.pop_back();
  Walk<1>(outer, {&rows}, [&](const std::array<int64_t, 1>& at) {
    View row = v;
    row.dims = {v.dims.back()};
    row.strides = {v.strides.back()};
    row.data = v.data + at[0] * static_cast<int64_t>(SizeOf(v.dtype));
    f(row);
  });
}

}  // namespace ascend_emulator
