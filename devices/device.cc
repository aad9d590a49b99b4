#include "openclaw/devices/device.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace oc {
namespace {

constexpr auto kHostAlignment = std::align_val_t{64};

class PlainHostMemory : public HostMemory {
 public:
  explicit PlainHostMemory(size_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new(std::max<size_t>(bytes, 1), kHostAlignment, std::nothrow))),
        bytes_(bytes) {
    if (data_ != nullptr) std::memset(data_, 0, bytes);
  }
  ~PlainHostMemory() override { ::operator delete(data_, kHostAlignment); }
  std::span<std::byte> bytes() override { return {data_, bytes_}; }
  bool there() const { return data_ != nullptr; }

 private:
  std::byte* data_;
  size_t bytes_;
};

Status NoCapture() { return Unimplemented("the device captures no work"); }

}  // namespace

Status Queue::BeginCapture() { return NoCapture(); }
StatusOr<std::unique_ptr<CapturedWork>> Queue::EndCapture() { return NoCapture(); }
Status Queue::Launch(CapturedWork&) { return NoCapture(); }
Status Queue::BeginIfFinite(BufferRange) {
  return Unimplemented("captured work of the device has no conditions");
}
Status Queue::EndIf() {
  return FailedPrecondition("end of a condition of captured work: none was begun");
}

StatusOr<std::unique_ptr<HostMemory>> Slice::AllocateHost(int64_t bytes) {
  if (bytes < 0) return InvalidArgument("allocate ", bytes, " bytes of host memory");
  auto memory = std::make_unique<PlainHostMemory>(static_cast<size_t>(bytes));
  if (!memory->there()) {
    return ResourceExhausted("allocate ", bytes, " bytes of host memory: the system refused");
  }
  return std::unique_ptr<HostMemory>(std::move(memory));
}

std::string ToString(const OpRequest& request) {
  std::string text = request.def->name;
  for (const TensorType& t : request.inputs) absl::StrAppend(&text, " ", t.ToString());
  if (!request.attrs.values().empty()) absl::StrAppend(&text, " ", request.attrs.ToString());
  if (request.accumulate != 0) absl::StrAppend(&text, " accumulate ", request.accumulate);
  return text;
}

bool WantsSumType(const OpRequest& request) {
  return request.attrs.Has("dtype") && TakesSumType(*request.def);
}

StatusOr<const DeviceLeaf*> DeviceRegistry::Find(const std::string& name) const {
  for (const DeviceLeaf& leaf : leaves_) {
    if (leaf.name == name) return &leaf;
  }
  return InvalidArgument("no device leaf '", name, "'; there are: ",
                         absl::StrJoin(leaves_, ", ", [](std::string* out, const DeviceLeaf& l) {
                           out->append(l.name);
                         }));
}

}  // namespace oc
