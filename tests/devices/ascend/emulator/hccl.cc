// libhccl.so: groups of ranks within this process, which meet on their streams.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "memory.h"
#include "operators.h"
#include "streams.h"

struct HcclRootInfoDef {
  char internal[oc::ascend::kHcclRootInfoBytes];
};

namespace ascend_emulator {
namespace {

// hccl, HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT: what waits for ranks gives up.
constexpr std::chrono::seconds kPatience(20);

// What one rank brings to a meeting: the call, so that unlike calls are found, and its data.
struct Call {
  std::string what;
  std::vector<std::byte> data;
};

class Group {
 public:
  explicit Group(uint32_t size) : size_(size) {}
  uint32_t size() const { return size_; }

  // Waits until all have joined. hccl, HcclCommInitRootInfo: each rank once, each on a device of
  // its own.
  int32_t Join(uint32_t rank, int device) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (rank >= size_ || !ranks_.insert(rank).second || !devices_.insert(device).second) {
      return Fail(kHcclParameter, "HcclCommInitRootInfo: a rank or a device twice");
    }
    changed_.notify_all();
    const bool all = changed_.wait_for(lock, kPatience, [&] { return ranks_.size() == size_; });
    return all ? kHcclSuccess : Fail(kHcclTimeout, "HcclCommInitRootInfo: a rank is missing");
  }

  // All ranks' calls, once each has come. On streams' threads.
  int32_t Meet(uint32_t rank, Call call, std::vector<Call>& all) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t round = rounds_[rank]++;
    auto& calls = meetings_[round];
    calls.resize(size_);
    calls[rank] = std::move(call);
    ++arrived_[round];
    changed_.notify_all();
    if (!changed_.wait_for(lock, kPatience, [&] { return arrived_[round] == size_; })) {
      error_ = kHcclTimeout;
      return kHcclTimeout;
    }
    all = meetings_[round];
    for (const Call& c : all) {
      if (c.what != all[0].what) error_ = kHcclParameter;
    }
    if (++left_[round] == size_) {
      meetings_.erase(round);
      arrived_.erase(round);
      left_.erase(round);
    }
    return error_;
  }

  void Post(uint32_t from, uint32_t to, Call call) {
    std::lock_guard<std::mutex> lock(mutex_);
    mail_[{from, to}].push_back(std::move(call));
    changed_.notify_all();
  }
  int32_t Take(uint32_t from, uint32_t to, Call& call) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& box = mail_[{from, to}];
    if (!changed_.wait_for(lock, kPatience, [&] { return !box.empty(); })) {
      error_ = kHcclTimeout;
      return kHcclTimeout;
    }
    call = std::move(box.front());
    box.pop_front();
    return kHcclSuccess;
  }

  int32_t error() {
    std::lock_guard<std::mutex> lock(mutex_);
    return error_;
  }

 private:
  const uint32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint32_t> ranks_;
  std::set<int> devices_;
  std::map<uint32_t, int64_t> rounds_;
  std::map<int64_t, std::vector<Call>> meetings_;
  std::map<int64_t, uint32_t> arrived_, left_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Call>> mail_;
  int32_t error_ = kHcclSuccess;
};

struct Communicator {
  std::shared_ptr<Group> group;
  uint32_t rank = 0;
  int device = 0;
  std::atomic<int> pending{0};  // calls that have not ended
};

struct Registry {
  std::mutex mutex;
  uint64_t next_id = 1;
  std::map<uint64_t, std::shared_ptr<Group>> groups;  // null until the first rank joins
  std::map<void*, std::shared_ptr<Communicator>> communicators;
};
Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

std::shared_ptr<Communicator> Find(void* handle) {
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.communicators.find(handle);
  return found == r.communicators.end() ? nullptr : found->second;
}

int32_t AclType(int32_t hccl_type) {
  switch (hccl_type) {
    case kHcclInt32:
      return kAclInt32;
    case kHcclFp16:
      return kAclFloat16;
    case kHcclFp32:
      return kAclFloat;
    case kHcclInt64:
      return kAclInt64;
    case kHcclUint8:
      return kAclUint8;
    case kHcclFp64:
      return kAclDouble;
    case kHcclBf16:
      return kAclBf16;
    default:
      return -1;
  }
}

