// StepExecutor: what is told of a step.
#include <algorithm>
#include <map>

#include "openclaw/runtime/executor_internal.h"

namespace oc {

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

CaptureReport StepExecutor::capture(int vcu) const {
  CaptureReport report;
  for (const auto& v : vcus_) {
    if (v->vcu->index() != vcu) continue;
    if (!v->replay.has_value()) {
      report.reason = v->no_capture;
      for (const CommandState& c : v->commands) {
        report.plain_calls += static_cast<int64_t>(c.calls.size());
      }
      continue;
    }
    for (const auto& replay : v->replay->replays) {
      const CaptureReport one = replay->report();
      report.launches += one.launches;
      report.captured_calls += one.captured_calls;
      report.plain_calls += one.plain_calls;
      if (report.reason.empty()) report.reason = one.reason;
    }
  }
  return report;
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
