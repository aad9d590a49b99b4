// Trains a ready-made model over two virtual compute units with the C++ API, evaluates and saves
// it.
//
//   train_mlp [steps] [checkpoint folder]
#include <openclaw/openclaw.h>

#include <cstdio>
#include <cstdlib>

oc::Status Run(int64_t steps, const std::string& folder) {
  auto train = oc::MakeSyntheticImages({.size = 8192, .noise = 3.0});
  auto validation = oc::MakeSyntheticImages({.size = 1000, .noise = 3.0, .split = 1});

  OC_ASSIGN_OR_RETURN(const oc::Graph model,
                      oc::models::Mlp({.hidden = {256, 128}, .classes = 10, .dropout = 0.1}));
  OC_ASSIGN_OR_RETURN(oc::Cluster cluster, oc::Cluster::Discover({.vcus = 2}));
  const oc::HybridOptimizer optimizer(oc::AdamW{.lr = 1e-3, .weight_decay = 0.01},
                                      {.clip_norm = 1.0, .schedule = {.name = "cosine"}});
  OC_ASSIGN_OR_RETURN(auto pipeline, oc::ElasticPipeline::Create(model, cluster, optimizer,
                                                                 {.micro_batch = 32,
                                                                  .global_batch = 128,
                                                                  .pipeline_depth = 2,
                                                                  .data_parallel = 1,
                                                                  .total_steps = steps}));
  std::printf("%s", oc::PlanText({pipeline->plan(), pipeline->program(), pipeline->simulation()},
                                 pipeline->joint(), cluster.spec())
                        .c_str());

  OC_ASSIGN_OR_RETURN(const oc::Batches batches, pipeline->UseData(*train, steps));
  for (const oc::Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const oc::StepResult step, pipeline->Step(batch));
    if (step.step % 20 == 0 || step.step == steps) {
      std::printf("step %lld  loss %.4f  %.2f ms\n", static_cast<long long>(step.step), step.loss,
                  step.seconds * 1e3);
    }
  }
  OC_ASSIGN_OR_RETURN(const oc::EvalResult result, pipeline->Evaluate(*validation));
  std::printf("validation loss %.4f, accuracy %.3f\n", result.loss, result.accuracy().value_or(0));
  if (!folder.empty()) {
    OC_ASSIGN_OR_RETURN(const std::string path, pipeline->Save(folder));
    std::printf("saved %s\n", path.c_str());
  }
  pipeline.reset();
  return cluster.Leave(/*timeout_seconds=*/30);
}

int main(int argc, char** argv) {
  const oc::Status status =
      Run(argc > 1 ? std::atoll(argv[1]) : 100, argc > 2 ? argv[2] : std::string());
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
