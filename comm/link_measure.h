// Measures links and all-reduce: what planning knows of communication.
//
//   OC_ASSIGN_OR_RETURN(std::vector<LinkCurve> links, MeasureLinks(transport, {}));  // on every
//   rank
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/comm/group.h"
#include "openclaw/core/cluster.h"

namespace oc {

struct LinkMeasureOptions {
  // Ascending, at least 1.
  std::vector<int64_t> sizes = {64,        1 << 10, 4 << 10, 16 << 10, 64 << 10,
                                256 << 10, 1 << 20, 4 << 20, 16 << 20};
  int repetitions = 5;  // the median of these; one more, not counted, warms up
  double timeout_seconds = 30;
  int64_t tag = (int64_t{1} << 62);  // and the one above: no other message bears them meanwhile
};

// Both ranks of a pair call it at once, with equal options; both get the same curve: one-way
// seconds, half of a round trip.
StatusOr<LinkCurve> MeasureLink(Transport& transport, int peer, const LinkMeasureOptions& options);

// Every rank calls it. One pair after the other, so that none disturbs another. All get the curves
// of all pairs as ClusterSpec::links has them: [from * size + to], the diagonal empty.
StatusOr<std::vector<LinkCurve>> MeasureLinks(Transport& transport,
                                              const LinkMeasureOptions& options);

// Every member calls it: seconds of a sum of f32 by bytes, as member 0 sees it; the same on all.
StatusOr<LinkCurve> MeasureAllReduce(Group& group, const LinkMeasureOptions& options);

}  // namespace oc
