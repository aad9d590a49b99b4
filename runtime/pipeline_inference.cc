// ElasticPipeline: forward-only Programs over the same stages and the same state.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "openclaw/comm/all_reduce.h"
#include "openclaw/partitioner/program/verify.h"
#include "openclaw/runtime/pipeline.h"
#include "openclaw/runtime/pipeline_internal.h"
#include "openclaw/runtime/profiler.h"

namespace oc {

class ElasticPipeline::EvalHost : public StepHost {
 public:
  // Micro-batch g of the Program is batches[g].
  EvalHost(const ElasticPipeline& pipeline, const Program& program, const Dataset* dataset,
           std::span<const MicroBatch> batches, const std::map<std::string, Tensor>* inputs)
      : pipeline_(pipeline),
        dataset_(dataset),
        batches_(batches),
        inputs_(inputs),
        results_(program.metrics.size(), 0.0f) {}

  Status Feed(int, const std::string& name, int g, std::span<std::byte> to) override {
    if (name == "metrics") {
      std::memset(to.data(), 0, to.size());
      return OkStatus();
    }
    if (name == "rng") return Store<int64_t>(to, RngWords(pipeline_.options_.seed, 0, 0));
    if (inputs_ == nullptr) return CopyFeature(*dataset_, batches_[g], name, to);
    auto it = inputs_->find(name);
    if (it == inputs_->end()) {  // such as labels, which the outputs do not depend on
      std::memset(to.data(), 0, to.size());
      return OkStatus();
    }
    const std::span<const std::byte> from = it->second.bytes();
    if (from.size() != to.size()) {
      return InvalidArgument("input ", name, " has ", from.size(), " bytes, the model takes ",
                             to.size());
    }
    std::memcpy(to.data(), from.data(), to.size());
    return OkStatus();
  }

  Status Snapshot(int vcu, const std::string& name, int, std::span<const std::byte> from) override {
    if (name == "metrics") {
      if (vcu == pipeline_.cluster_.vcus()[0]->index()) {
        std::memcpy(results_.data(), from.data(), from.size());
      }
      return OkStatus();
    }
    fetched_.assign(from.begin(), from.end());
    return OkStatus();
  }

  const std::vector<float>& results() const { return results_; }
  const std::vector<std::byte>& fetched() const { return fetched_; }

