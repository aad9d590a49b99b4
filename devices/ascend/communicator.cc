#include "openclaw/devices/ascend/communicator.h"

#include <chrono>

#include "openclaw/core/logging.h"

namespace oc::ascend {
namespace {

void* AddressOf(const BufferRange& r) {
  return r.buffer == nullptr ? nullptr : static_cast<AscendBuffer*>(r.buffer)->data() + r.offset;
}

int32_t HcclOp(Reduction reduction) { return reduction == Reduction::kMax ? kHcclMax : kHcclSum; }

// Joining blocks by HCCL's own patience (HCCL_CONNECT_TIMEOUT), so a thread does it; where the
// caller's patience ends first the thread keeps what it needs.
struct Joining {
  std::shared_ptr<const Api> api;
  const HcclApi* hccl = nullptr;
  std::vector<char> id;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool done = false, abandoned = false;
  Status status;
  Comm comm = nullptr;
};

void JoinNow(const std::shared_ptr<Joining>& joining, int device, uint32_t rank, uint32_t size,
             const std::string& where) {
  Comm comm = nullptr;
  Status status = joining->api->UseDevice(device);
  if (status.ok()) {
    const auto* info = reinterpret_cast<const HcclRootInfoDef*>(joining->id.data());
    status = joining->api->HcclStatus(joining->hccl->HcclCommInitRootInfo(size, info, rank, &comm),
                                      "HcclCommInitRootInfo", where);
  }
  std::lock_guard<std::mutex> lock(joining->mutex);
  if (joining->abandoned && status.ok()) (void)joining->hccl->HcclCommDestroy(comm);
  joining->done = true;
  joining->status = std::move(status);
  joining->comm = comm;
  joining->changed.notify_all();
}

}  // namespace

int32_t HcclType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kHcclFp32;
    case DType::kF16:
      return kHcclFp16;
    case DType::kBF16:
      return kHcclBf16;
    case DType::kF64:
      return kHcclFp64;
    case DType::kI32:
      return kHcclInt32;
    case DType::kI64:
      return kHcclInt64;
    case DType::kU8:
    case DType::kBool:
      return kHcclUint8;
  }
  return -1;
}

bool Reduces(DType dtype) {
  return dtype != DType::kU8 && dtype != DType::kBool && dtype != DType::kF64;
}

Status Communicator::MakeId(const AscendSlice& slice, uint8_t* id) {
  OC_ASSIGN_OR_RETURN(const HcclApi* hccl, slice.api().Collectives());
  OC_RETURN_IF_ERROR(slice.UseDevice());
  return slice.api().HcclStatus(hccl->HcclGetRootInfo(reinterpret_cast<HcclRootInfoDef*>(id)),
                                "HcclGetRootInfo", slice.where());
}

StatusOr<std::unique_ptr<Communicator>> Communicator::Join(AscendSlice& slice, const uint8_t* id,
                                                           uint32_t rank, uint32_t size,
                                                           double timeout_seconds) {
  OC_ASSIGN_OR_RETURN(const HcclApi* hccl, slice.api().Collectives());
  const std::string where = absl::StrCat("rank ", rank, " of ", size, ", ", slice.where());
  auto joining = std::make_shared<Joining>();
  joining->api = slice.shared_api();
  joining->hccl = hccl;
  joining->id.assign(id, id + kHcclRootInfoBytes);
  std::thread thread([joining, device = slice.device(), rank, size, where] {
    JoinNow(joining, device, rank, size, where);
  });
  bool done = false;
  {
    std::unique_lock<std::mutex> lock(joining->mutex);
    done = joining->changed.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                                     [&] { return joining->done; });
    joining->abandoned = !done;
  }
  if (!done) {
    thread.detach();
    return absl::DeadlineExceededError(absl::StrCat("join the group: no sign of all ranks after ",
                                                    timeout_seconds, " s (", where, ")"));
  }
  thread.join();
  OC_RETURN_IF_ERROR(joining->status);
  return std::unique_ptr<Communicator>(new Communicator(slice, *hccl, joining->comm, rank, size));
}

Communicator::Communicator(AscendSlice& slice, const HcclApi& hccl, Comm comm, uint32_t rank,
                           uint32_t size)
    : slice_(slice),
      hccl_(hccl),
      comm_(comm),
      size_(size),
      where_(absl::StrCat("rank ", rank, " of ", size, ", ", slice.where())) {}

Communicator::~Communicator() {
  Status status = slice_.UseDevice();
  if (status.ok()) status = HcclStatus(hccl_.HcclCommDestroy(comm_), "HcclCommDestroy");
  if (!status.ok()) OC_LOG_WARNING(status.message());
}

Status Communicator::HcclStatus(int32_t result, const char* function) const {
  return slice_.api().HcclStatus(result, function, where_);
}

StatusOr<uint64_t> Communicator::Count(const BufferRange& range, DType dtype,
                                       const char* what) const {
  const int64_t size = SizeInBytes(dtype);
  if (range.bytes % size != 0) {
    return InvalidArgument(what, " of ", range.bytes, " bytes of ", Name(dtype), " (", where_, ")");
  }
  return static_cast<uint64_t>(range.bytes / size);
}

Status Communicator::CheckQueue(const AscendQueue& queue) const {
  if (&queue.slice() == &slice_) return OkStatus();
  return InvalidArgument("a collective on a queue of another slice (", where_, ")");
}

