#include "openclaw/runtime/training_graphs.h"

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/passes.h"

namespace oc {

StatusOr<TrainingGraphs> BuildTrainingGraphs(const Graph& model, const HybridOptimizer& optimizer,
                                             const TrainingGraphOptions& options) {
  DimBinding binding;
  for (const std::string& name : model.UnboundDims()) {
    if (name != "B") {
      return InvalidArgument("model ", model.name, ": dimension ", name,
                             " is not bound; only the batch, B, is bound by training");
    }
    binding[name] = options.micro_batch;
  }
  TrainingGraphs graphs;
  OC_ASSIGN_OR_RETURN(Graph forward, model.Bind(binding));
  AmpOptions amp = options.amp;
  amp.keep_outputs = false;
  OC_ASSIGN_OR_RETURN(forward, ApplyAmp(forward, amp));
  OC_ASSIGN_OR_RETURN(graphs.joint, Differentiate(forward, {.loss_scale = options.loss_scale}));
  OC_RETURN_IF_ERROR(WidenGradientSums(graphs.joint));
  OC_RETURN_IF_ERROR(RunPasses(graphs.joint, DefaultPasses(), {}));
  OC_ASSIGN_OR_RETURN(graphs.update, optimizer.BuildUpdate(graphs.joint));
  return graphs;
}

StatusOr<Graph> BuildInferenceGraph(const Graph& model, int64_t micro_batch,
                                    const AmpOptions& amp) {
  OC_ASSIGN_OR_RETURN(Graph forward, model.Bind({{"B", micro_batch}}));
  OC_ASSIGN_OR_RETURN(forward, ApplyAmp(forward, amp));
  OC_ASSIGN_OR_RETURN(Graph graph, ForInference(forward));
  OC_RETURN_IF_ERROR(RunPasses(graph, DefaultPasses(), {}));
  return graph;
}

}  // namespace oc
