#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {
namespace {

bool Conflict(const Command& a, const Command& b, const std::vector<Range>& a_writes,
              const std::vector<Range>& b_writes) {
  return Overlap(a_writes, b_writes) || Overlap(a_writes, b.reads) || Overlap(a.reads, b_writes);
}

}  // namespace

void DeriveWaits(VcuProgram& program) {
  const int lanes = static_cast<int>(program.lanes.size());
  const int n = static_cast<int>(program.commands.size());
  // A collective's writes are listed as (data, scratch): sorted here for Overlap.
  std::vector<std::vector<Range>> writes;
  for (const Command& c : program.commands) writes.push_back(MergeRanges(c.writes));
  // known[i][l]: the last command of lane l that has ended when command i starts.
  std::vector<std::vector<int>> known(n, std::vector<int>(lanes, kNone));
  std::vector<int> last_of_lane(lanes, kNone);
  const auto learn = [&](int i, int earlier) {
    for (int l = 0; l < lanes; ++l) known[i][l] = std::max(known[i][l], known[earlier][l]);
    const int lane = program.commands[earlier].lane;
    known[i][lane] = std::max(known[i][lane], earlier);
  };
  for (int i = 0; i < n; ++i) {
    Command& c = program.commands[i];
    if (last_of_lane[c.lane] != kNone) learn(i, last_of_lane[c.lane]);
    for (int j = i - 1; j >= 0; --j) {  // latest first: it often implies the earlier ones
      const Command& e = program.commands[j];
      if (e.lane == c.lane || known[i][e.lane] >= j) continue;
      if (!Conflict(e, c, writes[j], writes[i])) continue;
      c.waits.push_back(j);
      learn(i, j);
    }
    last_of_lane[c.lane] = i;
  }
}

}  // namespace oc
