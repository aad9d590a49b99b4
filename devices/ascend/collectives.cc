#include "openclaw/devices/ascend/collectives.h"

#include "openclaw/devices/ascend/communicator.h"
#include "openclaw/devices/export.h"

namespace oc::ascend {
namespace {

AscendSlice& Of(oc_slice* slice) { return static_cast<AscendSlice&>(SliceOf(slice)); }
AscendQueue& Of(oc_queue* queue) { return static_cast<AscendQueue&>(QueueOf(queue)); }
Communicator& Of(oc_communicator* c) { return *reinterpret_cast<Communicator*>(c); }

StatusOr<DType> TypeOf(int32_t dtype) {
  if (dtype >= OC_F32 && dtype <= OC_BOOL) return static_cast<DType>(dtype);
  return Unimplemented("collective of element type ", dtype, ", which is not known");
}

StatusOr<DType> ReducibleTypeOf(int32_t dtype) {
  OC_ASSIGN_OR_RETURN(const DType type, TypeOf(dtype));
  if (Reduces(type)) return type;
  return Unimplemented("HCCL does not reduce ", Name(type), "; it does f32, f16, bf16, i32, i64");
}

StatusOr<Reduction> ReductionOf(int32_t reduction) {
  switch (reduction) {
    case OC_REDUCE_SUM:
      return Reduction::kSum;
    case OC_REDUCE_MAX:
      return Reduction::kMax;
    case OC_REDUCE_AVERAGE:
      return Reduction::kAverage;
    default:
      return InvalidArgument("reduction ", reduction, " is not known");
  }
}

int32_t Capabilities(oc_slice*, int32_t dtype, uint64_t* collectives, uint64_t* reductions,
                     oc_error* error) {
  const auto type = TypeOf(dtype);
  if (!type.ok()) return GiveStatus(type.status(), error);
  *collectives = OC_COLLECTIVE_ALL_GATHER | OC_COLLECTIVE_BROADCAST | OC_COLLECTIVE_SEND_RECV;
  *reductions = 0;
  if (Reduces(*type)) {
    *collectives |= OC_COLLECTIVE_ALL_REDUCE | OC_COLLECTIVE_REDUCE_SCATTER;
    *reductions = 1u << OC_REDUCE_SUM | 1u << OC_REDUCE_MAX;
    if (IsFloat(*type)) *reductions |= 1u << OC_REDUCE_AVERAGE;
  }
  return OC_OK;
}

int32_t IdBytes(oc_slice*, int64_t* bytes, oc_error*) {
  *bytes = kHcclRootInfoBytes;
  return OC_OK;
}

int32_t MakeId(oc_slice* slice, uint8_t* id, oc_error* error) {
  return GiveStatus(Communicator::MakeId(Of(slice), id), error);
}

int32_t Join(oc_slice* slice, const uint8_t* id, int32_t rank, int32_t size, double timeout_seconds,
             oc_communicator** out, oc_error* error) {
  if (size < 1 || rank < 0 || rank >= size) {
    return GiveStatus(InvalidArgument("join as rank ", rank, " of ", size), error);
  }
  auto joined = Communicator::Join(Of(slice), id, static_cast<uint32_t>(rank),
                                   static_cast<uint32_t>(size), timeout_seconds);
  if (!joined.ok()) return GiveStatus(joined.status(), error);
  *out = reinterpret_cast<oc_communicator*>(joined->release());
  return OC_OK;
}

void Leave(oc_communicator* c) { delete reinterpret_cast<Communicator*>(c); }

int32_t AsyncError(oc_communicator* c, oc_error* error) {
  return GiveStatus(Of(c).AsyncError(), error);
}

Status Reduce(oc_communicator* c, oc_queue* queue, const oc_range* from, const oc_range* to,
              int32_t dtype, int32_t reduction, bool scatter) {
  OC_ASSIGN_OR_RETURN(const DType type, ReducibleTypeOf(dtype));
  OC_ASSIGN_OR_RETURN(const Reduction how, ReductionOf(reduction));
  return scatter ? Of(c).ReduceScatter(Of(queue), RangeOf(*from), RangeOf(*to), type, how)
                 : Of(c).AllReduce(Of(queue), RangeOf(*from), RangeOf(*to), type, how);
}

int32_t AllReduce(oc_communicator* c, oc_queue* queue, const oc_range* from, const oc_range* to,
                  int32_t dtype, int32_t reduction, oc_error* error) {
  return GiveStatus(Reduce(c, queue, from, to, dtype, reduction, false), error);
}

int32_t ReduceScatter(oc_communicator* c, oc_queue* queue, const oc_range* from, const oc_range* to,
                      int32_t dtype, int32_t reduction, oc_error* error) {
  return GiveStatus(Reduce(c, queue, from, to, dtype, reduction, true), error);
}

int32_t AllGather(oc_communicator* c, oc_queue* queue, const oc_range* from, const oc_range* to,
                  int32_t dtype, oc_error* error) {
  const auto type = TypeOf(dtype);
  if (!type.ok()) return GiveStatus(type.status(), error);
  return GiveStatus(Of(c).AllGather(Of(queue), RangeOf(*from), RangeOf(*to), *type), error);
}

int32_t Broadcast(oc_communicator* c, oc_queue* queue, const oc_range* data, int32_t dtype,
                  int32_t root, oc_error* error) {
  const auto type = TypeOf(dtype);
  if (!type.ok()) return GiveStatus(type.status(), error);
  return GiveStatus(Of(c).Broadcast(Of(queue), RangeOf(*data), *type, static_cast<uint32_t>(root)),
                    error);
}

int32_t Send(oc_communicator* c, oc_queue* queue, const oc_range* from, int32_t dtype, int32_t peer,
             oc_error* error) {
  const auto type = TypeOf(dtype);
  if (!type.ok()) return GiveStatus(type.status(), error);
  return GiveStatus(Of(c).Send(Of(queue), RangeOf(*from), *type, static_cast<uint32_t>(peer)),
                    error);
}

int32_t Recv(oc_communicator* c, oc_queue* queue, const oc_range* to, int32_t dtype, int32_t peer,
             oc_error* error) {
  const auto type = TypeOf(dtype);
  if (!type.ok()) return GiveStatus(type.status(), error);
  return GiveStatus(Of(c).Recv(Of(queue), RangeOf(*to), *type, static_cast<uint32_t>(peer)), error);
}

}  // namespace

// HCCL has no call that ends what is pending, and its groups of calls are experimental.
const oc_collective_api* CollectiveTable() {
  static const oc_collective_api table = [] {
    oc_collective_api t{};
    t.struct_size = sizeof(t);
    t.capabilities = Capabilities;
    t.id_bytes = IdBytes;
    t.make_id = MakeId;
    t.join = Join;
    t.leave = Leave;
    t.async_error = AsyncError;
    t.all_reduce = AllReduce;
    t.all_gather = AllGather;
    t.reduce_scatter = ReduceScatter;
    t.broadcast = Broadcast;
    t.send = Send;
    t.recv = Recv;
    return t;
  }();
  return &table;
}

}  // namespace oc::ascend
