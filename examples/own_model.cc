// A data set, a model and a loss of one's own: points on a spiral, a small network built of
// modules, and a squared error that is made of graph ops.
#include <openclaw/openclaw.h>

#include <cmath>
#include <cstdio>

// Features: "x" f32[2], a point; "y" f32[1], +1 or -1: which of two arms it lies on.
class Spiral : public oc::Dataset {
 public:
  explicit Spiral(uint64_t seed)
      : Dataset({{"x", {oc::DType::kF32, {2}}}, {"y", {oc::DType::kF32, {1}}}}), rng_(seed) {}
  int64_t size() const override { return 4096; }
  oc::Status Read(int64_t index, oc::Sample& sample) const override {
    const float t = oc::UniformFloat(rng_.Word(0, static_cast<uint64_t>(index)));
    const float sign = index % 2 == 0 ? 1.0f : -1.0f;
    const float angle = 7.0f * t, radius = sign * (0.2f + t);
    sample.row<float>(0)[0] = radius * std::cos(angle);
    sample.row<float>(0)[1] = radius * std::sin(angle);
    sample.row<float>(1)[0] = sign;
    return oc::OkStatus();
  }

 private:
  oc::Philox rng_;
};

oc::StatusOr<oc::Graph> SpiralModel() {
  oc::GraphBuilder b("spiral");
  const oc::Val x = b.Data("x", {oc::DType::kF32, {oc::Dim("B"), 2}});
  const oc::Val y = b.Data("y", {oc::DType::kF32, {oc::Dim("B"), 1}});
  oc::nn::Sequential net(
      "net", {oc::nn::Linear{"fc1", 64}, oc::nn::Relu{}, oc::nn::Linear{"fc2", 64}, oc::nn::Relu{},
              oc::nn::Linear{"fc3", 1}});
  const oc::Val error = b.Sub(net(b, x), y);
  // The loss is a sum over samples, with how many there are: the mean over the global batch is
  // exact on any plan. Every y counts, so that their number is that of y * y = 1.
  b.Loss(b.ReduceSum(b.Mul(error, error), {0, 1}), b.ReduceSum(b.Mul(y, y), {0, 1}));
  return b.Finish();
}

oc::Status Run() {
  const Spiral train(1), validation(2);
  OC_ASSIGN_OR_RETURN(const oc::Graph model, SpiralModel());
  OC_ASSIGN_OR_RETURN(oc::Cluster cluster, oc::Cluster::Discover({.vcus = 2}));
  const oc::HybridOptimizer optimizer(oc::AdamW{.lr = 1e-2});
  OC_ASSIGN_OR_RETURN(auto pipeline, oc::ElasticPipeline::Create(model, cluster, optimizer,
                                                                 {.micro_batch = 64,
                                                                  .global_batch = 256,
                                                                  .pipeline_depth = 1,
                                                                  .data_parallel = 2,
                                                                  .total_steps = 400}));
  OC_ASSIGN_OR_RETURN(const oc::Batches batches, pipeline->UseData(train, 400));
  for (const oc::Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const oc::StepResult step, pipeline->Step(batch));
    if (step.step % 100 == 0)
      std::printf("step %lld  loss %.4f\n", static_cast<long long>(step.step), step.loss);
  }
  OC_ASSIGN_OR_RETURN(const oc::EvalResult result, pipeline->Evaluate(validation));
  std::printf("validation loss %.4f\n", result.loss);
  pipeline.reset();
  return result.loss < 0.2 ? cluster.Leave(30) : oc::Internal("the spiral was not learnt");
}

int main() {
  const oc::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
