// Walks through a Program as its lanes would run: a command starts when its lane and its waits
// allow, a send and its receive start together (unbuffered) and so do the members of a collective.
// What the simulator and the verifier's search for deadlocks share.
#pragma once

#include <functional>
#include <vector>

#include "openclaw/partitioner/program/program.h"

namespace oc {

struct CommandTime {
  double begin = 0;
  double end = 0;
};

struct Walk {
  std::vector<std::vector<CommandTime>> times;  // [vcu][command]
};

// Seconds of a command of a VCU, once it has started.
using DurationFunction = std::function<double(int vcu, const Command& command)>;

// kInvalidArgument: a deadlock, or a message without its other end; it names the commands that are
// stuck, and what each waits for. Precondition: lanes, waits, peers and groups are in range.
StatusOr<Walk> WalkProgram(const Program& program, const DurationFunction& duration);

}  // namespace oc
