// An op of one's own: its shape rule and gradient, a kernel for processors, and, in
// plugin/plain_device.c, one for another device. A network with it trains over both at once.
//
//   own_op LIBRARY    the plugin's, such as libplain_device.so
#include <openclaw/openclaw.h>

#include <cmath>
#include <cstdio>

namespace {

// y = x / (1 + |x|), and dx = dy / (1 + |x|)^2.
oc::StatusOr<std::shared_ptr<const oc::OpRegistry>> OpsWithSoftsign() {
  std::shared_ptr<oc::OpRegistry> ops = oc::NewRegistryWithBuiltinOps();
  const auto as_first = [](const oc::InferArgs& args) -> oc::StatusOr<std::vector<oc::TensorType>> {
    return std::vector<oc::TensorType>{args.inputs[0]};
  };
  OC_RETURN_IF_ERROR(
      ops->Add({.name = "softsign", .infer = as_first, .gradient = [](oc::GradContext& c) {
                  c.Set(0, c.b.Op("softsign_grad", {c.grad(), c.input(0)}));
                  return oc::OkStatus();
                }}));
  OC_RETURN_IF_ERROR(
      ops->Add({.name = "softsign_grad", .min_inputs = 2, .max_inputs = 2, .infer = as_first}));
  return ops;
}

oc::Status Softsign(const oc::OpRequest& r, const oc::KernelArgs& args) {
  const float* x = args.in<float>(0);
  float* y = args.out<float>(0);
  args.pool.ParallelFor(r.outputs[0].shape.num_elements(), 4096, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) y[i] = x[i] / (1 + std::fabs(x[i]));
  });
  return oc::OkStatus();
}

oc::Status SoftsignGrad(const oc::OpRequest& r, const oc::KernelArgs& args) {
  const float *dy = args.in<float>(0), *x = args.in<float>(1);
  float* dx = args.out<float>(0);
  args.pool.ParallelFor(r.outputs[0].shape.num_elements(), 4096, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) dx[i] = dy[i] / ((1 + std::fabs(x[i])) * (1 + std::fabs(x[i])));
  });
  return oc::OkStatus();
}

// What a device has no kernel for is said when an op is prepared, before anything runs.
oc::KernelFactory ForF32(oc::KernelFunction function) {
  return [function](const oc::OpRequest& r,
                    int threads) -> oc::StatusOr<std::unique_ptr<oc::HostKernel>> {
    if (r.inputs[0].dtype != oc::DType::kF32) {
      return oc::Unimplemented(oc::ToString(r), ": there is f32");
    }
    return oc::StatelessKernel(function, "own")(r, threads);
  };
}

std::shared_ptr<const oc::KernelRegistry> SoftsignKernels() {
  auto kernels = std::make_shared<oc::KernelRegistry>();
  kernels->Add("softsign", ForF32(&Softsign));
  kernels->Add("softsign_grad", ForF32(&SoftsignGrad));
  return kernels;
}

oc::StatusOr<oc::Graph> Model() {
  OC_ASSIGN_OR_RETURN(auto ops, OpsWithSoftsign());
  oc::GraphBuilder b("softsign_net", ops);
  const oc::Val images = b.Data("images", {oc::DType::kF32, {oc::Dim("B"), 8, 8, 1}});
  const oc::Val labels = b.Data("labels", {oc::DType::kI32, {oc::Dim("B")}});
  oc::Val x = b.Reshape(images, {oc::Dim("B"), 64});
  for (const char* name : {"fc1", "fc2"}) {
    x = b.Op("softsign", {oc::nn::Linear{name, 48}(b, x)});
  }
  x = oc::nn::Linear{"fc3", 10}(b, x);
  b.Loss(b.OpN("cross_entropy", {x, labels})[0], b.Op("count_valid", {labels}));
  return b.Finish();
}

// The loss after some steps over these devices.
oc::StatusOr<double> Train(const std::string& plugin, std::vector<oc::ClusterEntry> entries,
                           int depth, int replicas) {
  OC_ASSIGN_OR_RETURN(const oc::DeviceRegistry devices,
                      oc::LeavesWithPlugins({plugin}, SoftsignKernels()));
  OC_ASSIGN_OR_RETURN(const oc::Graph model, Model());
  OC_ASSIGN_OR_RETURN(
      oc::Cluster cluster,
      oc::Cluster::Discover({.config = {.entries = std::move(entries)}, .registry = &devices}));
  const auto data = oc::MakeSyntheticImages({.size = 256, .height = 8, .width = 8});
  OC_ASSIGN_OR_RETURN(auto pipeline, oc::ElasticPipeline::Create(
                                         model, cluster, oc::Sgd{.lr = 0.1, .momentum = 0.9},
                                         {.micro_batch = 8,
                                          .global_batch = 32,
                                          .pipeline_depth = depth,
                                          .data_parallel = replicas}));
  OC_ASSIGN_OR_RETURN(const oc::Batches batches, pipeline->UseData(*data, 30));
  double loss = 0;
  for (const oc::Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const oc::StepResult step, pipeline->Step(batch));
    loss = step.loss;
  }
  for (const oc::Substitute& s : pipeline->plan().substitutes) {
    if (s.op.rfind("softsign", 0) == 0) return oc::Internal(s.vcu, " has no kernel of ", s.op);
  }
  pipeline.reset();
  OC_RETURN_IF_ERROR(cluster.Leave(30));
  return loss;
}

oc::Status Run(const std::string& plugin) {
  const oc::ClusterEntry cpu = {.device = "cpu", .cores = 1}, plain = {.device = "plain"};
  OC_ASSIGN_OR_RETURN(const double alone, Train(plugin, {cpu}, 1, 1));
  OC_ASSIGN_OR_RETURN(const double pipeline, Train(plugin, {cpu, plain}, 2, 1));
  OC_ASSIGN_OR_RETURN(const double replicas, Train(plugin, {plain, cpu}, 1, 2));
  std::printf("loss: cpu %.6f, cpu then plain %.6f, plain beside cpu %.6f\n", alone, pipeline,
              replicas);
  const double difference = std::max(std::fabs(pipeline - alone), std::fabs(replicas - alone));
  if (alone > 0.5) return oc::Internal("the model was not learnt");
  return difference < 1e-4 * alone ? oc::OkStatus() : oc::Internal("the devices differ");
}

}  // namespace

int main(int argc, char** argv) {
  const oc::Status status =
      argc == 2 ? Run(argv[1]) : oc::InvalidArgument("give the plugin's library");
  if (!status.ok()) std::fprintf(stderr, "own_op: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
