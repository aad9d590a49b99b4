#include "openclaw/runtime/vcu.h"

namespace oc {
namespace {

// Unused address space behind each arena: something that reaches too far is seen, not fatal.
constexpr int64_t kMargin = int64_t{4} << 20;

Status Grow(Slice& slice, int64_t bytes, std::unique_ptr<Buffer>& buffer) {
  if (buffer != nullptr && buffer->bytes() >= bytes + kMargin) return OkStatus();
  buffer.reset();
  OC_ASSIGN_OR_RETURN(buffer, slice.Allocate(bytes + kMargin));
  return OkStatus();
}

}  // namespace

Status Vcu::Reserve(int64_t state_bytes, int64_t step_bytes) {
  OC_RETURN_IF_ERROR(Grow(*slice_, state_bytes, state_));
  return Grow(*slice_, step_bytes, step_);
}

Status Vcu::Synchronize() {
  OC_RETURN_IF_ERROR(queue_->Record(*event_));
  return event_->Wait(/*timeout_seconds=*/60);
}

Status Vcu::Write(const Range& to, std::span<const std::byte> from) {
  if (queue_ == nullptr) {
    OC_ASSIGN_OR_RETURN(queue_, slice_->CreateQueue("copies"));
    OC_ASSIGN_OR_RETURN(event_, slice_->CreateEvent());
  }
  OC_RETURN_IF_ERROR(queue_->CopyFromHost(range(to), from));
  return Synchronize();
}

Status Vcu::Read(std::span<std::byte> to, const Range& from) {
  if (queue_ == nullptr) {
    OC_ASSIGN_OR_RETURN(queue_, slice_->CreateQueue("copies"));
    OC_ASSIGN_OR_RETURN(event_, slice_->CreateEvent());
  }
  OC_RETURN_IF_ERROR(queue_->CopyToHost(to, range(from)));
  return Synchronize();
}

int64_t Vcu::PeakBytes() const {
  int64_t peak = 0;
  for (const Buffer* buffer : {state_.get(), step_.get()}) {
    if (buffer == nullptr) continue;
    const int64_t touched = slice_->HighWater(*buffer);
    peak += touched >= 0 ? touched : buffer->bytes();
  }
  return peak;
}

}  // namespace oc
