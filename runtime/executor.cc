#include "openclaw/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "openclaw/comm/all_gather.h"
#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/reduce_scatter.h"
#include "openclaw/core/clock.h"
#include "openclaw/devices/call_watch.h"

namespace oc {
namespace {

constexpr int kSpins = 200;  // then the thread sleeps: other lanes need the core

// Waits until the word is `wanted`.
void Await(const std::atomic<uint32_t>& word, uint32_t wanted) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) == wanted) return;
    __builtin_ia32_pause();
  }
  for (;;) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now == wanted) return;
    word.wait(now, std::memory_order_acquire);
  }
}

struct PreparedCall {
  PreparedOp* op = nullptr;
  std::vector<int> inputs, outputs;  // slots
  int workspace = kNone;
};

struct BoundCall {
  PreparedOp* op = nullptr;
  const BufferRange* inputs = nullptr;
  const BufferRange* outputs = nullptr;
  size_t num_inputs = 0, num_outputs = 0;
  BufferRange workspace;
};

struct CommandState {
  std::atomic<uint32_t> done{0};  // the number of the step in which it last ended
  bool skipped = false;
  int64_t begin_nanos = 0, end_nanos = 0;
  std::vector<BoundCall> calls;
  std::vector<BufferRange> ranges;  // what the calls point into
};

// One VCU of this process.
struct VcuState {
  Vcu* vcu = nullptr;
  const VcuProgram* program = nullptr;
  std::vector<std::vector<int>> lane_commands;
  std::vector<CommandState> commands;
  std::vector<std::vector<PreparedCall>> segments;
  std::map<std::string, std::unique_ptr<PreparedOp>> prepared;  // by cost key
  std::vector<std::vector<std::byte>> staging;  // per lane: where memory is not the host's
  std::vector<std::vector<std::byte>> scratch;  // the same, of collectives; messages as they travel
  std::optional<NonFinite> non_finite;          // what FindNonFinite met first
  // Per lane. Behind all that their work uses: it ends when they go, also after a timeout.
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Group>> groups;  // by group id; null where not a member
  std::vector<std::thread> threads;
};

class StepExecutor : public Executor {
 public:
  StepExecutor(const Program& program, const ExecutorOptions& options)
      : program_(program), options_(options) {}
  ~StepExecutor() override {
    stop_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    round_.notify_all();
    for (auto& v : vcus_) {
      for (std::thread& t : v->threads) t.join();
    }
  }

  Status Add(Vcu& vcu);
  void Start();
  Status Run(StepHost& host) override;
  StatusOr<std::vector<NonFinite>> FindNonFinite(StepHost& host) override;
  int64_t host_bytes() const override;
  bool skipped(int vcu, int command) const override;
  VcuTimes times(int vcu) const override;
  std::vector<TraceSpan> spans() const override;
  std::vector<ImplementationCount> implementations() const override;

 private:
  Status PrepareSegments(VcuState& v);
  void BindCommand(VcuState& v, int index);
  // Makes the lanes' staging and scratch as large as the command needs.
  static void MakeRoom(VcuState& v, const Command& c);
  void LaneLoop(VcuState& v, int lane);
  Status RunCommand(VcuState& v, int lane, int index);
  Status RunCompute(VcuState& v, int lane, int index);
  // Whether the command's condition holds.
  StatusOr<bool> Holds(VcuState& v, int lane, const Command& c);
  // Notes the first of the call's operands that is not finite.
  Status CheckCall(VcuState& v, int lane, int index, const Call& call, bool outputs);
  Status RunSend(VcuState& v, int lane, const Command& c);
  Status RunRecv(VcuState& v, int lane, const Command& c);
  Status RunCollective(VcuState& v, int lane, const Command& c);
  Status PlaceOwnPiece(VcuState& v, int lane, const Command& c, std::span<std::byte> data);
  Status RunCopy(VcuState& v, int lane, const Command& c);
  // Host memory for a range: in place, or the lane's staging after a copy.
  StatusOr<std::span<std::byte>> HostBytes(VcuState& v, int lane, const Range& range, bool read);
  Status WriteBack(VcuState& v, int lane, const Range& range, std::span<std::byte> bytes);
  Status Synchronize(VcuState& v, int lane);
  void Fail(const Status& status, CommandKind kind);
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  const Program& program_;
  ExecutorOptions options_;
  std::vector<std::unique_ptr<VcuState>> vcus_;
  StepHost* host_ = nullptr;
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  bool checking_ = false;  // during FindNonFinite
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Status status_;
  bool computed_ = false;  // status_ is of a computation
};

