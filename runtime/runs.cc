#include "openclaw/runtime/runs.h"

#include <algorithm>

namespace oc {
namespace {

bool OnDevice(const std::vector<Range>& ranges) {
  return std::all_of(ranges.begin(), ranges.end(), [](const Range& r) {
    return r.arena == Arena::kState || r.arena == Arena::kStep;
  });
}

}  // namespace

bool Runs::all(const VcuProgram& program) const {
  return runs.size() == 1 && runs[0].commands.size() == program.commands.size();
}

Runs FindRuns(const VcuProgram& program) {
  const std::vector<Command>& commands = program.commands;
  // A lane's order is kept only where all of it is kept: of the host's lane all commands join, or
  // none.
  std::vector<bool> joins(program.lanes.size());
  for (size_t lane = 0; lane < joins.size(); ++lane) {
    joins[lane] = lane == 0 || program.lanes[lane].kind == LaneKind::kHost;
  }
  for (const Command& c : commands) {
    if (c.lane != 0 && !(OnDevice(c.reads) && OnDevice(c.writes))) joins[c.lane] = false;
  }
  std::vector<bool> awaited(commands.size(), false);  // by a command that joins no run
  for (const Command& c : commands) {
    if (joins[c.lane]) continue;
    for (int w : c.waits) awaited[w] = true;
  }

  Runs result{.run_of = std::vector<int>(commands.size(), kNone)};
  std::vector<int> ended(program.lanes.size(), kNone);  // by lane: what runs so far waited for
  bool open = false;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command& c = commands[i];
    if (!joins[c.lane]) continue;
    std::vector<int> waits;
    for (int w : c.waits) {
      const int lane = commands[w].lane;
      if (!joins[lane] && w > ended[lane]) waits.push_back(w);
    }
    if (!open || !waits.empty()) {
      result.runs.push_back({.waits = waits});
      open = true;
    }
    for (int w : waits) ended[commands[w].lane] = std::max(ended[commands[w].lane], w);
    result.runs.back().commands.push_back(static_cast<int>(i));
    result.run_of[i] = static_cast<int>(result.runs.size()) - 1;
    if (awaited[i]) open = false;
  }
  return result;
}

}  // namespace oc
