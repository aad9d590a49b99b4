#include "openclaw/runtime/pipeline.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "openclaw/comm/all_reduce.h"
#include "openclaw/core/clock.h"
#include "openclaw/core/logging.h"
#include "openclaw/graph/builder.h"
#include "openclaw/optim/learning_rate.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/runtime/pipeline_internal.h"
#include "openclaw/runtime/precision.h"
#include "openclaw/runtime/profiler.h"
#include "openclaw/runtime/report/memory.h"
#include "openclaw/runtime/training_graphs.h"

namespace oc {
namespace {

Status CheckOptions(const PipelineOptions& o) {
  if (o.amp_level == AmpLevel::kO2Fp8) {
    return Unimplemented("precision.amp_level ", Name(*o.amp_level), "; there are O0, O1, O2, O3");
  }
  if (o.shard.has_value() && (*o.shard < 0 || *o.shard > 3)) {
    return InvalidArgument("parallel.shard is ", *o.shard, ", wants 0 to 3, or auto");
  }
  if (o.offload.optimizer != "none" && o.offload.optimizer != "host" &&
      o.offload.optimizer != "file" && o.offload.optimizer != "auto") {
    return InvalidArgument("parallel.offload.optimizer '", o.offload.optimizer,
                           "'; there are none, host, file, auto");
  }
  if (o.offload.update != "auto" && o.offload.update != "device" && o.offload.update != "host") {
    return InvalidArgument("parallel.offload.update '", o.offload.update,
                           "'; there are auto, device, host");
  }
  if (o.allreduce_algorithm != AllReduce::kAuto && o.allreduce_algorithm != AllReduce::kRing) {
    return Unimplemented("comm_options.allreduce_algorithm ", Name(o.allreduce_algorithm),
                         "; there is ring");
  }
  return OkStatus();
}

bool ScalesLoss(const PipelineOptions& o, const ClusterSpec& cluster) {
  using Mode = LossScaleConfig::Mode;
  switch (o.loss_scale.mode) {
    case Mode::kDynamic:
      return true;
    case Mode::kFixed:
      return o.loss_scale.value != 1;
    case Mode::kAuto:
      break;
  }
  if (o.amp_level == AmpLevel::kO0) return false;
  if (o.half == DType::kF16) return true;
  // Those without bf16 compute in f16, if they have it.
  return std::any_of(cluster.vcus.begin(), cluster.vcus.end(), [](const VcuSpec& v) {
    const auto has = [&](DType dtype) {
      return std::find(v.dtypes.begin(), v.dtypes.end(), dtype) != v.dtypes.end();
    };
    return !has(DType::kBF16) && has(DType::kF16);
  });
}

double Flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    // What is run again to save memory is no useful work.
    if (node.phase == Phase::kRecompute) continue;
    std::vector<TensorType> inputs, outputs;
    for (int v : node.inputs) inputs.push_back(graph.value(v).type);
    for (int v : node.outputs) outputs.push_back(graph.value(v).type);
    flops += DefaultCost(*node.def, {inputs, node.attrs}, outputs).flops;
  }
  return flops;
}

// Whether states may be updated on the hosts: what that takes is then measured.
bool UsesHosts(const PipelineOptions& o) {
  const bool may = (o.offload.optimizer == "host" || o.offload.optimizer == "auto") &&
                   o.offload.update != "device";
  if (o.plan_json.empty()) return may;
  const auto plan = Plan::FromJson(o.plan_json);
  return plan.ok() && std::any_of(plan->offload.begin(), plan->offload.end(),
                                  [](const VcuOffload& v) { return v.update_on_host; });
}

// A run that is to repeat another one's bytes writes the plan into its checkpoints as the file has
// it: with the times that were predicted then, not with those of costs that were measured anew.
void KeepPredictedTimes(const Plan& given, Plan& plan) {
  plan.predicted_step_seconds = given.predicted_step_seconds;
  for (size_t v = 0; v < std::min(plan.vcus.size(), given.vcus.size()); ++v) {
    plan.vcus[v].step_seconds = given.vcus[v].step_seconds;
    plan.vcus[v].bubble_fraction = given.vcus[v].bubble_fraction;
  }
  for (Substitute& s : plan.substitutes) {
    for (const Substitute& known : given.substitutes) {
      if (known.vcu == s.vcu && known.op == s.op) s.seconds = known.seconds;
    }
  }
}

}  // namespace

