#include "openclaw/comm/collective.h"

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
