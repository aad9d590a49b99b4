// What a stage would cost, for any run of the model's nodes: prefix sums over the forward nodes in
// their order, so that a stage split can be searched quickly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/core/cost_table.h"
#include "openclaw/graph/graph.h"

namespace oc {

class StageCosts {
 public:
  // For VCUs of one kind. `graph` is bound; `update` may be null. kFailedPrecondition: a cost is
  // missing.
  // `states_away`: the optimizer's states need not lie in the VCU's memory.
  static StatusOr<StageCosts> Create(const Graph& graph, const Graph* update,
                                     const std::string& kind, const CostTable& costs,
                                     bool states_away = false);

  // The mean of several kinds' costs of one graph, for a plan that takes unlike VCUs to be equally
  // fast. Precondition: not empty.
  static StageCosts Mean(const std::vector<const StageCosts*>& costs);

  // The candidates: unit i holds the nodes whose origin is origins()[i]. A stage is units [begin,
  // end).
  int units() const { return static_cast<int>(origins_.size()); }
  const std::vector<int>& origins() const { return origins_; }
  // Seconds of one micro-batch, forward and backward.
  double Seconds(int begin, int end) const { return Sum(seconds_, begin, end); }
  // Parameters, their optimizer state and their gradients. Shared ones count on each stage.
  int64_t StateBytes(int begin, int end) const { return Sum(state_bytes_, begin, end); }
  // Kept from forward to backward, a micro-batch.
  int64_t StashBytes(int begin, int end) const { return Sum(stash_bytes_, begin, end); }
  // Crosses the boundary before unit `at`, each way, a micro-batch.
  int64_t BoundaryBytes(int at) const { return boundary_bytes_[at]; }
  // Whether a stage may begin at unit `at`: the loss and its count are not parted, nor a running
  // statistic and its mean, nor what is computed again in backward.
  bool MayCut(int at) const { return may_cut_[at]; }

 private:
  template <typename T>
  static T Sum(const std::vector<T>& prefix, int begin, int end) {
    return prefix[end] - prefix[begin];
  }
  std::vector<int> origins_;
  std::vector<double> seconds_;  // prefix sums: one more than units
  std::vector<int64_t> state_bytes_, stash_bytes_;
  std::vector<int64_t> boundary_bytes_;
  std::vector<bool> may_cut_;
};

}  // namespace oc