PartitionOptions PartitionOptionsOf(const PipelineOptions& options) {
  PartitionOptions o;
  o.micro_batch = options.micro_batch;
  o.global_batch = options.global_batch;
  o.gradient_accumulation = options.gradient_accumulation;
  o.pipeline_depth = options.pipeline_depth;
  o.data_parallel = options.data_parallel;
  o.schedule = options.schedule;
  o.stages = options.stages;
  o.balance = options.balance;
  o.recompute = {.policy = options.recompute_modules.empty() ? options.recompute : "modules",
                 .modules = options.recompute_modules,
                 .activations = options.activation_budget};
  o.offload = options.offload;
  // The other processes wait for the plan.
  o.search_seconds = std::min(o.search_seconds, options.timeout_seconds / 3);
  o.shard = options.shard;
  o.shard_by = options.shard_by;
  o.lower.overlap_reductions = options.overlap_reductions;
  o.lower.scratch_bytes = [](int members, int64_t bytes, DType dtype,
                             const std::vector<int64_t>& pieces) {
    return AllReduceScratchBytes(members, bytes, dtype, pieces);
  };
  return o;
}

TrainingGraphOptions TrainingGraphOptionsOf(const PipelineOptions& options,
                                            const ClusterSpec& cluster) {
  return {.micro_batch = options.micro_batch,
          .amp = {*options.amp_level, options.half},
          .loss_scale = ScalesLoss(options, cluster)};
}

// The host's side of a training step.
class ElasticPipeline::TrainHost : public StepHost {
 public:
  TrainHost(const ElasticPipeline& pipeline, std::span<const MicroBatch> batches, double lr)
      : pipeline_(pipeline),
        batches_(batches),
        lr_(static_cast<float>(lr)),
        results_(pipeline.program().metrics.size(), 0.0f) {}

  Status Feed(int vcu, const std::string& name, int g, std::span<std::byte> to) override {
    if (name == "metrics") {
      std::memset(to.data(), 0, to.size());
      const float stop = pipeline_.stop_requested_.load(std::memory_order_relaxed) ? 1 : 0;
      std::memcpy(to.data() + to.size() - 4, &stop, 4);
      return OkStatus();
    }
    if (name == "rng")
      return Store<int64_t>(
          to, RngWords(pipeline_.options_.seed, pipeline_.step_, g * pipeline_.plan().micro_batch));
    if (name == "lr") return Store<float>(to, {{lr_}});
    if (name == "step") return Store<float>(to, {{static_cast<float>(pipeline_.updates() + 1)}});
    if (name == "loss_scale") return Store<float>(to, {{static_cast<float>(LossScale())}});
    if (name == "inv_loss_scale") {
      return Store<float>(to, {{static_cast<float>(1 / LossScale())}});
    }
    if (name == "inv_micro_batches") {
      return Store<float>(to, {{1.0f / static_cast<float>(pipeline_.plan().micro_batches)}});
    }
    for (size_t i = 0; i < batches_.size(); ++i) {
      if (batches_[i].number == g) return CopyFeature(*pipeline_.dataset_, batches_[i], name, to);
    }
    return Internal("micro-batch ", g, " of input ", name, " was not loaded");
  }

  Status Snapshot(int vcu, const std::string& name, int, std::span<const std::byte> from) override {
    if (name != "metrics") return OkStatus();
    // The same on every VCU of the job: one keeps it.
    if (vcu == pipeline_.cluster_.vcus()[0]->index()) {
      std::memcpy(results_.data(), from.data(), from.size());
    }
    return OkStatus();
  }

  const std::vector<float>& results() const { return results_; }

 private:
  double LossScale() const {
    return pipeline_.scaler_.has_value() ? pipeline_.scaler_->scale() : 1.0;
  }

  const ElasticPipeline& pipeline_;
  std::span<const MicroBatch> batches_;
  float lr_;
  std::vector<float> results_;
};

ElasticPipeline::~ElasticPipeline() = default;

