// What kernels and their callers share: element types and the flags of bad data. Kernels' headers
// include no more of the project, so that they compile fast.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace oc::cuda::kernels {

// The numbers of oc::DType.
enum class Type : int32_t {
  kF32 = 1,
  kBF16 = 2,
  kF16 = 3,
  kF64 = 4,
  kI32 = 5,
  kI64 = 6,
  kU8 = 7,
  kBool = 8
};

constexpr int BytesOf(Type type) {
  switch (type) {
    case Type::kF64:
    case Type::kI64:
      return 8;
    case Type::kF32:
    case Type::kI32:
      return 4;
    case Type::kBF16:
    case Type::kF16:
      return 2;
    default:
      return 1;
  }
}

// Where a kernel reports bad data. The first report of a queue stays: who changes `claim` (on the
// device) from 0 writes `report` (memory of the host, which the device sees).
struct Report {
  int32_t code;  // of the op's check; written last
  int32_t reserved;
  int64_t position, value;
};
struct Flags {
  int32_t* claim = nullptr;
  Report* report = nullptr;
  int32_t code = 0;
};

}  // namespace oc::cuda::kernels