// What computes: the device's slice, or the host's.
StatusOr<Slice*> SliceOf(Vcu& vcu, bool on_host) {
  if (!on_host) return &vcu.slice();
  if (vcu.host() != nullptr) return vcu.host();
  return FailedPrecondition("execute: VCU ", vcu.index(), " has no host to compute on");
}

const Range& MetricsOf(const VcuState& v, const Command& c) {
  return v.program->segments[c.segment].on_host ? v.program->host_metrics : v.program->metrics;
}

Status StepExecutor::Add(Vcu& vcu) {
  auto state = std::make_unique<VcuState>();
  state->vcu = &vcu;
  if (vcu.index() < 0 || vcu.index() >= static_cast<int>(program_.vcus.size())) {
    return InvalidArgument("execute: the Program has ", program_.vcus.size(), " VCUs, asked for ",
                           vcu.index());
  }
  state->program = &program_.vcus[vcu.index()];
  const VcuProgram& p = *state->program;
  OC_RETURN_IF_ERROR(PrepareSegments(*state));
  state->lane_commands.resize(p.lanes.size());
  state->commands = std::vector<CommandState>(p.commands.size());
  for (size_t i = 0; i < p.commands.size(); ++i) {
    state->lane_commands[p.commands[i].lane].push_back(static_cast<int>(i));
    BindCommand(*state, static_cast<int>(i));
  }
  for (size_t lane = 0; lane < p.lanes.size(); ++lane) {
    const bool on_host = p.lanes[lane].kind == LaneKind::kHostCompute;
    OC_ASSIGN_OR_RETURN(Slice * slice, SliceOf(vcu, on_host));
    OC_ASSIGN_OR_RETURN(auto queue, slice->CreateQueue(ToString(p.lanes[lane])));
    OC_ASSIGN_OR_RETURN(auto event, slice->CreateEvent());
    state->queues.push_back(std::move(queue));
    state->events.push_back(std::move(event));
    state->staging.emplace_back();
    state->scratch.emplace_back();
  }
  for (const Command& c : p.commands) MakeRoom(*state, c);
  for (size_t g = 0; g < program_.groups.size(); ++g) {
    const std::vector<int>& members = program_.groups[g].vcus;
    state->groups.push_back(nullptr);
    if (std::find(members.begin(), members.end(), vcu.index()) == members.end()) continue;
    if (vcu.transport() == nullptr) {
      return InvalidArgument("execute: VCU ", p.name, " is in a group but has no transport");
    }
    state->groups.back() =
        std::make_unique<Group>(*vcu.transport(), members,
                                GroupOptions{.id = static_cast<int64_t>(g),
                                             .epoch = options_.epoch,
                                             .timeout_seconds = options_.timeout_seconds});
  }
  vcus_.push_back(std::move(state));
  return OkStatus();
}

void StepExecutor::MakeRoom(VcuState& v, const Command& c) {
  std::vector<std::byte>& staging = v.staging[c.lane];
  std::vector<std::byte>& scratch = v.scratch[c.lane];
  const auto stage = [&](const Range& r, std::vector<std::byte>& room) {
    const auto bytes = static_cast<size_t>(r.bytes);
    if (v.vcu->view(r).empty() && room.size() < bytes) room.resize(bytes);
  };
  switch (c.kind) {
    case CommandKind::kCompute:
      if (!c.predicate.empty()) stage({MetricsOf(v, c).arena, 0, sizeof(float)}, staging);
      return;
    case CommandKind::kCopy:
      if (c.reads[0].arena == Arena::kFile) stage(c.writes[0], staging);
      if (c.writes[0].arena == Arena::kFile) stage(c.reads[0], staging);
      return;
    case CommandKind::kSend:
    case CommandKind::kSnapshot:
      stage(c.reads[0], staging);
      break;
    case CommandKind::kRecv:
    case CommandKind::kFeed:
      stage(c.writes[0], staging);
      break;
    case CommandKind::kCollective:
      stage(c.writes[0], staging);
      if (c.writes.size() > 1) stage(c.writes[1], scratch);
      return;
  }
  const bool travels = c.kind == CommandKind::kSend || c.kind == CommandKind::kRecv;
  if (!travels || c.wire == c.dtype) return;
  const Range& moved = c.kind == CommandKind::kSend ? c.reads[0] : c.writes[0];
  scratch.reserve(static_cast<size_t>(WireBytes(c, moved)));
}

int64_t StepExecutor::host_bytes() const {
  size_t bytes = 0;
  for (const auto& v : vcus_) {
    for (const auto& room : v->staging) bytes += room.capacity();
    for (const auto& room : v->scratch) bytes += room.capacity();
  }
  return static_cast<int64_t>(bytes);
}