StatusOr<std::unique_ptr<ElasticPipeline>> ElasticPipeline::Create(const Graph& model,
                                                                   Cluster& cluster,
                                                                   const HybridOptimizer& optimizer,
                                                                   const PipelineOptions& options) {
  OC_RETURN_IF_ERROR(CheckOptions(options));
  OC_RETURN_IF_ERROR(optimizer.Check());
  std::unique_ptr<ElasticPipeline> pipeline(new ElasticPipeline(cluster, optimizer, options));
  pipeline->next_epoch_ = options.epoch * 1000;
  pipeline->level_is_open_ = !options.amp_level.has_value();
  OC_RETURN_IF_ERROR(cluster.MeasureLinks(options.timeout_seconds));
  OC_ASSIGN_OR_RETURN(
      pipeline->options_.plan_json,
      cluster.job().Broadcast(options.plan_json, 0, "plan file", options.timeout_seconds));
  if (!pipeline->options_.plan_json.empty()) {
    OC_ASSIGN_OR_RETURN(const Plan plan, Plan::FromJson(pipeline->options_.plan_json));
    pipeline->options_.shard = plan.shard;
  }
  OC_RETURN_IF_ERROR(options.amp_level.has_value() ? pipeline->PlanAndProfile(model)
                                                   : pipeline->ChooseLevel(model));
  OC_RETURN_IF_ERROR(pipeline->MeasurePeak());
  OC_RETURN_IF_ERROR(pipeline->KeepProfile());
  OC_ASSIGN_OR_RETURN(const ProcessMemory memory, ReadProcessMemory());
  pipeline->process_bytes_before_ = memory.resident_bytes;
  (void)ResetPeakMemory();  // where the kernel refuses, the peak counts from the start
  for (const auto& vcu : cluster.vcus()) {
    const VcuProgram& p = pipeline->program().vcus[vcu->index()];
    OC_RETURN_IF_ERROR(vcu->Reserve(p.state_bytes, p.step_bytes, p.host_bytes));
    if (p.file_bytes > 0) {
      OC_RETURN_IF_ERROR(Annotate(vcu->OpenFile(options.offload.path, p.file_bytes),
                                  absl::StrCat("VCU ", p.name)));
    }
  }
  OC_RETURN_IF_ERROR(pipeline->InitializeState());
  OC_RETURN_IF_ERROR(pipeline->MakeExecutor());
  return pipeline;
}

Status ElasticPipeline::PlanAndProfile(const Graph& model) {
  model_ = model;
  const TrainingGraphOptions graph_options = TrainingGraphOptionsOf(options_, cluster_.spec());
  OC_ASSIGN_OR_RETURN(TrainingGraphs graphs, BuildTrainingGraphs(model, optimizer_, graph_options));
  OC_RETURN_IF_ERROR(CheckComputeTypes(graphs.joint, cluster_.spec()));
  joint_ = std::move(graphs.joint);
  update_ = std::move(graphs.update);
  scaler_.reset();
  if (graph_options.loss_scale) {
    LossScaleConfig config = options_.loss_scale;
    if (config.mode == LossScaleConfig::Mode::kAuto) {
      config.mode = LossScaleConfig::Mode::kDynamic;
    }
    OC_ASSIGN_OR_RETURN(scaler_, LossScaler::Create(config));
  }
  OC_RETURN_IF_ERROR(LoadProfile());
  return MakePlan();
}

Status ElasticPipeline::LoadProfile() {
  if (!options_.profile_path.empty() && std::filesystem::exists(options_.profile_path)) {
    auto table = CostTable::Load(options_.profile_path);
    if (table.ok()) {
      costs_ = std::move(table).value();
    } else {
      OC_LOG_WARNING(table.status().message(), "; measuring anew");
    }
  }
  // All start from the same costs, whatever their disks hold.
  OC_ASSIGN_OR_RETURN(
      const std::string shared,
      cluster_.job().Broadcast(costs_.ToJson(), 0, "profile", options_.timeout_seconds));
  OC_ASSIGN_OR_RETURN(costs_, CostTable::FromJson(shared));
  OC_RETURN_IF_ERROR(ProfileGraphs(cluster_, joint_, &update_, costs_, PlanningCosts()));
  return KeepProfile();
}

ProfileOptions ElasticPipeline::PlanningCosts() const {
  const bool shards = options_.shard.has_value() ? *options_.shard > 0 : cluster_.spec().size() > 1;
  return {.parts = shards || options_.profile_parts,
          .check_known = true,
          .seconds = options_.profile_seconds,
          .timeout_seconds = std::max(60.0, options_.timeout_seconds),
          .hosts = UsesHosts(options_),
          .folder = options_.offload.path};
}

Status ElasticPipeline::KeepProfile() const {
  if (options_.profile_path.empty() || cluster_.job().rank() != 0) return OkStatus();
  return costs_.Save(options_.profile_path);
}

