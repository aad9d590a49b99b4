// From a model to the two graphs that training plans: one micro-batch forward and backward, and the
// update.
#pragma once

#include "openclaw/graph/graph.h"
#include "openclaw/optim/optimizer.h"

namespace oc {

struct TrainingGraphs {
  Graph joint;   // bound, differentiated, after the passes
  Graph update;  // what the optimizer does once a step
};

// Binds the batch dimension B to `micro_batch`; with `recompute`, activations of marked modules are
// computed again in backward. kInvalidArgument names a dimension that nobody binds; else errors of
// autodiff, passes and optimizer.
StatusOr<TrainingGraphs> BuildTrainingGraphs(const Graph& model, const HybridOptimizer& optimizer,
                                             int64_t micro_batch, bool recompute);

}  // namespace oc
