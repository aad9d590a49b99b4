// ElasticPipeline: the training API. A model, a cluster and an optimizer become a plan and a
// Program; Step runs it.
//
//   OC_ASSIGN_OR_RETURN(auto pipeline, oc::ElasticPipeline::Create(
//       model, cluster, optimizer, {.micro_batch = 8, .global_batch = 512, .pipeline_depth = 2}));
//   OC_ASSIGN_OR_RETURN(oc::Batches batches, pipeline->UseData(dataset, /*steps=*/1000));
//   for (const oc::Batch& batch : batches) {
//     OC_ASSIGN_OR_RETURN(oc::StepResult step, pipeline->Step(batch));
//   }
//   OC_RETURN_IF_ERROR(pipeline->Save("run/checkpoints"));
//
// Every process of the job makes the same calls in the same order. One thread at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/optim/loss_scaler.h"
#include "openclaw/optim/optimizer.h"
#include "openclaw/partitioner/partition.h"
#include "openclaw/runtime/checkpoint/store.h"
#include "openclaw/runtime/cluster.h"
#include "openclaw/runtime/data/loader.h"
#include "openclaw/runtime/executor.h"
#include "openclaw/runtime/measure_costs.h"
#include "openclaw/runtime/training_graphs.h"

namespace oc {

struct PipelineOptions {
  int64_t micro_batch = 32;
  std::optional<int64_t> global_batch;
  std::optional<int64_t> gradient_accumulation;
  std::optional<int64_t> pipeline_depth;
  std::optional<int64_t> data_parallel;
  std::string schedule = "auto";
  // What is computed again in backward (RecomputeOptions): auto, none, marked, full; or modules, by
  // name or pattern.
  std::string recompute = "auto";
  std::vector<std::string> recompute_modules;
  ActivationBudget activation_budget;
  std::vector<std::string> stages;  // modules to cut after
  Balance balance = Balance::kMeasured;
  // None: of O0, O1 and O2 the one that is predicted to take most samples a second.
  std::optional<AmpLevel> amp_level = AmpLevel::kO0;
  DType half = DType::kBF16;  // what amp_level computes in
  LossScaleConfig loss_scale;
  AllReduce allreduce_algorithm = AllReduce::kAuto;
  // Plan::shard: 1 divides the optimizer's states over replicas, 2 the gradients too, 3 the
  // parameters too; none: what is fastest and fits. What a replica's part is as large as.
  std::optional<int> shard = 0;
  ShardBy shard_by = ShardBy::kEqual;
  OffloadConfig offload;
  bool overlap_reductions = true;  // LowerOptions
  uint64_t seed = 1;               // of initial values, data order and dropout
  bool capture = true;             // ExecutorOptions::capture
  int64_t total_steps = 0;         // what learning-rate schedules run towards
  int data_workers = 1;
  double timeout_seconds = 30;  // of every blocking call between VCUs
  std::string plan_json;        // a plan to run again, instead of planning
  std::string profile_path;     // op costs are read from and kept in this file, if given
  double profile_seconds = 3;
  // Measure what divided state takes also where `shard` is 0, for what is said of other plans.
  bool profile_parts = false;
  int64_t epoch = 0;
};

// What of the options is planning's.
PartitionOptions PartitionOptionsOf(const PipelineOptions& options);
// What of the options makes the graphs, for these VCUs. Precondition: they name an amp_level.
TrainingGraphOptions TrainingGraphOptionsOf(const PipelineOptions& options,
                                            const ClusterSpec& cluster);

struct StepResult {
  int64_t step = 0;  // steps done, this one included
  double loss = 0;   // mean over the global batch
  double lr = 0;
  double grad_norm = 0;   // before clipping, without the loss scale
  double loss_scale = 1;  // of this step
  // The gradients were not finite: parameters and states are as before, the scale is lowered.
  bool skipped = false;
  std::map<std::string, double>
      metrics;         // sums over the global batch: "correct", "loss_count", ...
  double seconds = 0;  // whole, waiting for data included
  double data_wait_seconds = 0;
  double exposed_comm_seconds = 0;  // the largest of this process's VCUs
  bool stop = false;                // some process asked to stop (RequestStop)
};

struct EvalResult {
  double loss = 0;
  double count = 0;  // of what the loss is a mean over
  std::map<std::string, double> metrics;
  std::optional<double> accuracy()
      const;  // correct / count, where the model counts correct answers
};

class ElasticPipeline {
 public:
  // Plans, checks, measures and initialises. Errors of every part, as they say; kUnimplemented for
  // what is not built. `cluster` must outlive the pipeline; the optimizer is copied.
  static StatusOr<std::unique_ptr<ElasticPipeline>> Create(const Graph& model, Cluster& cluster,
                                                           const HybridOptimizer& optimizer,
                                                           const PipelineOptions& options);
  ~ElasticPipeline();

