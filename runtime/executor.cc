#include "openclaw/runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "openclaw/core/clock.h"
#include "openclaw/devices/call_watch.h"
#include "openclaw/runtime/executor_internal.h"

namespace oc {
namespace {

constexpr int kSpins = 200;  // then the thread sleeps: other lanes need the core

// What computes: the device's slice, or the host's.
StatusOr<Slice*> SliceOf(Vcu& vcu, bool on_host) {
  if (!on_host) return &vcu.slice();
  if (vcu.host() != nullptr) return vcu.host();
  return FailedPrecondition("execute: VCU ", vcu.index(), " has no host to compute on");
}

const Range& MetricsOf(const VcuState& v, const Command& c) {
  return v.program->segments[c.segment].on_host ? v.program->host_metrics : v.program->metrics;
}

}  // namespace

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

void SetRound(std::atomic<uint32_t>& word, uint32_t round) {
  word.store(round, std::memory_order_release);
  word.notify_all();
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
    state->scratch.emplace_back();
  }
  std::vector<size_t> staging(p.lanes.size(), 0);
  for (const Command& c : p.commands) MakeRoom(*state, c, staging[c.lane]);
  for (const size_t bytes : staging) {
    state->staging.push_back(nullptr);
    if (bytes == 0) continue;
    OC_ASSIGN_OR_RETURN(state->staging.back(),
                        vcu.slice().AllocateHost(static_cast<int64_t>(bytes)));
  }
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
  OC_RETURN_IF_ERROR(PrepareReplay(*state));
  vcus_.push_back(std::move(state));
  return OkStatus();
}

void StepExecutor::MakeRoom(VcuState& v, const Command& c, size_t& staging) {
  std::vector<std::byte>& scratch = v.scratch[c.lane];
  const auto needed = [&](const Range& r) {
    return v.vcu->view(r).empty() ? static_cast<size_t>(r.bytes) : 0;
  };
  const auto stage = [&](const Range& r) { staging = std::max(staging, needed(r)); };
  switch (c.kind) {
    case CommandKind::kCompute:
      if (!c.predicate.empty()) stage({MetricsOf(v, c).arena, 0, sizeof(float)});
      return;
    case CommandKind::kCopy:
      if (c.reads[0].arena == Arena::kFile) stage(c.writes[0]);
      if (c.writes[0].arena == Arena::kFile) stage(c.reads[0]);
      return;
    case CommandKind::kSend:
    case CommandKind::kSnapshot:
      stage(c.reads[0]);
      break;
    case CommandKind::kRecv:
    case CommandKind::kFeed:
      stage(c.writes[0]);
      break;
    case CommandKind::kCollective:
      stage(c.writes[0]);
      if (c.writes.size() > 1 && scratch.size() < needed(c.writes[1])) {
        scratch.resize(needed(c.writes[1]));
      }
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
    for (const auto& room : v->staging) bytes += room == nullptr ? 0 : room->bytes().size();
    if (v->replay.has_value()) bytes += v->replay->memory->bytes().size();
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
    if (v.replaying) {
      ReplayLane(v, lane, round);
    } else {
      for (int index : v.lane_commands[lane]) {
        for (int wait : v.program->commands[index].waits) Await(v.commands[wait].done, round);
        RunNoted(v, lane, index);
        SetRound(v.commands[index].done, round);
      }
    }
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

void StepExecutor::RunNoted(VcuState& v, int lane, int index) {
  if (failed()) return;
  const Command& command = v.program->commands[index];
  CommandState& state = v.commands[index];
  const CallPurpose purpose(v.program->name.c_str(), Name(command.kind), command.name.c_str(),
                            command.micro_batch);
  state.begin_nanos = NowNanos();
  const Status status = RunCommand(v, lane, index);
  state.end_nanos = NowNanos();
  state.plain_nanos = state.end_nanos - state.begin_nanos;
  if (status.ok()) return;
  const std::string of =
      command.micro_batch == kNone ? "" : absl::StrCat(" of micro-batch ", command.micro_batch);
  Fail(Annotate(status, absl::StrCat("VCU ", v.program->name, ", ", Name(command.kind), " ",
                                     command.name, of)),
       command.kind);
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
  for (auto& v : vcus_) {
    lanes += static_cast<uint32_t>(v->lane_commands.size());
    v->replaying = v->replay.has_value() && !checking_ && v->plain_steps >= kPlainSteps;
    if (!v->replaying && !checking_) ++v->plain_steps;
  }
  if (vcus_.size() == 1 && vcus_[0]->replaying && vcus_[0]->replay->alone) {
    return RunAlone(*vcus_[0]);
  }
  running_.store(lanes, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
  Await(running_, 0);
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

Status StepExecutor::Synchronize(VcuState& v, int lane, double more_seconds) {
  OC_RETURN_IF_ERROR(v.queues[lane]->Record(*v.events[lane]));
  return v.events[lane]->Wait(kDeviceShare * options_.timeout_seconds + more_seconds);
}

Range StepExecutor::PredicateOf(const VcuState& v, const Command& c) const {
  const auto at = std::find(program_.metrics.begin(), program_.metrics.end(), c.predicate);
  Range range = MetricsOf(v, c);
  range.offset += 4 * (at - program_.metrics.begin());
  range.bytes = 4;
  return range;
}

StatusOr<bool> StepExecutor::Holds(VcuState& v, int lane, const Command& c) {
  OC_ASSIGN_OR_RETURN(const auto bytes, HostBytes(v, lane, PredicateOf(v, c), /*read=*/true));
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
    OC_RETURN_IF_ERROR(Enqueue(queue, call));
    if (checking_) OC_RETURN_IF_ERROR(CheckCall(v, lane, index, calls[i], /*outputs=*/true));
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

bool StepExecutor::skipped(int vcu, int command) const {
  for (const auto& v : vcus_) {
    if (v->vcu->index() == vcu) return v->commands[command].skipped;
  }
  return false;
}

StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program,
                                                     const std::vector<Vcu*>& vcus,
                                                     const ExecutorOptions& options) {
  auto executor = std::make_unique<StepExecutor>(program, options);
  for (Vcu* vcu : vcus) OC_RETURN_IF_ERROR(executor->Add(*vcu));
  executor->Start();
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace oc
