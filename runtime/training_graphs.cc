#include "openclaw/runtime/training_graphs.h"

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/passes.h"

namespace oc {

StatusOr<TrainingGraphs> BuildTrainingGraphs(const Graph& model, const HybridOptimizer& optimizer,
                                             int64_t micro_batch, bool recompute) {
  DimBinding binding;
  for (const std::string& name : model.UnboundDims()) {
    if (name != "B") {
      return InvalidArgument("model ", model.name, ": dimension ", name,
                             " is not bound; only the batch, B, is bound by training");
    }
    binding[name] = micro_batch;
  }
  TrainingGraphs graphs;
  OC_ASSIGN_OR_RETURN(const Graph bound, model.Bind(binding));
  OC_ASSIGN_OR_RETURN(graphs.joint, Differentiate(bound));
  PassOptions passes;
  if (!recompute) passes.disabled.push_back("recompute_marked");
  OC_RETURN_IF_ERROR(RunPasses(graphs.joint, DefaultPasses(), passes));
  OC_ASSIGN_OR_RETURN(graphs.update, optimizer.BuildUpdate(graphs.joint));
  return graphs;
}

}  // namespace oc
