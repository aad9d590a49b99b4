// The ranks of one collective. A collective is an options struct and a free function in its own
// pair of files: all_reduce.h, all_gather.h, reduce_scatter.h, broadcast.h, barrier.h.
//
//   Group group(transport, {0, 2, 4}, {.id = 7, .timeout_seconds = 30});
//   OC_RETURN_IF_ERROR(AllReduceInPlace(group, {.bytes = range, .dtype = DType::kF32}));
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/comm/transport.h"
#include "openclaw/core/dtype.h"

namespace oc {

struct GroupOptions {
  int64_t id = 0;     // the same on all members, unique among the groups of an epoch
  int64_t epoch = 0;  // raised by every re-planning: messages of another epoch never match
  double timeout_seconds = 30;
};

// One member's end. Calls on one group are made by one thread at a time, in the same order on every
// member. A group of one is legal: its collectives do nothing.
class Group {
 public:
  // `members` are ranks of `transport`, which must outlive the group; this rank is one of them, and
  // none occurs twice (checked).
  Group(Transport& transport, std::vector<int> members, const GroupOptions& options);

  Transport& transport() { return transport_; }
  int size() const { return static_cast<int>(members_.size()); }
  int rank() const { return rank_; }  // position in members
  int member(int i) const { return members_[i]; }
  const GroupOptions& options() const { return options_; }

  // Point-to-point inside the group's tag space; errors name the group's ranks. `step` separates
  // the messages of one collective.
  Status Send(int to, int64_t step, std::span<const std::byte> bytes);
  Status Recv(int from, int64_t step, std::span<std::byte> bytes);
  // Both at once (Transport::SendRecv).
  Status SendRecv(int to, std::span<const std::byte> send_bytes, int from,
                  std::span<std::byte> recv_bytes, int64_t step);

  // Called at the head of every collective. On the first call of a (operation, bytes, dtype,
  // detail) all members compare it, together with the number of the call; a mismatch or a missing
  // peer is kInvalidArgument or kDeadlineExceeded naming rank, operation and both values, before
  // any data moves. Later calls of the same cost a look-up.
  Status Begin(const char* operation, int64_t bytes, DType dtype, int64_t detail);

 private:
  Status Agree(const char* operation, int64_t bytes, DType dtype, int64_t detail);
  int64_t Tag(int64_t step) const;

  Transport& transport_;
  std::vector<int> members_;
  GroupOptions options_;
  int rank_ = 0;
  std::vector<uint64_t> agreed_;  // hashes that were compared, sorted
  int64_t calls_ = 0;             // of Begin
};

}  // namespace oc
