// StepExecutor: steps as runs of commands that a device has captured.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "openclaw/core/clock.h"
#include "openclaw/devices/call_watch.h"
#include "openclaw/runtime/executor_internal.h"

namespace oc {
namespace {

constexpr size_t kStagedAlignment = 64;
size_t Align(size_t bytes) {
  return (bytes + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
}

// What a command keeps on the host.
size_t StagedBytes(const Command& c) {
  switch (c.kind) {
    case CommandKind::kFeed:
      return static_cast<size_t>(c.writes[0].bytes);
    case CommandKind::kSnapshot:
      return static_cast<size_t>(c.reads[0].bytes);
    case CommandKind::kCompute:
      return c.predicate.empty() ? 0 : sizeof(float);
    default:
      return 0;
  }
}

// Whether an empty capture is taken. kUnimplemented: the device captures nothing.
Status TryCapture(Queue& queue) {
  OC_RETURN_IF_ERROR(queue.BeginCapture());
  return queue.EndCapture().status();
}

std::string NameOf(const VcuProgram& program, const CommandRun& run) {
  const Command& first = program.commands[run.commands.front()];
  const Command& last = program.commands[run.commands.back()];
  std::string name = absl::StrCat(Name(first.kind), " ", first.name);
  if (run.commands.size() > 1) absl::StrAppend(&name, " to ", Name(last.kind), " ", last.name);
  return name;
}

}  // namespace

Status StepExecutor::PrepareReplay(VcuState& v) {
  if (!options_.capture) {
    v.no_capture = "capture is switched off";
    return OkStatus();
  }
  const Status captures = TryCapture(*v.queues[0]);
  if (absl::IsUnimplemented(captures)) {
    v.no_capture = std::string(captures.message());
    return OkStatus();
  }
  OC_RETURN_IF_ERROR(Annotate(captures, absl::StrCat("VCU ", v.program->name, ", capture")));
  v.replay.emplace();
  v.replay->runs = FindRuns(*v.program);
  v.replay->alone = v.replay->runs.all(*v.program);
  OC_RETURN_IF_ERROR(StageCommands(v));
  for (const CommandRun& run : v.replay->runs.runs) {
    double seconds = 0;  // a run may take longer than a command, by so much
    const auto synchronize = [this, &v, &run, seconds]() mutable {
      if (seconds == 0) {
        for (int c : run.commands) seconds += 2e-9 * static_cast<double>(v.commands[c].plain_nanos);
      }
      return Synchronize(v, 0, seconds);
    };
    v.replay->replays.push_back(std::make_unique<Replay>(*v.queues[0], synchronize));
    BuildReplay(v, run, *v.replay->replays.back());
  }
  return OkStatus();
}

Status StepExecutor::StageCommands(VcuState& v) {
  const std::vector<Command>& commands = v.program->commands;
  size_t bytes = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (v.replay->runs.run_of[i] != kNone) bytes += Align(StagedBytes(commands[i]));
  }
  OC_ASSIGN_OR_RETURN(v.replay->memory, v.vcu->slice().AllocateHost(
                                            static_cast<int64_t>(std::max(bytes, size_t{1}))));
  size_t at = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (v.replay->runs.run_of[i] == kNone) continue;
    const size_t own = StagedBytes(commands[i]);
    v.commands[i].staged = v.replay->memory->bytes().subspan(at, own);
    at += Align(own);
  }
  return OkStatus();
}

void StepExecutor::BuildReplay(VcuState& v, const CommandRun& run, Replay& replay) {
  const Command* condition = nullptr;  // whose predicate holds for what is added
  for (int i : run.commands) {
    const Command& c = v.program->commands[i];
    CommandState& state = v.commands[i];
    if (condition != nullptr && condition->predicate != c.predicate) {
      replay.EndIf();
      condition = nullptr;
    }
    if (condition == nullptr && !c.predicate.empty()) {
      replay.BeginIfFinite(v.vcu->range(PredicateOf(v, c)), state.staged);
      condition = &c;
    } else if (condition != nullptr) {
      state.staged = v.commands[condition - v.program->commands.data()].staged;
    }
    if (c.kind == CommandKind::kFeed) {
      replay.Feed(v.vcu->range(c.writes[0]), state.staged);
    } else if (c.kind == CommandKind::kSnapshot) {
      replay.Snapshot(state.staged, v.vcu->range(c.reads[0]));
    } else {
      for (const BoundCall& call : state.calls) replay.Compute(call);
    }
  }
  if (condition != nullptr) replay.EndIf();
}