Status StepExecutor::PrepareSegments(VcuState& v) {
  for (const Segment& segment : v.program->segments) {
    const CallPurpose purpose(v.program->name.c_str(), "prepare", segment.name.c_str(), kNone);
    std::vector<PreparedCall> calls;
    OC_ASSIGN_OR_RETURN(Slice * slice, SliceOf(*v.vcu, segment.on_host));
    for (const Call& call : segment.calls) {
      const std::string key = absl::StrCat(segment.on_host ? "host " : "", call.cost_key);
      std::unique_ptr<PreparedOp>& op = v.prepared[key];
      // Random ops with equal keys differ in attributes that do not change cost.
      const std::string unique = absl::StrCat(key, call.attrs.ToString());
      std::unique_ptr<PreparedOp>& exact = call.def->random ? v.prepared[unique] : op;
      if (exact == nullptr) {
        auto prepared = slice->Prepare({.def = call.def,
                                        .attrs = call.attrs,
                                        .inputs = call.input_types,
                                        .outputs = call.output_types,
                                        .accumulate = call.accumulate});
        if (!prepared.ok()) {
          return Annotate(prepared.status(),
                          absl::StrCat("prepare ", segment.name, " on VCU ", v.program->name));
        }
        exact = std::move(prepared).value();
      }
      const int64_t planned = call.workspace == kNone ? 0 : segment.slots[call.workspace].bytes;
      if (exact->workspace_bytes() > planned) {
        return FailedPrecondition(
            "op ", call.cost_key, " on VCU ", v.program->name, " needs ", exact->workspace_bytes(),
            " bytes of workspace, the profile says ", planned, ": profile again");
      }
      calls.push_back({exact.get(), call.inputs, call.outputs, call.workspace});
    }
    v.segments.push_back(std::move(calls));
  }
  return OkStatus();
}

void StepExecutor::BindCommand(VcuState& v, int index) {
  const Command& c = v.program->commands[index];
  if (c.kind != CommandKind::kCompute) return;
  CommandState& state = v.commands[index];
  size_t total = 0;
  for (const PreparedCall& call : v.segments[c.segment]) {
    total += call.inputs.size() + call.outputs.size();
  }
  state.ranges.reserve(total);  // pointers into it are kept
  for (const PreparedCall& call : v.segments[c.segment]) {
    BoundCall bound{.op = call.op};
    bound.inputs = state.ranges.data() + state.ranges.size();
    bound.num_inputs = call.inputs.size();
    for (int slot : call.inputs) state.ranges.push_back(v.vcu->range(c.slots[slot]));
    bound.outputs = state.ranges.data() + state.ranges.size();
    bound.num_outputs = call.outputs.size();
    for (int slot : call.outputs) state.ranges.push_back(v.vcu->range(c.slots[slot]));
    if (call.workspace != kNone) bound.workspace = v.vcu->range(c.slots[call.workspace]);
    state.calls.push_back(bound);
  }
}

void StepExecutor::Start() {
  for (auto& v : vcus_) {
    for (size_t lane = 0; lane < v->lane_commands.size(); ++lane) {
      v->threads.emplace_back(
          [this, state = v.get(), lane] { LaneLoop(*state, static_cast<int>(lane)); });
    }
  }
}

