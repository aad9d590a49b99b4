// A rank of a group of slices on devices of their own, through HCCL.
#pragma once

#include <map>

#include "openclaw/devices/ascend/op.h"
#include "openclaw/devices/ascend/slice.h"

namespace oc::ascend {

enum class Reduction { kSum, kMax, kAverage };

// -1 where HCCL has no such type.
int32_t HcclType(DType dtype);
// Whether HCCL reduces elements of the type.
bool Reduces(DType dtype);

// Calls are enqueued on queues of the slice. One thread at a time, but for AsyncError.
class Communicator {
 public:
  // `id`: kHcclRootInfoBytes. One rank makes it, all join with it.
  static Status MakeId(const AscendSlice& slice, uint8_t* id);
  // Waits for the other ranks. kDeadlineExceeded after `timeout_seconds`; kInvalidArgument where
  // two ranks are on one device.
  static StatusOr<std::unique_ptr<Communicator>> Join(AscendSlice& slice, const uint8_t* id,
                                                      uint32_t rank, uint32_t size,
                                                      double timeout_seconds);
  // Waits for the calls that were enqueued on queues which are still there. What does not end
  // within a minute stays as it is, and a warning says so.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  Status AllReduce(AscendQueue& queue, BufferRange from, BufferRange to, DType dtype,
                   Reduction reduction);
  Status AllGather(AscendQueue& queue, BufferRange from, BufferRange to, DType dtype);
  Status ReduceScatter(AscendQueue& queue, BufferRange from, BufferRange to, DType dtype,
                       Reduction reduction);
  Status Broadcast(AscendQueue& queue, BufferRange data, DType dtype, uint32_t root);
  Status Send(AscendQueue& queue, BufferRange from, DType dtype, uint32_t peer);
  Status Recv(AscendQueue& queue, BufferRange to, DType dtype, uint32_t peer);
  // The first error that the group met; does not block. Any thread.
  Status AsyncError() const;

 private:
  // A queue that calls were enqueued on.
  struct Used {
    std::weak_ptr<OwnedStream> stream;
    std::unique_ptr<Buffer> workspace;  // of averages; null: none yet
  };

  Communicator(AscendSlice& slice, const HcclApi& hccl, Comm comm, uint32_t rank, uint32_t size);
  // Elements; an error that names the call where the bytes are no whole number of them.
  StatusOr<uint64_t> Count(const BufferRange& range, DType dtype, const char* what) const;
  // Notes that the queue is used.
  Status CheckQueue(const AscendQueue& queue);
  // What multiplies so many elements by 1 / size.
  StatusOr<PreparedOp*> Scaler(int64_t count, DType dtype);
  // A part at a time, so that the workspace is bounded.
  Status Divide(AscendQueue& queue, const BufferRange& from, const BufferRange& to, DType dtype);
  // kDeadlineExceeded where a call does not end in time.
  Status End(std::chrono::steady_clock::time_point deadline) const;
  // Leaves the group; retries while it is in use.
  Status Destroy(std::chrono::steady_clock::time_point deadline);
  Status HcclStatus(int32_t result, const char* function) const;

  AscendSlice& slice_;
  const HcclApi& hccl_;
  const Comm comm_;
  const uint32_t size_;
  const std::string where_;  // "rank 1 of 2, ascend:1, ..."
  std::map<std::pair<int64_t, DType>, std::unique_ptr<PreparedOp>> scalers_;  // by elements
  std::map<const OwnedStream*, Used> used_;
};

}  // namespace oc::ascend
