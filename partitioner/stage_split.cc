#include "openclaw/partitioner/stage_split.h"

#include <algorithm>
#include <limits>

namespace oc {

double StageSeconds(const StageSplitOptions& o, int stage, int begin, int end) {
  const StageCosts& costs = *o.costs[stage];
  double seconds = costs.Seconds(begin, end);
  // Forward and gradient cross each boundary once a micro-batch.
  if (stage > 0) {
    seconds +=
        2 * (o.latency_seconds[stage - 1] +
             o.seconds_per_byte[stage - 1] * static_cast<double>(costs.BoundaryBytes(begin)));
  }
  if (stage + 1 < static_cast<int>(o.costs.size())) {
    seconds += 2 * (o.latency_seconds[stage] +
                    o.seconds_per_byte[stage] * static_cast<double>(costs.BoundaryBytes(end)));
  }
  return seconds;
}

int64_t StageBytes(const StageSplitOptions& o, int stage, int begin, int end) {
  const StageCosts& costs = *o.costs[stage];
  return costs.StateBytes(begin, end) + o.in_flight[stage] * costs.StashBytes(begin, end);
}

StatusOr<StageSplit> SplitStages(const StageSplitOptions& o) {
  const int stages = static_cast<int>(o.costs.size());
  const int n = o.costs[0]->units();
  int places = 0;
  for (int at = 1; at < n; ++at) places += o.costs[0]->MayCut(at) ? 1 : 0;
  if (places + 1 < stages) {
    return InvalidArgument("plan: ", stages, " stages asked for, the graph can be cut into ",
                           places + 1);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // best[s][i]: the bottleneck of stages s.. when stage s begins at unit i.
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(n + 1, kInfinity));
  std::vector<std::vector<int>> next(stages, std::vector<int>(n + 1, -1));
  int64_t least_excess = std::numeric_limits<int64_t>::max();
  best[stages][n] = 0;
  for (int s = stages - 1; s >= 0; --s) {
    for (int begin = 0; begin < n; ++begin) {
      if (s == 0 ? begin != 0 : !o.costs[s]->MayCut(begin)) continue;
      for (int end = begin + 1; end <= n; ++end) {
        if (best[s + 1][end] == kInfinity) continue;
        const int64_t excess = StageBytes(o, s, begin, end) - o.memory_bytes[s];
        if (excess > 0) {
          least_excess = std::min(least_excess, excess);
          continue;
        }
        const double bottleneck = std::max(StageSeconds(o, s, begin, end), best[s + 1][end]);
        if (bottleneck < best[s][begin]) {
          best[s][begin] = bottleneck;
          next[s][begin] = end;
        }
      }
    }
  }
  if (best[0][0] == kInfinity) {
    return ResourceExhausted("plan: no cut into ", stages,
                             " stages fits the memory; the nearest exceeds "
                             "a VCU's budget by at least ",
                             least_excess, " bytes");
  }
  StageSplit split;
  split.bottleneck_seconds = best[0][0];
  for (int s = 0, at = 0; s < stages; ++s) {
    split.begins.push_back(at);
    at = next[s][at];
  }
  return split;
}

}  // namespace oc
