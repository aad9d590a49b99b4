// StepExecutor: transfers, and what the host looks at.
#include <cmath>
#include <cstring>

#include "openclaw/comm/all_gather.h"
#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/reduce_scatter.h"
#include "openclaw/runtime/executor_internal.h"

namespace oc {

StatusOr<std::span<std::byte>> StepExecutor::HostBytes(VcuState& v, int lane, const Range& range,
                                                       bool read) {
  const std::span<std::byte> view = v.vcu->view(range);
  if (!view.empty() || range.bytes == 0) return view;
  std::unique_ptr<HostMemory>& staging = v.staging[lane];
  const auto wanted = static_cast<size_t>(range.bytes);
  if (staging == nullptr || staging->bytes().size() < wanted) {
    OC_ASSIGN_OR_RETURN(staging, v.vcu->slice().AllocateHost(range.bytes));
  }
  const std::span<std::byte> bytes = staging->bytes().first(wanted);
  if (read) {
    OC_RETURN_IF_ERROR(v.queues[lane]->CopyToHost(bytes, v.vcu->range(range)));
    OC_RETURN_IF_ERROR(Synchronize(v, lane));
  }
  return bytes;
}

Status StepExecutor::WriteBack(VcuState& v, int lane, const Range& range,
                               std::span<std::byte> bytes) {
  const std::unique_ptr<HostMemory>& staging = v.staging[lane];
  if (staging == nullptr || bytes.data() != staging->bytes().data()) return OkStatus();
  OC_RETURN_IF_ERROR(v.queues[lane]->CopyFromHost(v.vcu->range(range), bytes));
  return Synchronize(v, lane);
}

// The elements travel in the graph's type; the epoch keeps messages of different executors over one
// transport apart.
Status StepExecutor::RunSend(VcuState& v, int lane, const Command& c) {
  OC_ASSIGN_OR_RETURN(std::span<std::byte> bytes, HostBytes(v, lane, c.reads[0], /*read=*/true));
  if (c.wire != c.dtype) {
    std::vector<std::byte>& wire = v.scratch[lane];
    wire.resize(static_cast<size_t>(WireBytes(c, c.reads[0])));
    ConvertFloats(c.dtype, bytes.data(), c.wire, wire.data(),
                  c.reads[0].bytes / SizeInBytes(c.dtype));
    bytes = wire;
  }
  return v.vcu->transport()->Send(c.peer, c.tag + (options_.epoch << 40), bytes,
                                  options_.timeout_seconds);
}

Status StepExecutor::RunRecv(VcuState& v, int lane, const Command& c) {
  OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, c.writes[0], /*read=*/false));
  std::span<std::byte> wire = bytes;
  if (c.wire != c.dtype) {
    v.scratch[lane].resize(static_cast<size_t>(WireBytes(c, c.writes[0])));
    wire = v.scratch[lane];
  }
  OC_RETURN_IF_ERROR(v.vcu->transport()->Recv(c.peer, c.tag + (options_.epoch << 40), wire,
                                              options_.timeout_seconds));
  if (c.wire != c.dtype) {
    ConvertFloats(c.wire, wire.data(), c.dtype, bytes.data(),
                  c.writes[0].bytes / SizeInBytes(c.dtype));
  }
  return WriteBack(v, lane, c.writes[0], bytes);
}

// Puts the own piece of what is gathered where the others' will be.
Status StepExecutor::PlaceOwnPiece(VcuState& v, int lane, const Command& c,
                                   std::span<std::byte> data) {
  if (c.reads.empty()) return OkStatus();
  const int member = v.groups[c.group]->rank();
  const std::span<std::byte> own =
      data.subspan(static_cast<size_t>(c.pieces[member]) * SizeInBytes(c.dtype),
                   static_cast<size_t>(c.reads[0].bytes));
  const std::span<std::byte> from = v.vcu->view(c.reads[0]);
  if (from.empty()) {
    OC_RETURN_IF_ERROR(v.queues[lane]->CopyToHost(own, v.vcu->range(c.reads[0])));
    return Synchronize(v, lane);
  }
  if (own.data() != from.data()) std::memcpy(own.data(), from.data(), own.size());
  return OkStatus();
}

