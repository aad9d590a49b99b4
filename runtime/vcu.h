// A live VCU of this process: a slice of a device, its two arenas and its end of the transport.
#pragma once

#include <memory>
#include <vector>

#include "openclaw/comm/transport.h"
#include "openclaw/devices/device.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

class Vcu {
 public:
  // `index` in the cluster. The transport may be null where the cluster has one VCU.
  Vcu(int index, std::unique_ptr<Slice> slice, std::unique_ptr<Transport> transport)
      : index_(index), slice_(std::move(slice)), transport_(std::move(transport)) {}

  int index() const { return index_; }
  Slice& slice() { return *slice_; }
  Transport* transport() { return transport_.get(); }

  // Makes room for arenas of at least these sizes. State keeps its contents only where its arena
  // was already large enough. A margin beyond the sizes is reserved, not used: PeakBytes tells
  // whether anything reached into it.
  Status Reserve(int64_t state_bytes, int64_t step_bytes);
  // Precondition: inside the arenas.
  BufferRange range(const Range& r) const {
    return {r.arena == Arena::kState ? state_.get() : step_.get(), r.offset, r.bytes};
  }
  // Host memory of a range; empty where the device has its own.
  std::span<std::byte> view(const Range& r) { return slice_->HostView(range(r)); }
  // Copies between host memory and a range, whatever the device; blocks. The caller's memory is not
  // touched after the return, also where the device did not answer in time (kDeadlineExceeded after
  // a minute; the VCU copies nothing from then on). One thread at a time.
  Status Write(const Range& to, std::span<const std::byte> from);
  Status Read(std::span<std::byte> to, const Range& from);
  // Memory of the host that Write and Read have taken so far, for a device whose memory it cannot
  // touch: no more than a few MiB.
  int64_t staging_bytes() const { return static_cast<int64_t>(staging_.size()); }
  // The highest byte touched in both arenas, added up; what was reserved where the device cannot
  // tell.
  int64_t PeakBytes() const;

 private:
  // Copies `bytes` from or to staging_.
  Status CopyStaged(const Range& range, size_t bytes, bool to_device);

  int index_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Buffer> state_, step_;
  // For Write and Read. The queue goes first: a copy that did not end in time ends with it.
  std::vector<std::byte> staging_;
  Status copy_failure_;  // the first
  std::unique_ptr<Event> event_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace oc