void StepExecutor::LaneLoop(VcuState& v, int lane) {
  uint32_t round = 0;
  for (;;) {
    round_.wait(round, std::memory_order_acquire);
    const uint32_t now = round_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (now == round) continue;
    round = now;
    for (int index : v.lane_commands[lane]) {
      for (int wait : v.program->commands[index].waits) Await(v.commands[wait].done, round);
      CommandState& state = v.commands[index];
      if (!failed()) {
        const Command& command = v.program->commands[index];
        const CallPurpose purpose(v.program->name.c_str(), Name(command.kind), command.name.c_str(),
                                  command.micro_batch);
        state.begin_nanos = NowNanos();
        const Status status = RunCommand(v, lane, index);
        state.end_nanos = NowNanos();
        if (!status.ok()) {
          const std::string of = command.micro_batch == kNone
                                     ? ""
                                     : absl::StrCat(" of micro-batch ", command.micro_batch);
          Fail(Annotate(status, absl::StrCat("VCU ", v.program->name, ", ", Name(command.kind), " ",
                                             command.name, of)),
               command.kind);
        }
      }
      state.done.store(round, std::memory_order_release);
      state.done.notify_all();
    }
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

void StepExecutor::Fail(const Status& status, CommandKind kind) {
  {
    // A peer that waits may give up before the computation that it waits for does. What ended a
    // computation is never a consequence: it is told instead.
    std::lock_guard<std::mutex> lock(mutex_);
    const bool computed = kind == CommandKind::kCompute;
    if (status_.ok() || (computed && !computed_)) {
      status_ = status;
      computed_ = computed;
    }
  }
  failed_.store(true, std::memory_order_release);
  for (auto& v : vcus_) {
    if (v->vcu->transport() != nullptr) {
      v->vcu->transport()->Abort(absl::AbortedError(status.message()));
    }
  }
}

Status StepExecutor::Run(StepHost& host) {
  if (failed()) return FailedPrecondition("execute: the executor failed before");
  host_ = &host;
  uint32_t lanes = 0;
  for (auto& v : vcus_) lanes += static_cast<uint32_t>(v->lane_commands.size());
  running_.store(lanes, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
  Await(running_, 0);
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

StatusOr<std::span<std::byte>> StepExecutor::HostBytes(VcuState& v, int lane, const Range& range,
                                                       bool read) {
  const std::span<std::byte> view = v.vcu->view(range);
  if (!view.empty() || range.bytes == 0) return view;
  std::vector<std::byte>& staging = v.staging[lane];
  if (staging.size() < static_cast<size_t>(range.bytes)) staging.resize(range.bytes);
  const std::span<std::byte> bytes(staging.data(), static_cast<size_t>(range.bytes));
  if (read) {
    OC_RETURN_IF_ERROR(v.queues[lane]->CopyToHost(bytes, v.vcu->range(range)));
    OC_RETURN_IF_ERROR(Synchronize(v, lane));
  }
  return bytes;
}

Status StepExecutor::WriteBack(VcuState& v, int lane, const Range& range,
                               std::span<std::byte> bytes) {
  if (bytes.data() != v.staging[lane].data()) return OkStatus();
  OC_RETURN_IF_ERROR(v.queues[lane]->CopyFromHost(v.vcu->range(range), bytes));
  return Synchronize(v, lane);
}

Status StepExecutor::Synchronize(VcuState& v, int lane) {
  OC_RETURN_IF_ERROR(v.queues[lane]->Record(*v.events[lane]));
  return v.events[lane]->Wait(kDeviceShare * options_.timeout_seconds);
}

StatusOr<bool> StepExecutor::Holds(VcuState& v, int lane, const Command& c) {
  const auto at = std::find(program_.metrics.begin(), program_.metrics.end(), c.predicate);
  Range range = MetricsOf(v, c);
  range.offset += 4 * (at - program_.metrics.begin());
  range.bytes = 4;
  OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, range, /*read=*/true));
  float value;
  std::memcpy(&value, bytes.data(), 4);
  return std::isfinite(value);
}

Status StepExecutor::RunCompute(VcuState& v, int lane, int index) {
  Queue& queue = *v.queues[lane];
  const Command& c = v.program->commands[index];
  CommandState& state = v.commands[index];
  if (!c.predicate.empty()) {
    OC_ASSIGN_OR_RETURN(const bool holds, Holds(v, lane, c));
    state.skipped = !holds;
    if (!holds) return OkStatus();
  }
  const std::vector<Call>& calls = v.program->segments[c.segment].calls;
  for (size_t i = 0; i < state.calls.size(); ++i) {
    const BoundCall& call = state.calls[i];
    if (checking_) OC_RETURN_IF_ERROR(CheckCall(v, lane, index, calls[i], /*outputs=*/false));
    OC_RETURN_IF_ERROR(queue.Enqueue(*call.op, {call.inputs, call.num_inputs},
                                     {call.outputs, call.num_outputs}, call.workspace));
    if (checking_) OC_RETURN_IF_ERROR(CheckCall(v, lane, index, calls[i], /*outputs=*/true));
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

Status StepExecutor::RunCommand(VcuState& v, int lane, int index) {
  const Command& c = v.program->commands[index];
  switch (c.kind) {
    case CommandKind::kCompute:
      return RunCompute(v, lane, index);
    case CommandKind::kSend:
      return RunSend(v, lane, c);
    case CommandKind::kRecv:
      return RunRecv(v, lane, c);
    case CommandKind::kCollective:
      return RunCollective(v, lane, c);
    case CommandKind::kCopy:
      return RunCopy(v, lane, c);
    case CommandKind::kFeed: {
      OC_ASSIGN_OR_RETURN(auto bytes, HostBytes(v, lane, c.writes[0], /*read=*/false));
      if (c.name == kZeros) {
        std::memset(bytes.data(), 0, bytes.size());
      } else {
        OC_RETURN_IF_ERROR(host_->Feed(v.vcu->index(), c.name, c.micro_batch, bytes));
      }
      return WriteBack(v, lane, c.writes[0], bytes);
    }
    case CommandKind::kSnapshot: {
      OC_ASSIGN_OR_RETURN(auto bytes, HostBytes(v, lane, c.reads[0], /*read=*/true));
      return host_->Snapshot(v.vcu->index(), c.name, c.micro_batch, bytes);
    }
  }
  return Internal("unknown command");
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

bool StepExecutor::skipped(int vcu, int command) const {
  for (const auto& v : vcus_) {
    if (v->vcu->index() == vcu) return v->commands[command].skipped;
  }
  return false;
}

VcuTimes StepExecutor::times(int vcu) const {
  VcuTimes t;
  for (const auto& v : vcus_) {
    if (v->vcu->index() != vcu || v->commands.empty()) continue;
    int64_t first = v->commands[0].begin_nanos, last = 0, compute = 0;
    std::vector<std::pair<int64_t, int64_t>> transfers, computing;
    for (size_t i = 0; i < v->commands.size(); ++i) {
      const CommandState& c = v->commands[i];
      first = std::min(first, c.begin_nanos);
      last = std::max(last, c.end_nanos);
      const CommandKind kind = v->program->commands[i].kind;
      if (v->program->commands[i].lane == 0) {
        compute += c.end_nanos - c.begin_nanos;
        computing.emplace_back(c.begin_nanos, c.end_nanos);
      } else if (kind == CommandKind::kRecv || kind == CommandKind::kSend ||
                 kind == CommandKind::kCollective || kind == CommandKind::kCopy) {
        transfers.emplace_back(c.begin_nanos, c.end_nanos);
      }
    }
    // The union of the transfers, less what lies under computation (which is in order on one lane).
    std::sort(transfers.begin(), transfers.end());
    int64_t covered = 0, exposed = 0;
    for (auto [begin, end] : transfers) {
      begin = std::max(begin, covered);
      if (begin >= end) continue;
      covered = end;
      exposed += end - begin;
      for (const auto& [a, b] : computing) {
        exposed -= std::max<int64_t>(0, std::min(b, end) - std::max(a, begin));
      }
    }
    t.step_seconds = static_cast<double>(last - first) * 1e-9;
    t.compute_seconds = static_cast<double>(compute) * 1e-9;
    t.exposed_comm_seconds = static_cast<double>(exposed) * 1e-9;
    t.bubble_fraction = last > first ? 1.0 - t.compute_seconds / t.step_seconds : 0;
  }
  return t;
}

std::vector<TraceSpan> StepExecutor::spans() const {
  std::vector<TraceSpan> result;
  for (const auto& v : vcus_) {
    for (size_t i = 0; i < v->commands.size(); ++i) {
      result.push_back({v->vcu->index(), v->program->commands[i].lane, static_cast<int32_t>(i),
                        v->commands[i].begin_nanos, v->commands[i].end_nanos});
    }
  }
  return result;
}

std::vector<ImplementationCount> StepExecutor::implementations() const {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const auto& v : vcus_) {
    for (const Command& c : v->program->commands) {
      if (c.kind != CommandKind::kCompute) continue;
      const std::vector<Call>& calls = v->program->segments[c.segment].calls;
      for (size_t i = 0; i < calls.size(); ++i) {
        ++counts[{calls[i].def->name, v->segments[c.segment][i].op->implementation()}];
      }
    }
  }
  std::vector<ImplementationCount> result;
  for (const auto& [key, calls] : counts) result.push_back({key.first, key.second, calls});
  return result;
}

}  // namespace

StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program,
                                                     const std::vector<Vcu*>& vcus,
                                                     const ExecutorOptions& options) {
  auto executor = std::make_unique<StepExecutor>(program, options);
  for (Vcu* vcu : vcus) OC_RETURN_IF_ERROR(executor->Add(*vcu));
  executor->Start();
  return std::unique_ptr<Executor>(std::move(executor));
}

std::vector<TraceEvent> NameSpans(const Program& program, const std::vector<TraceSpan>& spans) {
  std::vector<TraceEvent> events;
  for (const TraceSpan& s : spans) {
    const VcuProgram& v = program.vcus[s.vcu];
    const Command& c = v.commands[s.command];
    events.push_back({absl::StrCat(Name(c.kind), " ", c.name), v.name, ToString(v.lanes[s.lane]),
                      s.begin_nanos, s.end_nanos});
  }
  return events;
}

}  // namespace oc
