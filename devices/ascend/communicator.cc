#include "openclaw/devices/ascend/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "openclaw/core/logging.h"

namespace oc::ascend {
namespace {

constexpr std::chrono::seconds kLeaving(60);
constexpr std::chrono::milliseconds kRetry(10);

// Of averages: elements that are divided at once, and how many sizes of rests are kept ready.
constexpr int64_t kPart = int64_t{1} << 20;
constexpr size_t kMostScalers = 64;
// Two copies of a part in f32, and some for the operators.
constexpr int64_t kDivideBytes = 2 * kPart * 4 + (int64_t{1} << 16);

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
  const auto deadline = std::chrono::steady_clock::now() + kLeaving;
  Status status = End(deadline);
  if (absl::IsDeadlineExceeded(status)) {
    // Calls that still run may use them.
    for (auto& [stream, used] : used_) (void)used.workspace.release();
    for (auto& [key, op] : scalers_) (void)op.release();
  } else {
    status = Destroy(deadline);
  }
  if (!status.ok()) OC_LOG_WARNING("leave the group: ", status.message());
}

Status Communicator::End(std::chrono::steady_clock::time_point deadline) const {
  for (const auto& [raw, used] : used_) {
    const auto stream = used.stream.lock();
    if (stream == nullptr) continue;  // a queue ends its work before it goes
    const Status ended = stream->Synchronize(deadline);
    if (absl::IsDeadlineExceeded(ended)) return Annotate(ended, where_);
  }
  return OkStatus();
}

Status Communicator::Destroy(std::chrono::steady_clock::time_point deadline) {
  OC_RETURN_IF_ERROR(slice_.UseDevice());
  while (true) {
    const int32_t result = hccl_.HcclCommDestroy(comm_);
    if (result != kHcclAgain || std::chrono::steady_clock::now() >= deadline) {
      return HcclStatus(result, "HcclCommDestroy");
    }
    std::this_thread::sleep_for(kRetry);
  }
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

Status Communicator::CheckQueue(const AscendQueue& queue) {
  if (&queue.slice() != &slice_) {
    return InvalidArgument("a collective on a queue of another slice (", where_, ")");
  }
  const OwnedStream* key = queue.stream().get();
  if (const auto found = used_.find(key); found != used_.end() && !found->second.stream.expired()) {
    return OkStatus();
  }
  // Those that are gone have ended, and another may lie where one was.
  std::erase_if(used_, [](const auto& entry) { return entry.second.stream.expired(); });
  used_[key].stream = queue.stream();
  return OkStatus();
}

StatusOr<PreparedOp*> Communicator::Scaler(int64_t count, DType dtype) {
  if (scalers_.size() >= kMostScalers && !scalers_.contains({count, dtype})) {
    OC_RETURN_IF_ERROR(End(std::chrono::steady_clock::now() + kLeaving));
    scalers_.clear();
  }
  std::unique_ptr<PreparedOp>& scaler = scalers_[{count, dtype}];
  if (scaler == nullptr) {
    static const std::shared_ptr<const OpRegistry> ops = BuiltinOps();
    const TensorType type{dtype, {count}};
    OpRequest request{.def = ops->Find("scale"), .inputs = {type}, .outputs = {type}};
    request.attrs.Set("factor", 1.0 / size_);
    OC_ASSIGN_OR_RETURN(scaler, slice_.Prepare(request));
  }
  return scaler.get();
}

Status Communicator::Divide(AscendQueue& queue, const BufferRange& from, const BufferRange& to,
                            DType dtype) {
  if (!IsFloat(dtype)) {
    return Unimplemented("an average of ", Name(dtype), "; there is one of floats (", where_, ")");
  }
  std::unique_ptr<Buffer>& workspace = used_[queue.stream().get()].workspace;
  const int64_t part = kPart * SizeInBytes(dtype);
  for (int64_t begin = 0; begin < from.bytes; begin += part) {
    const int64_t bytes = std::min(part, from.bytes - begin);
    OC_ASSIGN_OR_RETURN(PreparedOp * scaler, Scaler(bytes / SizeInBytes(dtype), dtype));
    const int64_t wanted = scaler->workspace_bytes();
    if (wanted > 0 && (workspace == nullptr || workspace->bytes() < wanted)) {
      workspace.reset();
      OC_ASSIGN_OR_RETURN(workspace, slice_.Allocate(std::max(kDivideBytes, wanted)));
    }
    const BufferRange in{from.buffer, from.offset + begin, bytes};
    const BufferRange out{to.buffer, to.offset + begin, bytes};
    OC_RETURN_IF_ERROR(queue.Enqueue(*scaler, std::span(&in, 1), std::span(&out, 1),
                                     {workspace.get(), 0, wanted}));
  }
  return OkStatus();
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
