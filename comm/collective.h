// What the collectives share: checking of arguments.
#pragma once

#include <span>

#include "openclaw/comm/group.h"
#include "openclaw/comm/reduce.h"

namespace oc {

// kInvalidArgument where `bytes` is no whole number of elements.
Status CheckWholeElements(const Group& group, const char* operation,
                          std::span<const std::byte> bytes, DType dtype);
// kUnimplemented where there is no reduction of the dtype.
Status CheckReducible(const Group& group, const char* operation, DType dtype);

// kInvalidArgument where `pieces` are neither empty nor as many ascending bounds, from 0 to
// `count`, as the group has members, and one.
Status CheckPieces(const Group& group, const char* operation, std::span<const int64_t> pieces,
                   int64_t count);
// For Group::Begin: what the members must agree on besides the size.
int64_t AgreedDetail(int64_t detail, std::span<const int64_t> pieces);

// The caller's scratch, or, where that is empty, memory of the call's own.
class Scratch {
 public:
  // kInvalidArgument where the caller's is not empty and below `needed`.
  Status Take(const Group& group, const char* operation, std::span<std::byte> given,
              int64_t needed);
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> own_;
  std::span<std::byte> bytes_;
};

}  // namespace oc