// A call that a rank makes on a stream.
struct Request {
  const char* what;
  void* from = nullptr;
  size_t from_bytes = 0;
  void* to = nullptr;
  size_t to_bytes = 0;
  int32_t dtype = 0;
  int32_t op = -1;  // of a reduction
};

// What all calls check; null where one fails, and `status` says so.
struct Ready {
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<EmulatedStream> stream;
};

int32_t Check(const Request& r, void* comm, void* stream, Ready& ready) {
  if (const int32_t fault = FaultOf("ASCEND_EMULATOR_HCCL_FAULT"); fault != kHcclSuccess) {
    return Fail(fault, std::string(r.what) + ": a fault");
  }
  ready.comm = Find(comm);
  if (ready.comm == nullptr) return Fail(kHcclPointer, std::string(r.what) + ": no communicator");
  int32_t status = kAclSuccess;
  ready.stream = UsableStream(r.what, stream, &status);
  if (ready.stream == nullptr) return kHcclParameter;
  if (ready.stream->device() != ready.comm->device) {
    return Fail(kHcclParameter, std::string(r.what) + ": a stream of another device");
  }
  if (AclType(r.dtype) < 0) return Fail(kHcclNotSupported, std::string(r.what) + ": the type");
  if (r.op >= 0) {
    // hccl, HcclReduceOp: sum, product, max, min. There is no average.
    if (r.op > kHcclMin) return Fail(kHcclParameter, std::string(r.what) + ": the reduction");
    // hccl, HcclAllReduce: neither uint8 nor fp64.
    if (r.dtype == kHcclUint8 || r.dtype == kHcclFp64) {
      return Fail(kHcclNotSupported, std::string(r.what) + ": the type of a reduction");
    }
  }
  for (const auto& [address, bytes] : {std::pair(r.from, r.from_bytes), {r.to, r.to_bytes}}) {
    if (bytes > 0 && ascend_emulator::Find(address, bytes).block == nullptr) {
      return Fail(kHcclParameter, std::string(r.what) + ": not device memory");
    }
  }
  return kHcclSuccess;
}

// Pushes the call, which is pending until it has run.
void Push(const Ready& ready, std::function<int32_t(Communicator&)> call) {
  ++ready.comm->pending;
  ready.stream->Push([c = ready.comm, call = std::move(call)] {
    const int32_t status = call(*c);
    --c->pending;
    return status;
  });
}

bool Read(const void* from, size_t bytes, std::vector<std::byte>& data) {
  const Piece piece = ascend_emulator::Find(from, bytes);
  if (piece.block == nullptr) return false;
  data.assign(piece.data, piece.data + bytes);
  return true;
}

bool Write(void* to, const std::byte* data, size_t bytes) {
  const Piece piece = ascend_emulator::Find(to, bytes);
  if (piece.block == nullptr) return false;
  std::memcpy(piece.data, data, bytes);
  return true;
}

// Of `count` elements of all ranks that begin at `offset` elements.
std::vector<std::byte> Reduced(std::vector<Call>& all, size_t offset, size_t count, int32_t dtype,
                               int32_t op) {
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> result(count * size);
  const View to{dtype, {}, {}, result.data()};
  for (size_t i = 0; i < count; ++i) {
    double value = 0;
    for (size_t r = 0; r < all.size(); ++r) {
      const View from{dtype, {}, {}, all[r].data.data()};
      const double x = Load(from, static_cast<int64_t>(offset + i));
      if (r == 0) {
        value = x;
      } else if (op == kHcclSum) {
        value += x;
      } else if (op == kHcclProduct) {
        value *= x;
      } else {
        value = op == kHcclMax ? std::max(value, x) : std::min(value, x);
      }
    }
    Store(to, static_cast<int64_t>(i), value);
  }
  return result;
}

