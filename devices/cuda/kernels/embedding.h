// Rows of a table, and their gradient: positions are sorted by id (a radix sort that keeps equal
// ones in their order), then rows of equal id are added in the order of their positions. No
// atomics: the same operands give the same bits.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

struct Embedding {
  Type type = Type::kF32;
  int64_t count = 0, vocabulary = 0, width = 0;
  const int32_t* ids = nullptr;  // those beyond the vocabulary are reported and give zeros
  const void* table = nullptr;
  void* y = nullptr;
  Flags flags;
};
cudaError_t Launch(const Embedding& embedding, cudaStream_t stream);

struct EmbeddingGrad {
  Type type = Type::kF32;
  int64_t count = 0, vocabulary = 0, width = 0;
  const void* dy = nullptr;
  const int32_t* ids = nullptr;
  void* dtable = nullptr;
  Type table_type = Type::kF32;
  bool add = false;  // to what the memory holds; else rows that no id names are zero
  Flags flags;
  void* workspace = nullptr;  // EmbeddingGradWorkspace bytes, aligned to 16
};
int64_t EmbeddingGradWorkspace(int64_t count, int64_t width);
cudaError_t Launch(const EmbeddingGrad& embedding, cudaStream_t stream);

}  // namespace oc::cuda::kernels
