#include "openclaw/runtime/vcu.h"

#include <algorithm>
#include <cstring>

namespace oc {
namespace {

// Unused address space behind each arena: something that reaches too far is seen, not fatal.
constexpr int64_t kMargin = int64_t{4} << 20;

constexpr double kCopySeconds = 60;
constexpr size_t kStaging = size_t{4} << 20;

Range Part(const Range& whole, size_t at, size_t bytes) {
  Range part = whole;
  part.offset += static_cast<int64_t>(at);
  part.bytes = static_cast<int64_t>(bytes);
  return part;
}

Status Grow(Slice& slice, int64_t bytes, std::unique_ptr<Buffer>& buffer) {
  if (buffer != nullptr && buffer->bytes() >= bytes + kMargin) return OkStatus();
  buffer.reset();
  OC_ASSIGN_OR_RETURN(buffer, slice.Allocate(bytes + kMargin));
  return OkStatus();
}

}  // namespace

Status Vcu::Reserve(int64_t state_bytes, int64_t step_bytes, int64_t host_bytes) {
  OC_RETURN_IF_ERROR(Grow(*slice_, state_bytes, state_));
  if (host_bytes > 0) {
    if (host_ == nullptr) return FailedPrecondition("reserve: the VCU has no host to offload to");
    OC_RETURN_IF_ERROR(Grow(*host_, host_bytes, host_arena_));
  }
  return Grow(*slice_, step_bytes, step_);
}

Status Vcu::OpenFile(const std::string& folder, int64_t bytes) {
  auto file = File::CreateNameless(folder, bytes);
  if (!file.ok()) return Annotate(file.status(), "offload to a file");
  file_ = *std::move(file);
  return OkStatus();
}

Status Vcu::CopyStaged(const Range& part, size_t bytes, bool to_device) {
  OC_RETURN_IF_ERROR(copy_failure_);
  if (queue_ == nullptr) {
    OC_ASSIGN_OR_RETURN(event_, slice_->CreateEvent());
    OC_ASSIGN_OR_RETURN(queue_, slice_->CreateQueue("copies"));
  }
  const auto copy = [&]() -> Status {
    const std::span<std::byte> staged(staging_.data(), bytes);
    OC_RETURN_IF_ERROR(to_device ? queue_->CopyFromHost(range(part), staged)
                                 : queue_->CopyToHost(staged, range(part)));
    OC_RETURN_IF_ERROR(queue_->Record(*event_));
    return event_->Wait(kCopySeconds);
  };
  // After a timeout the copy may still use staging_: it is never used again.
  copy_failure_ = copy();
  return copy_failure_;
}

Status Vcu::Write(const Range& to, std::span<const std::byte> from) {
  if (to.arena == Arena::kFile) return file_->WriteAt(to.offset, from);
  if (const std::span<std::byte> here = view(to); !here.empty()) {
    std::memcpy(here.data(), from.data(), from.size());
    return OkStatus();
  }
  for (size_t at = 0; at < from.size(); at += kStaging) {
    const size_t bytes = std::min(kStaging, from.size() - at);
    OC_RETURN_IF_ERROR(copy_failure_);  // before its staging is written to
    if (staging_.size() < bytes) staging_.resize(bytes);
    std::memcpy(staging_.data(), from.data() + at, bytes);
    OC_RETURN_IF_ERROR(CopyStaged(Part(to, at, bytes), bytes, /*to_device=*/true));
  }
  return OkStatus();
}

Status Vcu::Read(std::span<std::byte> to, const Range& from) {
  if (from.arena == Arena::kFile) return file_->ReadAt(from.offset, to);
  if (const std::span<std::byte> here = view(from); !here.empty()) {
    std::memcpy(to.data(), here.data(), to.size());
    return OkStatus();
  }
  for (size_t at = 0; at < to.size(); at += kStaging) {
    const size_t bytes = std::min(kStaging, to.size() - at);
    OC_RETURN_IF_ERROR(copy_failure_);
    if (staging_.size() < bytes) staging_.resize(bytes);
    OC_RETURN_IF_ERROR(CopyStaged(Part(from, at, bytes), bytes, /*to_device=*/false));
    std::memcpy(to.data() + at, staging_.data(), bytes);
  }
  return OkStatus();
}

int64_t Vcu::HostPeakBytes() const {
  if (host_arena_ == nullptr) return 0;
  const int64_t touched = host_->HighWater(*host_arena_);
  return touched >= 0 ? touched : host_arena_->bytes();
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
