#include "openclaw/partitioner/stage_split.h"

#include <algorithm>
#include <limits>

#include "openclaw/partitioner/shares.h"

namespace oc {

std::vector<double> ReplicaSeconds(const StageSplitOptions& o, int stage, int begin, int end) {
  const StageCosts& any = *o.costs[stage][0];
  double messages = 0;
  // Forward and gradient cross each boundary once a micro-batch.
  const auto add = [&](int boundary, int at) {
    messages += 2 * (o.latency_seconds[boundary] +
                     o.seconds_per_byte[boundary] * static_cast<double>(any.BoundaryBytes(at)));
  };
  if (stage > 0) add(stage - 1, begin);
  if (stage + 1 < static_cast<int>(o.costs.size())) add(stage, end);
  std::vector<double> seconds;
  for (const StageCosts* costs : o.costs[stage]) {
    seconds.push_back(costs->Seconds(begin, end) + messages);
  }
  return seconds;
}

double StageSeconds(const StageSplitOptions& o, int stage, int begin, int end) {
  const std::vector<double> seconds = ReplicaSeconds(o, stage, begin, end);
  if (seconds.size() == 1) return seconds[0];
  return ShareSeconds(seconds, FastestShares(seconds, o.micro_batches, o.least_share)) /
         o.micro_batches;
}

int64_t StageBytes(const StageSplitOptions& o, int stage, int begin, int end) {
  const StageCosts& costs = *o.costs[stage][0];
  const double state = o.state_share * static_cast<double>(costs.StateBytes(begin, end));
  const auto stash = static_cast<double>(o.in_flight[stage] * costs.StashBytes(begin, end));
  return static_cast<int64_t>(state + o.stash_share * stash);
}

StatusOr<StageSplit> SplitStages(const StageSplitOptions& o) {
  const int stages = static_cast<int>(o.costs.size());
  const StageCosts& any = *o.costs[0][0];  // where may be cut is the same for all
  const int n = any.units();
  int places = 0;
  for (int at = 1; at < n; ++at) places += any.MayCut(at) ? 1 : 0;
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
      if (s == 0 ? begin != 0 : !any.MayCut(begin)) continue;
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