// Products of growing size, as long as they take little: a slow device shows its peak on small
// ones.
// The best of square products, each kind's up to a size that takes it long enough.
Status ElasticPipeline::MeasurePeak() {
  constexpr double kEnoughSeconds = 0.003;
  constexpr int64_t kLargest = 8192;
  std::map<std::string, double> peaks, last_seconds;  // by kind
  for (int64_t side = 128; side <= kLargest; side *= 2) {
    GraphBuilder b("peak", joint_.shared_ops());
    const TensorType type = {HalfTypeOf(joint_).value_or(DType::kF32), {side, side}};
    b.Output("y", b.Linear(b.Data("x", type), b.Data("w", type)));
    OC_ASSIGN_OR_RETURN(const Graph graph, b.Finish());
    TypedGraphs typed(graph);
    // In f32, where the type is not the device's; a part of its memory.
    const int64_t bytes = 3 * side * side * SizeInBytes(DType::kF32);
    const auto wants = [&](const VcuSpec& v) {
      const auto seconds = last_seconds.find(v.kind);
      return (seconds == last_seconds.end() || seconds->second < kEnoughSeconds) &&
             (v.memory_bytes == 0 || bytes <= v.memory_bytes / 4);
    };
    if (std::none_of(cluster_.spec().vcus.begin(), cluster_.spec().vcus.end(), wants)) break;
    OC_RETURN_IF_ERROR(
        ProfileGraphs(cluster_, graph, nullptr, costs_, {.seconds = 0.1, .only = wants}));
    for (const VcuSpec& v : cluster_.spec().vcus) {
      OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graph, v));
      OC_ASSIGN_OR_RETURN(const Graph* own, typed.In(dtype));
      const CostEntry* entry = costs_.Find(RequestOf(*own, own->node(0), 0, v.kind).key);
      if (entry == nullptr || entry->seconds <= 0) continue;
      last_seconds[v.kind] = entry->seconds;
      peaks[v.kind] =
          std::max(peaks[v.kind], 2.0 * static_cast<double>(side * side * side) / entry->seconds);
    }
  }
  peak_flops_ = 0;
  for (const VcuSpec& v : cluster_.spec().vcus) peak_flops_ += peaks[v.kind];
  return OkStatus();
}

// Rank 0 plans, everybody realises the same plan and compares what came of it.
Status ElasticPipeline::MakePlan() {
  DynamicGraphPartitioner partitioner(joint_, &update_, cluster_.spec(), costs_);
  const PartitionOptions partition = PartitionOptionsOf(options_);
  std::string text;
  Status status;
  // "!": a failure of rank 0's; "?": memory is short.
  if (cluster_.job().rank() == 0) {
    if (!options_.plan_json.empty()) {
      text = options_.plan_json;
    } else {
      auto planned = partitioner.Partition(partition);
      status = planned.status();
      text = planned.ok()
                 ? planned->plan.ToJson()
                 : absl::StrCat(absl::IsResourceExhausted(status) ? "?" : "!", status.message());
    }
  }
  OC_ASSIGN_OR_RETURN(text, cluster_.job().Broadcast(text, 0, "plan", options_.timeout_seconds));
  OC_RETURN_IF_ERROR(status);
  if (!text.empty() && text[0] == '?') return ResourceExhausted(text.substr(1));
  if (!text.empty() && text[0] == '!')
    return InvalidArgument("rank 0 could not plan: ", text.substr(1));
  OC_ASSIGN_OR_RETURN(Plan plan, Plan::FromJson(text));
  if (plan.graph_fingerprint != GraphFingerprint(joint_)) {
    return InvalidArgument("plan: it was made for another model or micro-batch (graph ",
                           plan.graph_fingerprint, ", this one is ", GraphFingerprint(joint_), ")");
  }
  const bool repeats = cluster_.deterministic() && !options_.plan_json.empty();
  const Plan given = repeats ? plan : Plan();
  OC_ASSIGN_OR_RETURN(planned_, partitioner.Realize(std::move(plan), partition));
  if (repeats) KeepPredictedTimes(given, planned_.plan);
  OC_RETURN_IF_ERROR(cluster_.job().Agree(absl::StrFormat("%016x", Fingerprint(planned_.program)),
                                          "program", options_.timeout_seconds));
  std::set<int64_t> mine;
  for (const auto& vcu : cluster_.vcus()) {
    for (const Command& c : program().vcus[vcu->index()].commands) {
      if (c.kind != CommandKind::kFeed || c.micro_batch == kNone) continue;
      const int v = joint_.FindValue(c.name);
      if (v != kNone && joint_.value(v).kind == ValueKind::kData) mine.insert(c.micro_batch);
    }
  }
  mine_.assign(mine.begin(), mine.end());
  step_flops_ = Flops(joint_) * planned_.plan.micro_batches + Flops(update_);
  return OkStatus();
}