Status StepExecutor::FillFeed(VcuState& v, int index) {
  const Command& c = v.program->commands[index];
  CommandState& state = v.commands[index];
  // What holds zeros is never written.
  if (c.name == kZeros) return OkStatus();
  const CallPurpose purpose(v.program->name.c_str(), Name(c.kind), c.name.c_str(), c.micro_batch);
  return Annotate(
      host_->Feed(v.vcu->index(), c.name, c.micro_batch, state.staged),
      absl::StrCat("VCU ", v.program->name, ", feed ", c.name,
                   c.micro_batch == kNone ? "" : absl::StrCat(" of micro-batch ", c.micro_batch)));
}

Status StepExecutor::TakeSnapshot(VcuState& v, int index) {
  const Command& c = v.program->commands[index];
  return Annotate(host_->Snapshot(v.vcu->index(), c.name, c.micro_batch, v.commands[index].staged),
                  absl::StrCat("VCU ", v.program->name, ", snapshot ", c.name));
}

Status StepExecutor::RunOnce(VcuState& v, size_t run_index) {
  const CommandRun& run = v.replay->runs.runs[run_index];
  const std::vector<Command>& commands = v.program->commands;
  const Command& first = commands[run.commands.front()];
  const CallPurpose purpose(v.program->name.c_str(), Name(first.kind), first.name.c_str(),
                            first.micro_batch);
  const int64_t begin = NowNanos();
  Replay& replay = *v.replay->replays[run_index];
  Status status = replay.Run();
  if (status.ok()) status = replay.Synchronize();
  const int64_t end = NowNanos();
  int64_t plain = 0;
  for (int i : run.commands) plain += v.commands[i].plain_nanos;
  const double scale =
      plain > 0 ? static_cast<double>(end - begin) / static_cast<double>(plain) : 0;
  int64_t before = 0;
  for (int i : run.commands) {
    CommandState& state = v.commands[i];
    state.begin_nanos = begin + static_cast<int64_t>(scale * static_cast<double>(before));
    before += state.plain_nanos;
    state.end_nanos = begin + static_cast<int64_t>(scale * static_cast<double>(before));
    if (commands[i].predicate.empty() || !status.ok()) continue;
    float metric = 0;
    std::memcpy(&metric, state.staged.data(), sizeof(metric));
    state.skipped = !std::isfinite(metric);
  }
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("VCU ", v.program->name, ", ", NameOf(*v.program, run)));
}

Status StepExecutor::RunAlone(VcuState& v) {
  const CommandRun& run = v.replay->runs.runs[0];
  const auto of_kind = [&](CommandKind kind, const auto& f) -> Status {
    for (int i : run.commands) {
      if (v.program->commands[i].kind == kind) OC_RETURN_IF_ERROR(f(i));
    }
    return OkStatus();
  };
  const auto step = [&]() -> Status {
    OC_RETURN_IF_ERROR(of_kind(CommandKind::kFeed, [&](int i) { return FillFeed(v, i); }));
    OC_RETURN_IF_ERROR(RunOnce(v, 0));
    return of_kind(CommandKind::kSnapshot, [&](int i) { return TakeSnapshot(v, i); });
  };
  const Status status = step();
  if (!status.ok()) Fail(status, CommandKind::kCompute);
  return status;
}

void StepExecutor::ReplayLane(VcuState& v, int lane, uint32_t round) {
  const std::vector<Command>& commands = v.program->commands;
  const Runs& runs = v.replay->runs;
  if (lane == 0) {
    for (size_t r = 0; r < runs.runs.size(); ++r) {
      const CommandRun& run = runs.runs[r];
      for (int w : run.waits) Await(v.commands[w].done, round);
      for (int i : run.commands) {
        if (commands[i].kind == CommandKind::kFeed) Await(v.commands[i].filled, round);
      }
      if (!failed()) {
        const Status status = RunOnce(v, r);
        if (!status.ok()) Fail(status, CommandKind::kCompute);
      }
      for (int i : run.commands) SetRound(v.commands[i].done, round);
    }
    return;
  }
  // Of the host's lane all commands are in runs, or none. Feeds first: what they are staged in is
  // theirs alone, and a run may wait for one that stands behind its snapshot.
  for (int i : v.lane_commands[lane]) {
    if (runs.run_of[i] == kNone || commands[i].kind != CommandKind::kFeed) continue;
    const Status status = failed() ? OkStatus() : FillFeed(v, i);
    if (!status.ok()) Fail(status, CommandKind::kFeed);
    SetRound(v.commands[i].filled, round);
  }
  for (int i : v.lane_commands[lane]) {
    if (runs.run_of[i] == kNone) {
      for (int w : commands[i].waits) Await(v.commands[w].done, round);
      RunNoted(v, lane, i);
      SetRound(v.commands[i].done, round);
    } else if (commands[i].kind == CommandKind::kSnapshot) {
      Await(v.commands[i].done, round);
      const Status status = failed() ? OkStatus() : TakeSnapshot(v, i);
      if (!status.ok()) Fail(status, CommandKind::kSnapshot);
    }
  }
}

}  // namespace oc