Status Communicator::Divide(AscendQueue& queue, const BufferRange& from, const BufferRange& to,
                            DType dtype) {
  if (!IsFloat(dtype)) {
    return Unimplemented("an average of ", Name(dtype), "; there is one of floats (", where_, ")");
  }
  Scaler& scaler = scalers_[{from.bytes, dtype}];
  if (scaler.op == nullptr) {
    static const std::shared_ptr<const OpRegistry> ops = BuiltinOps();
    const TensorType type{dtype, {from.bytes / SizeInBytes(dtype)}};
    OpRequest request{.def = ops->Find("scale"), .inputs = {type}, .outputs = {type}};
    request.attrs.Set("factor", 1.0 / size_);
    OC_ASSIGN_OR_RETURN(scaler.op, slice_.Prepare(request));
    OC_ASSIGN_OR_RETURN(scaler.workspace, slice_.Allocate(scaler.op->workspace_bytes()));
  }
  return queue.Enqueue(*scaler.op, std::span(&from, 1), std::span(&to, 1),
                       {scaler.workspace.get(), 0, scaler.op->workspace_bytes()});
}

// HCCL has no average: what it sums is divided before, so that narrow sums do not overflow.
Status Communicator::AllReduce(AscendQueue& queue, BufferRange from, BufferRange to, DType dtype,
                               Reduction reduction) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(from, dtype, "all-reduce"));
  if (to.bytes != from.bytes) {
    return InvalidArgument("all-reduce of ", from.bytes, " bytes to ", to.bytes, " (", where_, ")");
  }
  if (reduction == Reduction::kAverage) {
    OC_RETURN_IF_ERROR(Divide(queue, from, to, dtype));
    from = to;
  }
  return queue.EnqueueCollective(std::span(&from, 1), std::span(&to, 1), [&](Stream stream) {
    return HcclStatus(hccl_.HcclAllReduce(AddressOf(from), AddressOf(to), count, HcclType(dtype),
                                          HcclOp(reduction), comm_, stream),
                      "HcclAllReduce");
  });
}

Status Communicator::AllGather(AscendQueue& queue, BufferRange from, BufferRange to, DType dtype) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(from, dtype, "all-gather"));
  if (to.bytes != from.bytes * size_) {
    return InvalidArgument("all-gather of ", from.bytes, " bytes a rank to ", to.bytes, " (",
                           where_, ")");
  }
  return queue.EnqueueCollective(std::span(&from, 1), std::span(&to, 1), [&](Stream stream) {
    return HcclStatus(
        hccl_.HcclAllGather(AddressOf(from), AddressOf(to), count, HcclType(dtype), comm_, stream),
        "HcclAllGather");
  });
}

Status Communicator::ReduceScatter(AscendQueue& queue, BufferRange from, BufferRange to,
                                   DType dtype, Reduction reduction) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(to, dtype, "reduce-scatter"));
  if (from.bytes != to.bytes * size_) {
    return InvalidArgument("reduce-scatter of ", from.bytes, " bytes to ", to.bytes, " a rank (",
                           where_, ")");
  }
  OC_RETURN_IF_ERROR(
      queue.EnqueueCollective(std::span(&from, 1), std::span(&to, 1), [&](Stream stream) {
        return HcclStatus(
            hccl_.HcclReduceScatter(AddressOf(from), AddressOf(to), count, HcclType(dtype),
                                    HcclOp(reduction), comm_, stream),
            "HcclReduceScatter");
      }));
  // What is sent stays as it is, so the part received is divided.
  return reduction == Reduction::kAverage ? Divide(queue, to, to, dtype) : OkStatus();
}

Status Communicator::Broadcast(AscendQueue& queue, BufferRange data, DType dtype, uint32_t root) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(data, dtype, "broadcast"));
  return queue.EnqueueCollective({}, std::span(&data, 1), [&](Stream stream) {
    return HcclStatus(
        hccl_.HcclBroadcast(AddressOf(data), count, HcclType(dtype), root, comm_, stream),
        "HcclBroadcast");
  });
}

Status Communicator::Send(AscendQueue& queue, BufferRange from, DType dtype, uint32_t peer) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(from, dtype, "send"));
  return queue.EnqueueCollective(std::span(&from, 1), {}, [&](Stream stream) {
    return HcclStatus(hccl_.HcclSend(AddressOf(from), count, HcclType(dtype), peer, comm_, stream),
                      "HcclSend");
  });
}

Status Communicator::Recv(AscendQueue& queue, BufferRange to, DType dtype, uint32_t peer) {
  OC_RETURN_IF_ERROR(CheckQueue(queue));
  OC_ASSIGN_OR_RETURN(const uint64_t count, Count(to, dtype, "receive"));
  return queue.EnqueueCollective({}, std::span(&to, 1), [&](Stream stream) {
    return HcclStatus(hccl_.HcclRecv(AddressOf(to), count, HcclType(dtype), peer, comm_, stream),
                      "HcclRecv");
  });
}

Status Communicator::AsyncError() const {
  OC_RETURN_IF_ERROR(slice_.UseDevice());
  int32_t error = kHcclSuccess;
  OC_RETURN_IF_ERROR(
      HcclStatus(hccl_.HcclGetCommAsyncError(comm_, &error), "HcclGetCommAsyncError"));
  return HcclStatus(error, "the group");
}

}  // namespace oc::ascend
