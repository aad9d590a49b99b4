// A run of commands (runs.h) on a queue that captures: enqueued once into captured work, and from
// then on launched. What cannot be captured is enqueued between the pieces that can.
//
//   Replay replay(queue, synchronize);
//   replay.Feed(range, staged);  replay.Compute(call);  replay.Snapshot(staged, range);
//   OC_RETURN_IF_ERROR(replay.Run());       // captures the first time, then launches
//   OC_RETURN_IF_ERROR(replay.Synchronize());
//
// All that it was given (ranges, ops, memory of the host) must stay as it is. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc {

// An op with its ranges.
struct BoundCall {
  PreparedOp* op = nullptr;
  const BufferRange* inputs = nullptr;
  const BufferRange* outputs = nullptr;
  size_t num_inputs = 0, num_outputs = 0;
  BufferRange workspace;
};
Status Enqueue(Queue& queue, const BoundCall& call);

// How the commands of a step reach a device.
struct CaptureReport {
  int64_t launches = 0;        // of captured work
  int64_t captured_calls = 0;  // ops in it
  int64_t plain_calls = 0;     // ops that are enqueued one by one
  std::string reason;          // why those are; empty where there are none
};

class Replay {
 public:
  // `synchronize` returns when what is enqueued has ended, with its status.
  Replay(Queue& queue, std::function<Status()> synchronize)
      : queue_(queue), synchronize_(std::move(synchronize)) {}

  // ---- What is enqueued, in this order ----
  void Compute(const BoundCall& call);
  // `from` is read, `to` written, while it runs.
  void Feed(BufferRange to, std::span<const std::byte> from);
  void Snapshot(std::span<std::byte> to, BufferRange from);
  // Up to EndIf: only where the f32 in `value` is finite, which is copied to `copy` to be looked
  // at. Not nested.
  void BeginIfFinite(BufferRange value, std::span<std::byte> copy);
  void EndIf();

  // Returns when all is enqueued: without a wait, but where a device cannot decide a condition by
  // itself. Errors of the queue.
  Status Run();
  Status Synchronize() { return synchronize_(); }

  // Once it has run.
  CaptureReport report() const;

 private:
  enum class Kind { kCall, kFeed, kSnapshot, kIf, kEndIf };
  struct Item {
    Kind kind;
    const BoundCall* call = nullptr;
    BufferRange range;
    std::span<std::byte> to;
    std::span<const std::byte> from;
    size_t end = 0;        // kIf: the item that ends it
    bool on_host = false;  // kIf: the host looks at the value, and then enqueues or does not
  };
  // Items [begin, end): captured, or else one that is enqueued each time.
  struct Piece {
    size_t begin = 0, end = 0;
    std::unique_ptr<CapturedWork> work;
  };

  Status Put(const Item& item);
  Status Capture();
  // Puts items from `begin` on into `piece`, as many as can be captured, and no further than
  // `limit`. None: the first cannot.
  Status CapturePiece(size_t begin, size_t limit, Piece& piece);
  // The items of the condition that item `i` is in, or begins; null: it is in none.
  Item* ConditionOf(size_t i);
  // The first item from `i` on that the host has to look at.
  size_t HostBoundary(size_t i) const;
  Status RunPieces();

  Queue& queue_;
  const std::function<Status()> synchronize_;
  std::vector<Item> items_;
  std::vector<Piece> pieces_;
  bool captured_ = false;
  std::string reason_;
};

}  // namespace oc