  // Training reads `dataset`, ahead of the steps, and nothing beyond the last of `steps`: it must
  // outlive those, or, where fewer are taken, the pipeline or the next UseData. Its features are
  // the model's data inputs by name. Returns the batches of `steps` steps from the present one on.
  // Starts prefetching.
  StatusOr<Batches> UseData(const Dataset& dataset, int64_t steps);
  // One step on the samples of `batch` (indices only: each process loads those that its VCUs take).
  // Where the loss or the gradients are not finite and no loss scale can help: kFailedPrecondition
  // naming the step and where such a value first arose; parameters and states are then those of the
  // step before.
  StatusOr<StepResult> Step(const Batch& batch);
  // Loss and metrics over the whole data set, in order; the last micro-batch may be smaller.
  StatusOr<EvalResult> Evaluate(const Dataset& dataset);
  // Runs the model forward on one micro-batch of `inputs` and returns output `name` on every
  // process.
  StatusOr<Tensor> Forward(const std::map<std::string, Tensor>& inputs, const std::string& name);

  // Writes DIR/step-N (atomic) and keeps the newest `keep`; returns its path.
  StatusOr<std::string> Save(const std::string& dir, int keep = 0, const std::string& config = "");
  // Takes state, step and data position from a checkpoint folder of any plan. kInvalidArgument
  // where a variable is missing or has another type.
  Status Load(const std::string& path);
  // Takes only what evaluation and generation need, parameters and running statistics, whatever
  // batch, seed and optimizer the run had.
  // With `ema` the parameters are the checkpoint's moving averages: kInvalidArgument where it has
  // none.
  Status LoadModel(const std::string& path, bool ema = false);
  // Initial values from a safetensors file, by name: every parameter and state of the model must be
  // there, with its shape; other dtypes are converted. kInvalidArgument names what does not fit.
  Status LoadWeights(const std::string& path);
  // The same from weights that may be of some variables only, as those of a .oc file: the others
  // keep the values that they have.
  Status LoadWeights(const SafetensorsReader& weights);
  // Makes this process ask all to stop: Step tells everybody in the same step. Signal-safe.
  void RequestStop() { stop_requested_.store(true, std::memory_order_relaxed); }

  // What learning-rate schedules run towards.
  void set_total_steps(int64_t steps) { options_.total_steps = steps; }

  // What every level of mixed precision that the VCUs have would take, each with a plan of its own;
  // what differs from this run's is measured. Every process calls it; the first one gets the rows.
  StatusOr<std::vector<PlanAlternative>> CompareLevels();

