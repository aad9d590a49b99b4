// A live VCU of this process: a slice of a device, its arenas and its end of the transport; where
// its memory is apart from the host's, also a slice of the host for what is offloaded.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/comm/transport.h"
#include "openclaw/core/file.h"
#include "openclaw/devices/device.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

class Vcu {
 public:
  // `index` in the cluster. The transport may be null where the cluster has one VCU; the host's
  // slice where the host touches the memory of `slice`.
  Vcu(int index, std::unique_ptr<Slice> slice, std::unique_ptr<Transport> transport,
      std::unique_ptr<Slice> host = nullptr)
      : index_(index),
        slice_(std::move(slice)),
        host_(std::move(host)),
        transport_(std::move(transport)) {}

  int index() const { return index_; }
  Slice& slice() { return *slice_; }
  // What of the step can be computed beside the device; may be null.
  Slice* host() { return host_.get(); }
  Transport* transport() { return transport_.get(); }

  // Makes room for arenas of at least these sizes. State keeps its contents only where its arena
  // was already large enough. A margin beyond the sizes is reserved, not used: PeakBytes tells
  // whether anything reached into it.
  // `host_bytes`: of the arena kHost, which takes a host's slice.
  Status Reserve(int64_t state_bytes, int64_t step_bytes, int64_t host_bytes = 0);
  // Makes a file of this size in `folder` the arena kFile: it has no name and goes with the
  // process. All of it is taken from the disk at once. kInvalidArgument: no such folder;
  // kResourceExhausted: the disk is full; each names the folder.
  Status OpenFile(const std::string& folder, int64_t bytes);
  // Precondition: inside the arenas, and not in kFile.
  BufferRange range(const Range& r) const {
    const std::unique_ptr<Buffer>& buffer = r.arena == Arena::kState  ? state_
                                            : r.arena == Arena::kStep ? step_
                                                                      : host_arena_;
    return {buffer.get(), r.offset, r.bytes};
  }
  // Host memory of a range; empty where the device has its own, or it is in the file.
  std::span<std::byte> view(const Range& r) {
    if (r.arena == Arena::kFile) return {};
    return (r.arena == Arena::kHost ? *host_ : *slice_).HostView(range(r));
  }
  // Copies between host memory and a range, whatever the device; blocks. The caller's memory is not
  // touched after the return, also where the device did not answer in time (kDeadlineExceeded after
  // a minute; the VCU copies nothing from then on). One thread at a time, but for kFile.
  Status Write(const Range& to, std::span<const std::byte> from);
  Status Read(std::span<std::byte> to, const Range& from);
  // Memory of the host that Write and Read have taken so far, for a device whose memory it cannot
  // touch: no more than a few MiB.
  int64_t staging_bytes() const { return static_cast<int64_t>(staging_.size()); }
  // The highest byte touched in the arena of the host; 0 where there is none.
  int64_t HostPeakBytes() const;
  // The highest byte touched in both arenas of the device, added up; what was reserved where the
  // device cannot tell.
  int64_t PeakBytes() const;

 private:
  // Copies `bytes` from or to staging_.
  Status CopyStaged(const Range& range, size_t bytes, bool to_device);

  int index_;
  std::unique_ptr<Slice> slice_, host_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Buffer> state_, step_, host_arena_;
  std::optional<File> file_;
  // For Write and Read. The queue goes first: a copy that did not end in time ends with it.
  std::vector<std::byte> staging_;
  Status copy_failure_;  // the first
  std::unique_ptr<Event> event_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace oc
