// Ops that take lists of tensors (OpDef::Lists): what a kernel sees of each tensor, and sums over
// fixed chunks.
#pragma once

#include <algorithm>

#include "openclaw/core/tensor.h"
#include "openclaw/devices/reference/floats.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::reference {

// One tensor of a call. Operands and outputs count from the tensor's own first; `shared` are f32
// scalars.
class OneTensor {
 public:
  OneTensor(const OpRequest& request, const KernelArgs& args, const TensorList& list, int tensor)
      : request_(request),
        args_(args),
        first_in_(tensor * list.operands),
        first_out_(tensor * static_cast<int>(request.outputs.size()) / list.tensors),
        first_shared_(list.tensors * list.operands) {}

  const TensorType& type(int operand) const {
    return request_.inputs[static_cast<size_t>(first_in_ + operand)];
  }
  int64_t elements() const { return type(0).shape.num_elements(); }
  template <typename T>
  const T* in(int operand) const {
    return args_.in<T>(first_in_ + operand);
  }
  template <typename T>
  T* out(int output) const {
    return args_.out<T>(first_out_ + output);
  }
  // Element i of an operand of any float dtype.
  double any(int operand, int64_t i) const {
    return LoadElement(type(operand).dtype, args_.inputs[first_in_ + operand], i);
  }
  double shared(int i) const { return args_.in<float>(first_shared_ + i)[0]; }

 private:
  const OpRequest& request_;
  const KernelArgs& args_;
  int first_in_, first_out_, first_shared_;
};

template <typename F>
Status ForEachTensor(const OpRequest& request, const KernelArgs& args, const F& f) {
  const TensorList list = ListOf(*request.def, request.attrs, request.inputs.size());
  for (int t = 0; t < list.tensors; ++t) f(OneTensor(request, args, list, t));
  return OkStatus();
}

// sums[c] = the sum of value(i) over chunk c of 0..n-1.
template <typename F>
void StoreChunkSums(float* sums, int64_t n, const F& value) {
  for (int64_t c = 0; c < SumChunks(n); ++c) {
    double sum = 0;
    const int64_t end = std::min(n, (c + 1) * kSumChunk);
    for (int64_t i = c * kSumChunk; i < end; ++i) sum += value(i);
    sums[c] = static_cast<float>(sum);
  }
}

// The chunks' sums, in their order.
inline double TotalOf(const float* sums, const TensorType& type) {
  double total = 0;
  for (int64_t c = 0; c < type.shape.num_elements(); ++c) total += sums[c];
  return total;
}

}  // namespace oc::reference