Status ElasticPipeline::MakeExecutor() {
  OC_ASSIGN_OR_RETURN(executor_, Executor::Create(program(), cluster_.local(),
                                                  {.timeout_seconds = options_.timeout_seconds,
                                                   .epoch = next_epoch_++,
                                                   .capture = options_.capture}));
  return OkStatus();
}

int64_t ElasticPipeline::predicted_process_bytes() const {
  int64_t bytes = 0;
  for (const auto& vcu : cluster_.vcus()) {
    const VcuProgram& p = program().vcus[vcu->index()];
    // Arenas are memory of the host where it touches them, or the device computes with its cores.
    const bool in_host = !cluster_.spec().vcus[vcu->index()].cores.empty() ||
                         !vcu->view({.arena = Arena::kStep, .bytes = p.step_bytes}).empty();
    if (in_host) bytes += p.state_bytes + p.step_bytes;
    bytes += p.host_bytes + plan().vcus[vcu->index()].host_bytes + vcu->staging_bytes();
  }
  if (executor_ != nullptr) bytes += executor_->host_bytes();
  if (loader_ != nullptr) bytes += loader_->buffer_bytes();
  return bytes;
}

StatusOr<Batches> ElasticPipeline::UseData(const Dataset& dataset, int64_t steps) {
  for (const Value& v : joint_.values) {
    if (v.kind != ValueKind::kData) continue;
    const int feature = dataset.FindFeature(v.name);
    if (feature < 0) {
      return InvalidArgument("the data set has no feature '", v.name, "', which model ",
                             model_.name, " reads");
    }
    const RowLayout& layout = dataset.layouts()[feature];
    if (layout.dtype != v.type.dtype || layout.bytes * options_.micro_batch != v.type.bytes()) {
      return InvalidArgument("data '", v.name, "': a sample is ",
                             dataset.features()[feature].type.ToString(), ", model ", model_.name,
                             " reads ", v.type.ToString(), " for ", options_.micro_batch);
    }
  }
  SampleOrderOptions order{.size = dataset.size(),
                           .micro_batch = options_.micro_batch,
                           .micro_batches = planned_.plan.micro_batches,
                           .shuffle = true,
                           .seed = options_.seed};
  OC_RETURN_IF_ERROR(SampleOrder::Validate(order));
  dataset_ = &dataset;
  loader_.reset();
  if (!mine_.empty()) {
    OC_ASSIGN_OR_RETURN(loader_, Loader::Create(dataset, {.order = order,
                                                          .mine = mine_,
                                                          .first_step = step_,
                                                          .steps = steps,
                                                          .workers = options_.data_workers}));
  }
  return Batches(SampleOrder(order), step_, steps);
}

// This process's micro-batches of `batch`: from the loader where it is the loader's next one, else
// read now.
StatusOr<std::span<const MicroBatch>> ElasticPipeline::Load(const Batch& batch) {
  if (mine_.empty()) return std::span<const MicroBatch>();
  if (loader_ != nullptr && loader_->position() == batch.step && !loader_->at_end()) {
    const SampleOrder& order = loader_->order();
    std::vector<int64_t> indices(static_cast<size_t>(order.options().micro_batch));
    bool same = static_cast<int64_t>(batch.indices.size()) == order.global_batch();
    for (int64_t g : mine_) {
      if (!same) break;
      order.Indices(batch.step, g, indices);
      same = std::equal(indices.begin(), indices.end(),
                        batch.indices.begin() + g * order.options().micro_batch);
    }
    if (same) return loader_->NextStep();
  }
  const int64_t b = options_.micro_batch;
  if (static_cast<int64_t>(batch.indices.size()) != global_batch()) {
    return InvalidArgument("step: a batch of ", batch.indices.size(), " samples, the plan takes ",
                           global_batch());
  }
  if (direct_.empty()) {
    for (size_t i = 0; i < mine_.size(); ++i) direct_.emplace_back(*dataset_, b);
  }
  for (size_t i = 0; i < mine_.size(); ++i) {
    direct_[i].number = mine_[i];
    OC_RETURN_IF_ERROR(direct_[i].Fill(
        std::span<const int64_t>(batch.indices).subspan(mine_[i] * b, static_cast<size_t>(b))));
  }
  return std::span<const MicroBatch>(direct_);
}

