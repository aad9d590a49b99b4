// Which commands of a VCU its device can be given as one piece of work: what is enqueued together
// is captured together (devices/device.h) and waited for once.
//
// A run is a sequence of commands that is enqueued on the compute lane's queue in the order of the
// VCU's list: computations of the device, and the feeds and snapshots between them, whose bytes go
// through memory of the host. Nothing outside a run waits for a command in it but the last, and
// nothing in it but the first waits for a command outside that may still run: so that a run delays
// no transfer, and cannot deadlock.
#pragma once

#include <vector>

#include "openclaw/partitioner/program/program.h"

namespace oc {

struct CommandRun {
  std::vector<int> commands;  // ascending
  std::vector<int> waits;     // commands of other lanes, in no run, that end before it begins
};

struct Runs {
  std::vector<CommandRun> runs;  // in the order in which they run
  std::vector<int> run_of;       // of each command; kNone: it is in none, and its lane runs it
  // Whether that is all that the VCU does.
  bool all(const VcuProgram& program) const;
};

Runs FindRuns(const VcuProgram& program);

}  // namespace oc
