// Kernels of ops that take lists of tensors (OpDef::Lists): the elements of all tensors together
// are split over the workers, so that many small ones cost one call.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "openclaw/devices/cpu/native/glue.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::cpu {

class TensorRuns {
 public:
  // kUnimplemented unless operand i of every tensor has the same float dtype, f32 or bf16.
  static StatusOr<TensorRuns> Create(const OpRequest& request) {
    TensorRuns runs;
    runs.list_ = ListOf(*request.def, request.attrs, request.inputs.size());
    runs.outputs_ = static_cast<int>(request.outputs.size()) / runs.list_.tensors;
    for (int i = 0; i < runs.list_.operands; ++i) {
      OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(request.inputs[i]));
      runs.kinds_.push_back(kind);
      runs.sizes_.push_back(SizeInBytes(request.inputs[i].dtype));
    }
    for (int t = 0; t < runs.list_.tensors; ++t) {
      for (int i = 0; i < runs.list_.operands; ++i) {
        const TensorType& type = request.inputs[t * runs.list_.operands + i];
        if (type.dtype != request.inputs[i].dtype) return NoKernel(type);
      }
      const int64_t n = request.inputs[t * runs.list_.operands].shape.num_elements();
      runs.ends_.push_back(runs.begin(t) + n);
    }
    return runs;
  }

  int tensors() const { return list_.tensors; }
  FloatKind kind(int operand) const { return kinds_[operand]; }
  int64_t elements(int tensor) const { return ends_[tensor] - begin(tensor); }

  // Operand i of a tensor, from an element on; an output of the dtype of operand `like`; a shared
  // scalar.
  const std::byte* in(const KernelArgs& args, int tensor, int operand, int64_t at = 0) const {
    return args.inputs[tensor * list_.operands + operand] + at * sizes_[operand];
  }
  std::byte* out(const KernelArgs& args, int tensor, int output, int like, int64_t at = 0) const {
    return args.outputs[tensor * outputs_ + output] + at * sizes_[like];
  }
  float shared(const KernelArgs& args, int i) const {
    return *args.in<float>(list_.tensors * list_.operands + i);
  }

  // f(tensor, begin, end) over parts of the tensors' elements.
  template <typename F>
  void ForParts(WorkerPool& pool, const F& f) const {
    constexpr int64_t kAlign = 64;
    Split(pool, ends_.back(), 1, kAlign, [&](int64_t from, int64_t to) {
      for (int t = TensorAt(from); t < list_.tensors && begin(t) < to; ++t) {
        const int64_t first = std::max(from, begin(t)), end = std::min(to, ends_[t]);
        if (first < end) f(t, first - begin(t), end - begin(t));
      }
    });
  }
  // f(tensor, chunk, begin, end) over the chunks of every tensor (graph/sum_chunks.h).
  template <typename F>
  void ForChunks(WorkerPool& pool, const F& f) const {
    Split(pool, ends_.back(), 1, 1, [&](int64_t from, int64_t to) {
      for (int t = TensorAt(from); t < list_.tensors && begin(t) < to; ++t) {
        // Those that begin in this worker's part.
        const int64_t n = elements(t);
        for (int64_t c = SumChunks(std::max<int64_t>(0, from - begin(t)));
             c * kSumChunk < std::min(n, to - begin(t)); ++c) {
          f(t, c, c * kSumChunk, std::min(n, (c + 1) * kSumChunk));
        }
      }
    });
  }

 private:
  int64_t begin(int tensor) const { return tensor == 0 ? 0 : ends_[tensor - 1]; }
  int TensorAt(int64_t element) const {
    return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), element) - ends_.begin());
  }

  TensorList list_;
  int outputs_ = 0;
  std::vector<FloatKind> kinds_;  // by operand
  std::vector<int64_t> sizes_;    // of an element, by operand
  std::vector<int64_t> ends_;     // of each tensor, in the elements of all
};

// What every optimizer's kernel takes of a request.
inline double RateScale(const OpRequest& request) { return request.attrs.Double("lr_scale", 1.0); }
inline float ClipLimit(const OpRequest& request) {
  return static_cast<float>(
      request.attrs.Double("clip_value", std::numeric_limits<double>::infinity()));
}

// Sums over a chunk are made of sums over blocks, which f32 carries well: block(begin, end) for
// each, in order.
template <typename F>
void ForBlocks(int64_t begin, int64_t end, const F& block) {
  constexpr int64_t kBlock = 8192;
  for (int64_t at = begin; at < end; at += kBlock) block(at, std::min(end, at + kBlock));
}

}  // namespace oc::cpu