 private:
  const ElasticPipeline& pipeline_;
  const Dataset* dataset_;
  std::span<const MicroBatch> batches_;
  const std::map<std::string, Tensor>* inputs_;
  std::vector<float> results_;
  std::vector<std::byte> fetched_;
};

std::optional<double> EvalResult::accuracy() const {
  auto it = metrics.find("correct");
  if (it == metrics.end() || count <= 0) return std::nullopt;
  return it->second / count;
}

// A Program for micro-batches of one size; counts[r]: how many of them replica r of each stage
// takes.
StatusOr<ElasticPipeline::Inference*> ElasticPipeline::InferenceFor(int64_t micro_batch,
                                                                    const std::vector<int>& counts,
                                                                    const std::string& fetch) {
  std::string key = absl::StrCat(micro_batch, "/", fetch);
  int total = 0;
  for (int count : counts) {
    absl::StrAppend(&key, "/", count);
    total += count;
  }
  std::unique_ptr<Inference>& entry = inference_[key];
  if (entry == nullptr) {
    auto made = std::make_unique<Inference>();
    OC_ASSIGN_OR_RETURN(made->graph, BuildInferenceGraph(model_, micro_batch,
                                                         {*options_.amp_level, options_.half}));
    // Times are not needed to run, and measuring would take memory.
    CostTable costs = costs_;
    OC_RETURN_IF_ERROR(ProfileGraphs(cluster_, made->graph, nullptr, costs,
                                     {.measure = false,
                                      .parts = planned_.plan.shard > 0,
                                      .compute_types = planned_.plan.compute_types}));
    made->plan = planned_.plan;
    made->plan.recomputed.clear();
    made->plan.micro_batch = micro_batch;
    made->plan.micro_batches = total;
    for (StagePlan& stage : made->plan.stages) {
      stage.owner.clear();
      const int replicas = static_cast<int>(stage.vcus.size());
      for (size_t r = 0; r < counts.size(); ++r) {
        stage.owner.insert(stage.owner.end(), counts[r], stage.vcus[r % replicas]);
      }
    }
    LowerOptions options = PartitionOptionsOf(options_).lower;
    options.state_of = &planned_.program;
    if (!fetch.empty()) options.fetch = {fetch};
    OC_ASSIGN_OR_RETURN(made->program,
                        Lower({made->graph, nullptr, made->plan, cluster_.spec(), costs}, options));
    OC_RETURN_IF_ERROR(Verify(made->program, cluster_.spec()));
    entry = std::move(made);
  }
  step_arena_ = StepArena::kInference;
  // Where a step arena has to grow, executors that were bound to it are made again.
  for (const auto& vcu : cluster_.vcus()) {
    const VcuProgram& p = entry->program.vcus[vcu->index()];
    const int64_t train = program().vcus[vcu->index()].step_bytes;
    if (p.step_bytes <= std::max(train, reserved_step_bytes_[vcu->index()])) continue;
    executor_.reset();
    for (auto& [other, inference] : inference_) inference->executor.reset();
    reserved_step_bytes_[vcu->index()] = p.step_bytes;
    OC_RETURN_IF_ERROR(vcu->Reserve(p.state_bytes, p.step_bytes));
  }
  if (entry->executor == nullptr) {
    OC_ASSIGN_OR_RETURN(entry->executor,
                        Executor::Create(entry->program, cluster_.local(),
                                         {.timeout_seconds = options_.timeout_seconds,
                                          .epoch = next_epoch_++,
                                          .capture = options_.capture}));
  }
  return entry.get();
}

StatusOr<EvalResult> ElasticPipeline::Evaluate(const Dataset& dataset) {
  if (dataset.size() < 1) return InvalidArgument("evaluate: the data set is empty");
  if (model_.loss_sum == kNone)
    return InvalidArgument("evaluate: model ", model_.name, " has no loss");
  const int64_t b = options_.micro_batch;
  const int replicas = static_cast<int>(planned_.plan.stages[0].vcus.size());
  // Rounds keep the pipeline full; what is left over goes to fewer micro-batches, at last to a
  // smaller one.
  const int64_t round =
      static_cast<int64_t>(replicas) * std::max(4, 2 * planned_.plan.pipeline_depth());
  EvalResult result;
  std::vector<MicroBatch> batches;
  for (int64_t g = 0; g < round; ++g) batches.emplace_back(dataset, b);
  const int64_t full = dataset.size() / b;
  int64_t at = 0;  // sample
  const auto run = [&](int64_t size, int64_t count) -> Status {
    std::vector<int> counts(replicas, 0);
    for (int r = 0; r < replicas; ++r) {
      counts[r] = static_cast<int>(count / replicas + (r < count % replicas ? 1 : 0));
    }
    OC_ASSIGN_OR_RETURN(Inference * inference, InferenceFor(size, counts, ""));
    std::vector<int64_t> indices(static_cast<size_t>(size));
    for (int64_t g = 0; g < count; ++g) {
      for (int64_t i = 0; i < size; ++i) indices[i] = at++;
      OC_RETURN_IF_ERROR(batches[g].Fill(indices));
    }
    EvalHost host(*this, inference->program, &dataset, batches, nullptr);
    const Status ran = inference->executor->Run(host);
    if (!ran.ok()) {
      const Status failure = cluster_.failure();
      return Annotate(failure.ok() ? ran : failure, "evaluate");
    }
    for (size_t i = 0; i < inference->program.metrics.size(); ++i) {
      result.metrics[inference->program.metrics[i]] += host.results()[i];
    }
    return OkStatus();
  };
  for (int64_t done = 0; done < full;) {
    const int64_t count = std::min(round, full - done);
    OC_RETURN_IF_ERROR(run(b, count));
    done += count;
  }
  if (at < dataset.size()) OC_RETURN_IF_ERROR(run(dataset.size() - at, 1));
  result.count = result.metrics["loss_count"];
  result.loss = result.metrics["loss_sum"] / result.count;
  return result;
}

StatusOr<Tensor> ElasticPipeline::Forward(const std::map<std::string, Tensor>& inputs,
                                          const std::string& name) {
  if (inputs.empty()) return InvalidArgument("forward: no inputs");
  const Shape& shape = inputs.begin()->second.shape();
  if (shape.rank() < 1)
    return InvalidArgument("forward: input ", inputs.begin()->first, " has no batch");
  std::vector<int> counts(planned_.plan.stages[0].vcus.size(), 0);
  counts[0] = 1;
  OC_ASSIGN_OR_RETURN(Inference * inference, InferenceFor(shape[0].size(), counts, name));
  EvalHost host(*this, inference->program, nullptr, {}, &inputs);
  const Status ran = inference->executor->Run(host);
  if (!ran.ok()) {
    const Status failure = cluster_.failure();
    return Annotate(failure.ok() ? ran : failure, "forward");
  }
  // The process of the stage that computes it tells the others.
  int owner = 0;
  for (size_t i = 0; i < inference->program.vcus.size(); ++i) {
    for (const Command& c : inference->program.vcus[i].commands) {
      if (c.kind == CommandKind::kSnapshot && c.name == name) owner = static_cast<int>(i);
    }
  }
  const int rank = cluster_.spec().vcus[owner].process;
  const std::string mine(reinterpret_cast<const char*>(host.fetched().data()),
                         host.fetched().size());
  OC_ASSIGN_OR_RETURN(const std::string bytes,
                      cluster_.job().Broadcast(mine, rank, "output", options_.timeout_seconds));
  for (const auto& [output, v] : inference->graph.outputs) {
    if (output != name) continue;
    Tensor result(inference->graph.value(v).type);
    if (bytes.size() != result.bytes().size()) return Internal("forward: output of another size");
    std::memcpy(result.bytes().data(), bytes.data(), bytes.size());
    return result;
  }
  return InvalidArgument("forward: the model has no output ", name);
}

}  // namespace oc
