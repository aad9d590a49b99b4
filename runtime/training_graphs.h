// From a model to the two graphs that training plans: one micro-batch forward and backward, and the
// update.
#pragma once

#include "openclaw/graph/amp.h"
#include "openclaw/graph/graph.h"
#include "openclaw/optim/optimizer.h"

namespace oc {

struct TrainingGraphs {
  Graph joint;   // bound, differentiated, after the passes
  Graph update;  // what the optimizer does once a step
};

struct TrainingGraphOptions {
  int64_t micro_batch = 1;  // binds the batch dimension B
  AmpOptions amp;
  bool loss_scale = false;  // gradients are those of loss times the scalar "loss_scale"
};

// kInvalidArgument names a dimension that nobody binds; else errors of mixed precision, autodiff,
// passes and optimizer.
StatusOr<TrainingGraphs> BuildTrainingGraphs(const Graph& model, const HybridOptimizer& optimizer,
                                             const TrainingGraphOptions& options);

// What evaluation and generation run: the forward graph after the passes, on the same parameters.
StatusOr<Graph> BuildInferenceGraph(const Graph& model, int64_t micro_batch, const AmpOptions& amp);

}  // namespace oc