  int64_t step() const { return step_; }
  AmpLevel amp_level() const { return *options_.amp_level; }
  const Plan& plan() const { return planned_.plan; }
  const Program& program() const { return planned_.program; }
  const Simulation& simulation() const { return planned_.simulation; }
  const Graph& joint() const { return joint_; }
  const Graph& update() const { return update_; }
  const HybridOptimizer& optimizer() const { return optimizer_; }
  const CostTable& costs() const { return costs_; }
  int64_t global_batch() const { return planned_.plan.micro_batch * planned_.plan.micro_batches; }
  // Of the last training step.
  Executor& executor() { return *executor_; }
  Cluster& cluster() const { return cluster_; }
  // Memory of this process that the pipeline will take: arenas that lie in the host's memory, what
  // is staged for devices whose memory the host cannot touch and for ops that they lack, buffers of
  // the loader. A device without cores of the host is taken to have memory of its own.
  int64_t predicted_process_bytes() const;
  // Resident memory of this process just before its first arena.
  int64_t process_bytes_before() const { return process_bytes_before_; }
  // Measured peak of all VCUs together, products in the type that each computes in: what MFU is a
  // share of.
  double peak_flops() const { return peak_flops_; }
  // A variable or a reduced gradient ("grad.NAME") that one of this process's VCUs holds; else
  // kInvalidArgument. Gradients are those of the last training step: kFailedPrecondition before
  // one, after one that failed, and once Evaluate or Forward has used their memory.
  StatusOr<Tensor> ReadVariable(const std::string& name) const;
  // Floating-point operations of one step over all VCUs, without what is computed again.
  double step_flops() const { return step_flops_; }

 private:
  class TrainHost;
  class EvalHost;
  struct Inference {  // a forward-only Program and its executor
    Graph graph;
    Plan plan;
    Program program;
    std::unique_ptr<Executor> executor;
  };

  ElasticPipeline(Cluster& cluster, const HybridOptimizer& optimizer,
                  const PipelineOptions& options)
      : cluster_(cluster), optimizer_(optimizer), options_(options) {}
  Status LoadProfile();
  Status KeepProfile() const;
  Status MeasurePeak();
  ProfileOptions PlanningCosts() const;
  Status PlanAndProfile(const Graph& model);
  // Sets options_.amp_level where it is open, and plans.
  Status ChooseLevel(const Graph& model);
  Status MakePlan();
  Status InitializeState();
  Status MakeExecutor();
  StatusOr<Inference*> InferenceFor(int64_t micro_batch, const std::vector<int>& counts,
                                    const std::string& fetch);
  StatusOr<std::span<const MicroBatch>> Load(const Batch& batch);
  // What of a checkpoint is read: all, or the model's variables, of which the parameters may be
  // the moving averages.
  enum class ReadWhat { kAll, kModel, kAverages };
  Status ReadState(const class Checkpoint& checkpoint, ReadWhat what);
  // The error of a step whose loss or gradients are not finite: where that began, and `advice`.
  Status ExplainNonFinite(const StepResult& step, TrainHost& host, const std::string& advice);
  // Updates so far: skipped steps are none.
  int64_t updates() const { return step_ - (scaler_.has_value() ? scaler_->state().skipped : 0); }
  // Whether the step arenas hold the gradients of the last training step.
  Status CheckGradients() const;

  Cluster& cluster_;
  HybridOptimizer optimizer_;
  PipelineOptions options_;
  Graph model_;                       // as given
  Graph joint_, update_;              // bound
  std::optional<LossScaler> scaler_;  // where the loss is scaled
  CostTable costs_;
  PlannedProgram planned_;
  std::unique_ptr<Executor> executor_;
  std::map<std::string, std::unique_ptr<Inference>> inference_;
  int64_t next_epoch_ = 0;
  int64_t step_ = 0;
  Status failed_step_;          // ended in the middle
  bool level_is_open_ = false;  // precision.amp_level: auto
  // What the step arenas hold: nothing of use, a training step's values, or an evaluation's.
  enum class StepArena { kNothing, kTraining, kInference } step_arena_ = StepArena::kNothing;
  double step_flops_ = 0, peak_flops_ = 0;
  int64_t process_bytes_before_ = 0;
  std::map<int, int64_t> reserved_step_bytes_;  // by VCU, where inference needs more than training
  std::vector<int64_t> mine_;                   // logical micro-batches that this process loads
  const Dataset* dataset_ = nullptr;
  std::unique_ptr<Loader> loader_;
  std::vector<MicroBatch> direct_;  // for batches that are not the loader's
  std::atomic<bool> stop_requested_{false};
};

}  // namespace oc