Status StepExecutor::RunCollective(VcuState& v, int lane, const Command& c) {
  const bool gathers = c.op == CollectiveOp::kAllGather;
  OC_ASSIGN_OR_RETURN(const auto data, HostBytes(v, lane, c.writes[0], /*read=*/!gathers));
  std::span<std::byte> scratch;
  if (c.writes.size() > 1) {
    scratch = v.vcu->view(c.writes[1]);
    if (scratch.empty() && c.writes[1].bytes > 0) {
      std::vector<std::byte>& own = v.scratch[lane];
      if (own.size() < static_cast<size_t>(c.writes[1].bytes)) own.resize(c.writes[1].bytes);
      scratch = {own.data(), static_cast<size_t>(c.writes[1].bytes)};
    }
  }
  Group& group = *v.groups[c.group];
  switch (c.op) {
    case CollectiveOp::kAllReduce:
      OC_RETURN_IF_ERROR(AllReduceInPlace(
          group, {.bytes = data, .dtype = c.dtype, .scratch = scratch, .pieces = c.pieces}));
      break;
    case CollectiveOp::kReduceScatter:
      OC_RETURN_IF_ERROR(ReduceScatter(
          group, {.bytes = data, .dtype = c.dtype, .scratch = scratch, .pieces = c.pieces}));
      break;
    case CollectiveOp::kAllGather:
      OC_RETURN_IF_ERROR(PlaceOwnPiece(v, lane, c, data));
      OC_RETURN_IF_ERROR(AllGather(group, {.bytes = data, .dtype = c.dtype, .pieces = c.pieces}));
      break;
  }
  return WriteBack(v, lane, c.writes[0], data);
}

Status StepExecutor::RunCopy(VcuState& v, int lane, const Command& c) {
  const Range &from = c.reads[0], &to = c.writes[0];
  if (from.arena == Arena::kFile) {
    OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, to, /*read=*/false));
    OC_RETURN_IF_ERROR(v.vcu->Read(bytes, from));
    return WriteBack(v, lane, to, bytes);
  }
  if (to.arena == Arena::kFile) {
    OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, from, /*read=*/true));
    return v.vcu->Write(to, bytes);
  }
  Queue& queue = *v.queues[lane];
  if (from.arena == Arena::kHost) {
    OC_RETURN_IF_ERROR(queue.CopyFromHost(v.vcu->range(to), v.vcu->view(from)));
  } else if (to.arena == Arena::kHost) {
    OC_RETURN_IF_ERROR(queue.CopyToHost(v.vcu->view(to), v.vcu->range(from)));
  } else {
    OC_RETURN_IF_ERROR(queue.Copy(v.vcu->range(to), v.vcu->range(from)));
  }
  return Synchronize(v, lane);
}

Status StepExecutor::CheckCall(VcuState& v, int lane, int index, const Call& call, bool outputs) {
  if (v.non_finite.has_value()) return OkStatus();
  const Command& c = v.program->commands[index];
  const Segment& segment = v.program->segments[c.segment];
  const std::vector<int>& slots = outputs ? call.outputs : call.inputs;
  const std::vector<TensorType>& types = outputs ? call.output_types : call.input_types;
  OC_RETURN_IF_ERROR(Synchronize(v, lane));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!IsFloat(types[i].dtype) || (outputs && HasOutput(call.def->opaque_outputs, i))) continue;
    OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, c.slots[slots[i]], /*read=*/true));
    const int64_t n = types[i].shape.num_elements();
    int64_t bad = 0;
    while (bad < n && std::isfinite(LoadElement(types[i].dtype, bytes.data(), bad))) ++bad;
    if (bad == n) continue;
    std::string read;  // parameters and data by name
    for (int slot : call.inputs) {
      const std::string& name = segment.slots[slot].name;
      if (name.find_first_not_of("0123456789") != std::string::npos) {
        absl::StrAppend(&read, read.empty() ? "" : ", ", name);
      }
    }
    v.non_finite = NonFinite{
        v.vcu->index(), index,
        absl::StrCat(outputs ? "output " : "input ", i, " ", types[i].ToString(), " of op ",
                     call.def->name, call.scope.empty() ? "" : absl::StrCat(" in ", call.scope),
                     read.empty() ? "" : absl::StrCat(", which reads ", read), ", element ", bad,
                     " is ", LoadElement(types[i].dtype, bytes.data(), bad))};
    return OkStatus();
  }
  return OkStatus();
}

StatusOr<std::vector<NonFinite>> StepExecutor::FindNonFinite(StepHost& host) {
  for (auto& v : vcus_) v->non_finite.reset();
  checking_ = true;
  const Status ran = Run(host);
  checking_ = false;
  OC_RETURN_IF_ERROR(ran);
  std::vector<NonFinite> found;
  for (auto& v : vcus_) {
    if (v->non_finite.has_value()) found.push_back(*v->non_finite);
  }
  return found;
}

}  // namespace oc
