// How a kernel goes through a list of tensors: each block has a run of elements of one of them.
#pragma once

#include <algorithm>

#include "openclaw/devices/cuda/kernels/lists.h"
#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {

constexpr int kListThreads = 256;
constexpr int kAtOnce = 4;        // elements that a thread moves at once
constexpr int kMostTensors = 240;  // the arguments of a kernel hold 32,764 bytes

// The tensors of a launch, as the kernel's argument.
struct ListArgs {
  int32_t count = 0;
  int32_t first_block[kMostTensors] = {};
  bool wide[kMostTensors] = {};  // all operands are aligned
  ListTensor tensors[kMostTensors] = {};
};

// The block's tensor and elements.
struct ListRun {
  int tensor;
  bool wide;
  int64_t chunk, begin, end;

  __device__ __forceinline__ ListRun(const ListArgs& list, int64_t run) {
    int low = 0, high = list.count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (list.first_block[middle] <= static_cast<int>(blockIdx.x)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    tensor = low;
    wide = list.wide[low];
    chunk = static_cast<int64_t>(blockIdx.x) - list.first_block[low];
    begin = chunk * run;
    end = min(begin + run, list.tensors[low].n);
  }
};

// kAtOnce elements from i on; what lies beyond `end` is 0.
__device__ __forceinline__ void LoadRun(const void* from, Type type, bool whole, int64_t i,
                                        int64_t end, float (&x)[kAtOnce]) {
  if (whole) {
    LoadAny<kAtOnce>(from, type, i, x);
  } else {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) x[k] = i + k < end ? LoadAny(from, type, i + k) : 0.0f;
  }
}
__device__ __forceinline__ void StoreRun(void* to, Type type, bool whole, int64_t i,
                                         int64_t end, const float (&x)[kAtOnce]) {
  if (whole) {
    StoreAny<kAtOnce>(to, type, i, x);
  } else {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k < end) StoreAny(to, type, i + k, x[k]);
    }
  }
}

// launch(args, blocks) for as many tensors at a time as fit; a block has `run` elements. Tensors
// without elements are left out.
template <typename F>
void ForLists(ListTensors tensors, int64_t run, const F& launch) {
  ListArgs args;
  int64_t blocks = 0;
  const auto flush = [&] {
    if (args.count > 0) launch(args, static_cast<unsigned>(blocks));
    args.count = 0;
    blocks = 0;
  };
  for (const ListTensor& t : tensors) {
    if (t.n == 0) continue;
    if (args.count == kMostTensors) flush();
    bool wide = true;
    for (const void* p : t.in) wide = wide && Aligned(p, 16);
    for (const void* p : t.out) wide = wide && Aligned(p, 16);
    args.first_block[args.count] = static_cast<int32_t>(blocks);
    args.wide[args.count] = wide;
    args.tensors[args.count++] = t;
    blocks += (t.n + run - 1) / run;
  }
  flush();
}

}  // namespace oc::cuda::kernels