// Pushes a meeting of all ranks; `finish` makes this rank's output of all their data.
int32_t PushMeeting(const Request& r, void* comm, void* stream,
                    std::function<std::vector<std::byte>(std::vector<Call>&)> finish) {
  Ready ready;
  if (const int32_t status = Check(r, comm, stream, ready); status != kHcclSuccess) return status;
  if (r.to_bytes == 0 && r.from_bytes == 0) return kHcclSuccess;
  Push(ready, [r, finish = std::move(finish)](Communicator& c) -> int32_t {
    Call call{std::string(r.what) + std::to_string(r.from_bytes) + "/" + std::to_string(r.dtype),
              {}};
    if (!Read(r.from, r.from_bytes, call.data)) return kRtAicoreException;
    std::vector<Call> all;
    if (c.group->Meet(c.rank, std::move(call), all) != kHcclSuccess) return kRtDrvInternalError;
    const std::vector<std::byte> result = finish(all);
    return Write(r.to, result.data(), result.size()) ? kAclSuccess : kRtAicoreException;
  });
  return kHcclSuccess;
}

size_t SizeOfHccl(int32_t dtype) { return AclType(dtype) < 0 ? 0 : SizeOf(AclType(dtype)); }

}  // namespace

EMULATOR_EXPORT int32_t HcclGetRootInfo(HcclRootInfoDef* info) {
  if (const int32_t status = CheckThread("HcclGetRootInfo"); status != 0) return kHcclInternal;
  if (info == nullptr) return Fail(kHcclPointer, "HcclGetRootInfo: null");
  std::memset(info, 0, sizeof(*info));
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const uint64_t id = r.next_id++;
  r.groups[id] = nullptr;
  // All of its bytes count: whoever passes fewer on is found out.
  std::memcpy(info->internal, &id, sizeof(id));
  std::memcpy(info->internal + sizeof(*info) - sizeof(id), &id, sizeof(id));
  return kHcclSuccess;
}

EMULATOR_EXPORT int32_t HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfoDef* info,
                                             uint32_t rank, void** comm) {
  if (const int32_t status = CheckThread("HcclCommInitRootInfo"); status != 0) return kHcclInternal;
  if (info == nullptr || comm == nullptr) return Fail(kHcclPointer, "HcclCommInitRootInfo: null");
  uint64_t id = 0, again = 0;
  std::memcpy(&id, info->internal, sizeof(id));
  std::memcpy(&again, info->internal + sizeof(*info) - sizeof(id), sizeof(id));
  std::shared_ptr<Group> group;
  Registry& r = TheRegistry();
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    const auto found = r.groups.find(id);
    if (id != again || found == r.groups.end()) {
      return Fail(kHcclParameter, "HcclCommInitRootInfo: not what HcclGetRootInfo gave");
    }
    if (found->second == nullptr) found->second = std::make_shared<Group>(ranks);
    group = found->second;
  }
  // hccl, HcclCommInitRootInfo: nRanks is the same on all ranks.
  if (group->size() != ranks) return Fail(kHcclParameter, "HcclCommInitRootInfo: nRanks differ");
  if (const int32_t status = group->Join(rank, CurrentDevice()); status != 0) return status;
  auto made = std::make_shared<Communicator>(group, rank, CurrentDevice());
  std::lock_guard<std::mutex> lock(r.mutex);
  *comm = made.get();
  r.communicators[made.get()] = std::move(made);
  return kHcclSuccess;
}

EMULATOR_EXPORT int32_t HcclCommDestroy(void* comm) {
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.communicators.find(comm);
  if (found == r.communicators.end()) return Fail(kHcclPointer, "HcclCommDestroy: no such");
  if (found->second->pending > 0) return Fail(kHcclAgain, "HcclCommDestroy: it is in use");
  r.communicators.erase(found);
  return kHcclSuccess;
}

EMULATOR_EXPORT int32_t HcclGetCommAsyncError(void* comm, int32_t* error) {
  const auto c = Find(comm);
  if (c == nullptr || error == nullptr) return Fail(kHcclPointer, "HcclGetCommAsyncError: no such");
  *error = c->group->error();
  return kHcclSuccess;
}

