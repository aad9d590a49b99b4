// What the verifier's rules share, and those that have a file of their own. Internal to
// partitioner/program.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/partitioner/program/program.h"

namespace oc {

// "VCU cpu:0 command 12 (compute B0 #0)".
std::string Where(const Program& program, int vcu, int index);

template <typename F>
Status ForEachCommand(const Program& program, F f) {
  for (int vcu = 0; vcu < static_cast<int>(program.vcus.size()); ++vcu) {
    for (int i = 0; i < static_cast<int>(program.vcus[vcu].commands.size()); ++i) {
      OC_RETURN_IF_ERROR(f(vcu, i, program.vcus[vcu].commands[i]));
    }
  }
  return OkStatus();
}

// Which commands of a VCU have ended when a command starts.
class Order {
 public:
  explicit Order(const VcuProgram& v);
  bool Before(int earlier, int later) const {
    return known_[later][v_.commands[earlier].lane] >= earlier;
  }

 private:
  void Learn(size_t i, int earlier);
  const VcuProgram& v_;
  std::vector<std::vector<int>> known_;
};

// Removes from `wanted` what `have` covers. Both merged.
std::vector<Range> Subtract(const std::vector<Range>& wanted, const std::vector<Range>& have);

// This VCU's piece of what a collective with pieces moves.
Range OwnPiece(const Program& program, int vcu, const Command& c);
// Of what a collective of a bucket reads, the tensors without the gaps between them; merged.
std::vector<Range> TensorsOf(const Program& program, int vcu, const Command& c);

// The rules "collectives", "reductions" and "gathers" (verify.h).
Status CheckCollectives(const Program& program, const ClusterSpec& cluster);
Status CheckReductions(const Program& program, const ClusterSpec& cluster);
Status CheckGathers(const Program& program, const ClusterSpec& cluster);

}  // namespace oc
