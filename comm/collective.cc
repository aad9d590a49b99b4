#include "openclaw/comm/collective.h"

#include <algorithm>

#include "openclaw/core/rng.h"

namespace oc {

Status CheckWholeElements(const Group& group, const char* operation,
                          std::span<const std::byte> bytes, DType dtype) {
  if (bytes.size() % SizeInBytes(dtype) == 0) return OkStatus();
  return InvalidArgument(operation, ": ", bytes.size(), " bytes are no whole number of ",
                         Name(dtype), " elements (group ", group.options().id, ", member ",
                         group.rank(), ")");
}

Status CheckReducible(const Group& group, const char* operation, DType dtype) {
  if (CanReduce(dtype)) return OkStatus();
  return Unimplemented(operation, ": no reduction of ", Name(dtype),
                       "; there are f32, f64, bf16, f16, i32, i64 (group ", group.options().id,
                       ")");
}

Status CheckPieces(const Group& group, const char* operation, std::span<const int64_t> pieces,
                   int64_t count) {
  if (pieces.empty()) return OkStatus();
  if (static_cast<int>(pieces.size()) == group.size() + 1 && pieces.front() == 0 &&
      pieces.back() == count && std::is_sorted(pieces.begin(), pieces.end())) {
    return OkStatus();
  }
  return InvalidArgument(operation, ": ", pieces.size(), " bounds of pieces do not divide ", count,
                         " elements over ", group.size(), " members (group ", group.options().id,
                         ", member ", group.rank(), ")");
}

int64_t AgreedDetail(int64_t detail, std::span<const int64_t> pieces) {
  if (pieces.empty()) return detail;
  const uint64_t hash =
      StreamOf(reinterpret_cast<const char*>(pieces.data()), pieces.size() * sizeof(int64_t));
  return static_cast<int64_t>(hash ^ static_cast<uint64_t>(detail));
}

Status Scratch::Take(const Group& group, const char* operation, std::span<std::byte> given,
                     int64_t needed) {
  if (given.empty()) {
    own_.resize(needed);
    bytes_ = own_;
    return OkStatus();
  }
  if (static_cast<int64_t>(given.size()) < needed) {
    return InvalidArgument(operation, ": scratch of ", given.size(), " bytes, ", needed,
                           " are needed (group ", group.options().id, ", member ", group.rank(),
                           ")");
  }
  bytes_ = given;
  return OkStatus();
}

}  // namespace oc