EMULATOR_EXPORT int32_t HcclAllReduce(void* from, void* to, uint64_t count, int32_t dtype,
                                      int32_t op, void* comm, void* stream) {
  const size_t bytes = count * SizeOfHccl(dtype);
  return PushMeeting({"HcclAllReduce", from, bytes, to, bytes, dtype, op}, comm, stream,
                     [count, dtype, op](std::vector<Call>& all) {
                       return Reduced(all, 0, count, AclType(dtype), op);
                     });
}

// `count` is what one rank sends.
EMULATOR_EXPORT int32_t HcclAllGather(void* from, void* to, uint64_t count, int32_t dtype,
                                      void* comm, void* stream) {
  const auto c = Find(comm);
  const size_t bytes = count * SizeOfHccl(dtype), ranks = c == nullptr ? 0 : c->group->size();
  return PushMeeting({"HcclAllGather", from, bytes, to, bytes * ranks, dtype}, comm, stream,
                     [](std::vector<Call>& all) {
                       std::vector<std::byte> result;
                       for (const Call& call : all) {
                         result.insert(result.end(), call.data.begin(), call.data.end());
                       }
                       return result;
                     });
}

// `count` is what one rank receives.
EMULATOR_EXPORT int32_t HcclReduceScatter(void* from, void* to, uint64_t count, int32_t dtype,
                                          int32_t op, void* comm, void* stream) {
  const auto c = Find(comm);
  const size_t bytes = count * SizeOfHccl(dtype), ranks = c == nullptr ? 0 : c->group->size();
  const size_t begin = c == nullptr ? 0 : c->rank * count;
  return PushMeeting({"HcclReduceScatter", from, bytes * ranks, to, bytes, dtype, op}, comm, stream,
                     [count, dtype, op, begin](std::vector<Call>& all) {
                       return Reduced(all, begin, count, AclType(dtype), op);
                     });
}

EMULATOR_EXPORT int32_t HcclBroadcast(void* data, uint64_t count, int32_t dtype, uint32_t root,
                                      void* comm, void* stream) {
  const auto c = Find(comm);
  if (c != nullptr && root >= c->group->size()) return Fail(kHcclParameter, "HcclBroadcast: root");
  const size_t bytes = count * SizeOfHccl(dtype);
  return PushMeeting({"HcclBroadcast", data, bytes, data, bytes, dtype}, comm, stream,
                     [root](std::vector<Call>& all) { return all[root].data; });
}

EMULATOR_EXPORT int32_t HcclSend(void* from, uint64_t count, int32_t dtype, uint32_t peer,
                                 void* comm, void* stream) {
  const size_t bytes = count * SizeOfHccl(dtype);
  Ready ready;
  const int32_t status = Check({"HcclSend", from, bytes, nullptr, 0, dtype}, comm, stream, ready);
  if (status != kHcclSuccess) return status;
  if (peer >= ready.comm->group->size() || peer == ready.comm->rank) {
    return Fail(kHcclParameter, "HcclSend: peer");
  }
  Push(ready, [from, bytes, peer](Communicator& c) -> int32_t {
    Call call;
    if (!Read(from, bytes, call.data)) return kRtAicoreException;
    c.group->Post(c.rank, peer, std::move(call));
    return kAclSuccess;
  });
  return kHcclSuccess;
}

EMULATOR_EXPORT int32_t HcclRecv(void* to, uint64_t count, int32_t dtype, uint32_t peer, void* comm,
                                 void* stream) {
  const size_t bytes = count * SizeOfHccl(dtype);
  Ready ready;
  const int32_t status = Check({"HcclRecv", nullptr, 0, to, bytes, dtype}, comm, stream, ready);
  if (status != kHcclSuccess) return status;
  if (peer >= ready.comm->group->size() || peer == ready.comm->rank) {
    return Fail(kHcclParameter, "HcclRecv: peer");
  }
  Push(ready, [to, bytes, peer](Communicator& c) -> int32_t {
    Call call;
    if (c.group->Take(peer, c.rank, call) != kHcclSuccess || call.data.size() != bytes) {
      return kRtDrvInternalError;
    }
    return Write(to, call.data.data(), bytes) ? kAclSuccess : kRtAicoreException;
  });
  return kHcclSuccess;
}

}  // namespace ascend_emulator