StatusOr<StepResult> ElasticPipeline::Step(const Batch& batch) {
  if (dataset_ == nullptr) return FailedPrecondition("step: call UseData first");
  OC_RETURN_IF_ERROR(cluster_.failure());
  if (executor_ == nullptr) OC_RETURN_IF_ERROR(MakeExecutor());
  const double begin = NowSeconds();
  OC_ASSIGN_OR_RETURN(const std::span<const MicroBatch> batches, Load(batch));
  const double loaded = NowSeconds();
  StepResult result;
  result.lr = LearningRate(optimizer_.options().schedule, optimizer_.lr(), step_,
                           std::max<int64_t>(options_.total_steps, step_ + 1));
  TrainHost host(*this, batches, result.lr);
  step_arena_ = StepArena::kNothing;
  const Status ran = executor_->Run(host);
  if (!ran.ok()) {
    failed_step_ = ran;
    // Who died is a better answer than which command noticed.
    const Status failure = cluster_.failure();
    return failure.ok() ? Annotate(ran, absl::StrCat("step ", step_ + 1))
                        : Annotate(failure, absl::StrCat("step ", step_ + 1));
  }
  step_arena_ = StepArena::kTraining;
  result.step = step_ + 1;
  const std::vector<std::string>& names = program().metrics;
  for (size_t i = 0; i < names.size(); ++i) result.metrics[names[i]] = host.results()[i];
  result.loss = result.metrics["loss_sum"] / result.metrics["loss_count"];
  result.loss_scale = scaler_.has_value() ? scaler_->scale() : 1;
  result.grad_norm = std::sqrt(result.metrics["grad_norm_sq"]) / result.loss_scale;
  const bool finite = std::isfinite(result.metrics["grad_norm_sq"]);
  if (scaler_.has_value()) {
    result.skipped = !finite;
    const Status scaled = scaler_->Update(finite);
    if (!scaled.ok()) return ExplainNonFinite(result, host, std::string(scaled.message()));
  } else if (!finite || !std::isfinite(result.loss)) {
    return ExplainNonFinite(
        result, host,
        "look at the data of this step, lower the learning rate, or set optimizer.clip_norm");
  }
  ++step_;
  result.stop = result.metrics["stop"] > 0;
  result.data_wait_seconds = loaded - begin;
  for (const auto& vcu : cluster_.vcus()) {
    result.exposed_comm_seconds =
        std::max(result.exposed_comm_seconds, executor_->times(vcu->index()).exposed_comm_seconds);
  }
  result.seconds = NowSeconds() - begin;
  return result;
}

// The step is run again with a look at every value. Of what the VCUs find, the first to be computed
// is told: the rest follows from it.
Status ElasticPipeline::ExplainNonFinite(const StepResult& step, TrainHost& host,
                                         const std::string& advice) {
  std::string mine;
  double first = std::numeric_limits<double>::infinity();
  auto found = executor_->FindNonFinite(host);
  if (found.ok()) {
    for (const NonFinite& f : *found) {
      const double begin = simulation().walk.times[f.vcu][f.command].begin;
      if (begin >= first) continue;
      const Command& c = program().vcus[f.vcu].commands[f.command];
      first = begin;
      mine = absl::StrCat(
          f.what, ", in ", c.name,
          c.micro_batch == kNone ? "" : absl::StrCat(" of micro-batch ", c.micro_batch), " on VCU ",
          program().vcus[f.vcu].name);
    }
  }
  std::string text = absl::StrCat("step ", step.step, ": the loss is ", step.loss,
                                  ", the gradients' norm ", step.grad_norm);
  auto all = cluster_.job().AllGather(absl::StrFormat("%.17g ", first) + mine, "non-finite values",
                                      options_.timeout_seconds);
  if (all.ok()) {
    double earliest = std::numeric_limits<double>::infinity();
    std::string where;
    for (const std::string& one : *all) {
      const double begin = std::strtod(one.c_str(), nullptr);
      const size_t blank = one.find(' ');
      if (blank == std::string::npos || begin >= earliest) continue;
      earliest = begin;
      where = one.substr(blank + 1);
    }
    if (!where.empty()) absl::StrAppend(&text, "; first: ", where);
  }
  return FailedPrecondition(text, ". The update was left out, and checkpoints are those of good ",
                            "steps: ", advice);
}

}  // namespace oc
