// Work that may crash or hang, tried in a child process.
//
//   std::string said;
//   const Status status = RunInChild(30, [&](const Tell& tell) { tell(Examine()); }, &said);
#pragma once

#include <functional>
#include <string>

#include "openclaw/core/status.h"

namespace oc {

// Passes text to the parent; what was told stays told, whatever happens then.
using Tell = std::function<void(const std::string&)>;

// Forks, runs `work` in the child and collects what it tells. The child ends without destructors of
// the process. kDeadlineExceeded where it did not end in time (it is killed), kInternal where it
// crashed, by which signal, kFailedPrecondition where it ended the process itself. `told` is filled
// also then. The child is a copy of this thread alone: no other thread should hold a lock that the
// work needs, so call it before the process computes.
Status RunInChild(double timeout_seconds, const std::function<void(const Tell&)>& work,
                  std::string* told);

}  // namespace oc
