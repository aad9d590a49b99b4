#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "openclaw/core/clock.h"
#include "openclaw/core/logging.h"
#include "openclaw/launcher/commands.h"
#include "openclaw/partitioner/offload.h"
#include "openclaw/runtime/report/memory.h"
#include "openclaw/runtime/report/metrics.h"
#include "openclaw/runtime/report/progress.h"
#include "openclaw/runtime/report/tensorboard.h"

namespace oc {
namespace {

using nlohmann::json;

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void OnSignal(int signal) { received_signal.store(signal, std::memory_order_relaxed); }

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// What this process measured of its VCUs over the steps.
struct VcuHistory {
  std::vector<double> step_seconds, bubble;
  CaptureReport capture;  // of the last step
};

// One training run, from opened parts to summary.
class TrainingRun {
 public:
  TrainingRun(Experiment& experiment, Cluster& cluster, ElasticPipeline& pipeline,
              std::string run_dir, bool may_resume)
      : e_(experiment),
        cluster_(cluster),
        pipeline_(pipeline),
        run_dir_(std::move(run_dir)),
        may_resume_(may_resume),
        first_(cluster.job().rank() == 0),
        history_(cluster.vcus().size()) {}

  Status Run() {
    OC_RETURN_IF_ERROR(Resume());
    SampleOrder order({.size = e_.data.train->size(),
                       .micro_batch = pipeline_.plan().micro_batch,
                       .micro_batches = pipeline_.plan().micro_batches,
                       .seed = e_.config.train.seed});
    total_ = e_.config.train.steps.has_value() ? *e_.config.train.steps
                                               : order.StepsOf(*e_.config.train.epochs);
    const int64_t steps = total_ - pipeline_.step();
    if (steps <= 0) {  // what the earlier run has written stays
      if (first_) {
        OC_LOG_INFO("nothing left to do: ", run_dir_, " has done ", pipeline_.step(), " of ",
                    total_, " steps; raise train.steps or train.epochs to go on");
      }
      return OkStatus();
    }
    pipeline_.set_total_steps(total_);
    OC_RETURN_IF_ERROR(OpenReports());
    OC_ASSIGN_OR_RETURN(const Batches batches, pipeline_.UseData(*e_.data.train, steps));
    const double begin = NowSeconds();
    for (const Batch& batch : batches) {
      if (received_signal.load(std::memory_order_relaxed) != 0) pipeline_.RequestStop();
      OC_ASSIGN_OR_RETURN(const StepResult step, pipeline_.Step(batch));
      OC_RETURN_IF_ERROR(AfterStep(step));
      if (stopped_) break;
    }
    train_seconds_ = NowSeconds() - begin - eval_seconds_;
    return Finish();
  }

  bool stopped() const { return stopped_; }

 private:
  Status Resume() {
    const std::string& resume = e_.config.checkpoint.resume;
    if (resume == "none" || (resume == "auto" && !may_resume_)) return OkStatus();
    std::string path = resume;
    if (resume == "auto") {
      if (first_) {
        OC_ASSIGN_OR_RETURN(auto newest, LatestCheckpoint(run_dir_ + "/checkpoints"));
        path = newest.value_or("");
      }
      OC_ASSIGN_OR_RETURN(path, cluster_.job().Broadcast(path, 0, "checkpoint to resume",
                                                         e_.config.comm_options.timeout_seconds));
      if (path.empty()) return OkStatus();
    }
    OC_RETURN_IF_ERROR(pipeline_.Load(path));
    if (first_) OC_LOG_INFO("resumed from ", path, " after step ", pipeline_.step());
    return OkStatus();
  }

  // Before the first step: what is run, what is predicted, and the files of the measurements.
  Status OpenReports() {
    if (!first_) return OkStatus();
    const Plan& plan = pipeline_.plan();
    OC_RETURN_IF_ERROR(WriteFile(run_dir_ + "/config.yaml", FormatConfig(e_.config)));
    OC_RETURN_IF_ERROR(WriteFile(run_dir_ + "/plan.json", plan.ToJson()));
    OC_LOG_INFO("plan: ", plan.pipeline_depth(), " stages, ", plan.stages[0].vcus.size(),
                " replicas, ", plan.micro_batches, " micro-batches of ", plan.micro_batch, ", ",
                plan.schedule, ", predicted ", plan.predicted_step_seconds * 1e3, " ms a step");
    for (const std::string& advice : plan.advice) OC_LOG_WARNING("plan: ", advice);
    for (const Substitute& s : plan.substitutes) {
      OC_LOG_WARNING("plan: ", s.vcu, " lacks ", s.op, ": it runs ", s.by, " (", s.calls,
                     " calls, ", s.seconds * 1e3, " ms a step)");
    }
    OC_ASSIGN_OR_RETURN(MetricsWriter metrics,
                        MetricsWriter::Open(run_dir_ + "/metrics.jsonl", pipeline_.step()));
    metrics_.emplace(std::move(metrics));
    if (e_.config.log.tensorboard) {
      OC_ASSIGN_OR_RETURN(TensorBoardWriter board,
                          TensorBoardWriter::Create(run_dir_ + "/tensorboard"));
      board_.emplace(std::move(board));
    }
    progress_ = std::make_unique<Progress>(
        stdout,
        ProgressOptions{.total_steps = total_,
                        .every = std::max<int64_t>(1, e_.config.log.every),
                        .unit = e_.counts_tokens ? "tokens" : "samples",
                        // A launcher passes the lines on: to a log, for all that is known.
                        .terminal = cluster_.job().world_size() > 1 ? std::optional<bool>(false)
                                                                    : std::nullopt});
    return OkStatus();
  }

  Status AfterStep(const StepResult& step) {
    if (step.skipped) {
      if (first_) {
        OC_LOG_WARNING("step ", step.step, ": the gradients overflow with loss scale ",
                       step.loss_scale, ": no update; loss ", step.loss);
      }
    } else {
      last_loss_ = step.loss;
    }
    const double work = e_.counts_tokens ? step.metrics.at("loss_count")
                                         : static_cast<double>(pipeline_.global_batch());
    work_ += work;
    int64_t peak = 0;
    for (size_t i = 0; i < cluster_.vcus().size(); ++i) {
      const int index = cluster_.vcus()[i]->index();
      const VcuTimes times = pipeline_.executor().times(index);
      history_[i].capture = pipeline_.executor().capture(index);
      if (step.step > 2 || total_ <= 4) {
        history_[i].step_seconds.push_back(times.step_seconds);
        history_[i].bubble.push_back(times.bubble_fraction);
      }
      const VcuProgram& p = pipeline_.program().vcus[index];
      peak = std::max(peak, p.state_bytes + p.step_bytes);
    }
    StepMetrics m{.step = step.step,
                  .loss = step.loss,
                  .lr = step.lr,
                  .grad_norm = step.grad_norm,
                  .step_seconds = step.seconds,
                  .throughput = work / step.seconds,
                  .peak_bytes = peak,
                  .loss_scale = step.loss_scale,
                  .exposed_comm_seconds = step.exposed_comm_seconds,
                  .data_wait_seconds = step.data_wait_seconds};
    (e_.counts_tokens ? m.tokens : m.samples) = static_cast<int64_t>(work);
    if (pipeline_.peak_flops() > 0) {
      m.mfu = pipeline_.step_flops() / step.seconds / pipeline_.peak_flops();
    }
    const bool last = step.step == total_;
    const int64_t every = e_.config.train.evaluate_every;
    stopped_ = step.stop;
    if (e_.data.validation != nullptr && !stopped_ &&
        (last || (every > 0 && step.step % every == 0))) {
      OC_RETURN_IF_ERROR(Validate(m));
    }
    OC_RETURN_IF_ERROR(Report(m));
    const int64_t save_every = e_.config.checkpoint.every;
    if (last || stopped_ || (save_every > 0 && step.step % save_every == 0)) {
      OC_RETURN_IF_ERROR(
          pipeline_
              .Save(run_dir_ + "/checkpoints", e_.config.checkpoint.keep, FormatConfig(e_.config))
              .status());
    }
    return OkStatus();
  }

  Status Validate(StepMetrics& m) {
    const double begin = NowSeconds();
    OC_ASSIGN_OR_RETURN(const EvalResult eval, pipeline_.Evaluate(*e_.data.validation));
    eval_seconds_ += NowSeconds() - begin;
    summary_.validation_loss = eval.loss;
    m.more.emplace_back("validation_loss", eval.loss);
    if (!e_.counts_tokens && eval.accuracy().has_value()) {
      summary_.validation_accuracy = eval.accuracy();
      m.more.emplace_back("validation_accuracy", *eval.accuracy());
    }
    return OkStatus();
  }

  Status Report(const StepMetrics& m) {
    if (!first_) return OkStatus();
    if (m.step % std::max<int64_t>(1, e_.config.log.every) == 0 || m.step == total_ ||
        !m.more.empty()) {
      OC_RETURN_IF_ERROR(metrics_->Write(m));
      if (board_.has_value()) {
        std::vector<NamedValue> scalars = {{"train/loss", m.loss},
                                           {"train/lr", m.lr},
                                           {"train/grad_norm", m.grad_norm.value_or(0)},
                                           {"speed/throughput", m.throughput},
                                           {"speed/step_seconds", m.step_seconds}};
        for (const auto& [name, value] : m.more) scalars.emplace_back("validation/" + name, value);
        OC_RETURN_IF_ERROR(board_->AddScalars(m.step, scalars));
      }
    }
    progress_->Update(m);
    std::string line;
    for (const auto& [name, value] : m.more) absl::StrAppend(&line, "  ", name, " ", value);
    if (!line.empty()) progress_->Print(absl::StrCat("step ", m.step, line));
    return OkStatus();
  }

  // This process's part of the summary, as JSON, for rank 0.
  StatusOr<std::string> MyPart() {
    json part;
    part["vcus"] = json::array();
    for (size_t i = 0; i < cluster_.vcus().size(); ++i) {
      const CaptureReport& capture = history_[i].capture;
      part["vcus"].push_back({{"index", cluster_.vcus()[i]->index()},
                              {"launches", capture.launches},
                              {"captured_calls", capture.captured_calls},
                              {"plain_calls", capture.plain_calls},
                              {"plain_reason", capture.reason},
                              {"step_seconds", Median(history_[i].step_seconds)},
                              {"bubble", Median(history_[i].bubble)},
                              {"peak", cluster_.vcus()[i]->PeakBytes()},
                              {"host_peak", cluster_.vcus()[i]->HostPeakBytes()}});
    }
    int64_t grown = 0;
    if (auto memory = ReadProcessMemory(); memory.ok()) {
      grown =
          std::max(memory->peak_bytes, memory->resident_bytes) - pipeline_.process_bytes_before();
    }
    part["process"] = {{"predicted", pipeline_.predicted_process_bytes()},
                       {"achieved", grown},
                       {"host", cluster_.job().host()}};
    return part.dump();
  }

  Status Finish() {
    OC_ASSIGN_OR_RETURN(const std::string mine, MyPart());
    OC_ASSIGN_OR_RETURN(auto parts, cluster_.job().AllGather(
                                        mine, "summary", e_.config.comm_options.timeout_seconds));
    if (!first_) return OkStatus();
    summary_.final_loss = last_loss_;
    summary_.steps = pipeline_.step();
    summary_.seconds = train_seconds_;
    summary_.throughput = train_seconds_ > 0 ? work_ / train_seconds_ : 0;
    if (e_.data.unigram_entropy.has_value()) {
      summary_.more.emplace_back("unigram_entropy", *e_.data.unigram_entropy);
    }
    summary_.substitutes = pipeline_.plan().substitutes;
    summary_.vcus.resize(pipeline_.plan().vcus.size());
    for (size_t r = 0; r < parts.size(); ++r) {
      const json part = json::parse(parts[r], nullptr, /*allow_exceptions=*/false);
      if (!part.is_object()) return Internal("summary of rank ", r, " is damaged");
      for (const json& v : part["vcus"]) {
        const size_t index = v["index"].get<size_t>();
        const VcuPrediction& predicted = pipeline_.plan().vcus[index];
        summary_.vcus[index] = {predicted.name,
                                predicted.step_seconds,
                                v["step_seconds"].get<double>(),
                                predicted.bubble_fraction,
                                v["bubble"].get<double>(),
                                predicted.state_bytes + predicted.step_bytes,
                                v["peak"].get<int64_t>(),
                                predicted.memory,
                                Name(pipeline_.plan().compute_types[index])};
        summary_.vcus[index].predicted_host_arena_bytes = predicted.host_arena_bytes;
        summary_.vcus[index].achieved_host_arena_bytes = v["host_peak"].get<int64_t>();
        summary_.vcus[index].file_bytes = predicted.file_bytes;
        summary_.vcus[index].launches = v["launches"].get<int64_t>();
        summary_.vcus[index].captured_calls = v["captured_calls"].get<int64_t>();
        summary_.vcus[index].plain_calls = v["plain_calls"].get<int64_t>();
        summary_.vcus[index].plain_reason = v["plain_reason"].get<std::string>();
      }
      summary_.processes.push_back({static_cast<int>(r), part["process"]["host"].get<std::string>(),
                                    part["process"]["predicted"].get<int64_t>(),
                                    part["process"]["achieved"].get<int64_t>()});
    }
    progress_->Finish();
    OC_RETURN_IF_ERROR(metrics_->WriteSummary(summary_));
    Print();
    return OkStatus();
  }

  void Print() const {
    std::printf("\n%s after %lld steps, %.1f s, %s %s/s\n", stopped_ ? "stopped" : "done",
                static_cast<long long>(summary_.steps), summary_.seconds,
                Compact(summary_.throughput).c_str(), e_.counts_tokens ? "tokens" : "samples");
    std::printf("  final loss          %.4f\n", summary_.final_loss);
    if (summary_.validation_loss)
      std::printf("  validation loss     %.4f\n", *summary_.validation_loss);
    if (summary_.validation_accuracy) {
      std::printf("  validation accuracy %.4f\n", *summary_.validation_accuracy);
    }
    if (e_.data.unigram_entropy) {
      std::printf("  unigram entropy     %.4f (of the text, nats a token)\n",
                  *e_.data.unigram_entropy);
    }
    std::printf("  %-14s %22s %20s %26s\n", "vcu", "step ms (pred/ach)", "bubble (pred/ach)",
                "arena MiB (pred/ach)");
    for (const VcuSummary& v : summary_.vcus) {
      std::printf("  %-14s %10.2f / %9.2f %8.1f%% / %7.1f%% %12.2f / %11.2f\n", v.name.c_str(),
                  v.predicted_step_seconds * 1e3, v.achieved_step_seconds * 1e3,
                  v.predicted_bubble_fraction * 100, v.achieved_bubble_fraction * 100,
                  static_cast<double>(v.predicted_peak_bytes) / 1048576,
                  static_cast<double>(v.achieved_peak_bytes) / 1048576);
    }
    for (const VcuSummary& v : summary_.vcus) {
      if (v.computes_in == summary_.vcus[0].computes_in && v.computes_in == "f32") continue;
      std::printf("  %s computed in %s\n", v.name.c_str(), v.computes_in.c_str());
    }
    for (const ProcessSummary& p : summary_.processes) {
      std::printf("  process %d: %.1f MiB predicted, %.1f MiB achieved\n", p.rank,
                  static_cast<double>(p.predicted_bytes) / 1048576,
                  static_cast<double>(p.achieved_bytes) / 1048576);
    }
    for (const Substitute& s : summary_.substitutes) {
      std::printf("  slow path: %s lacks %s: it ran %s (%d calls a step)\n", s.vcu.c_str(),
                  s.op.c_str(), s.by.c_str(), s.calls);
    }
    for (const VcuSummary& v : summary_.vcus) {
      if (v.captured_calls == 0) continue;
      std::printf("  %s launched %lld captured ops in %lld pieces a step\n", v.name.c_str(),
                  static_cast<long long>(v.captured_calls), static_cast<long long>(v.launches));
      if (v.plain_calls == 0) continue;
      std::printf("  slow path: %s enqueued %lld ops a step one by one: %s\n", v.name.c_str(),
                  static_cast<long long>(v.plain_calls), v.plain_reason.c_str());
    }
    for (const std::string& line : OffloadLines(pipeline_.plan())) {
      std::printf("  %s\n", line.c_str());
    }
    for (const NotDeterministic& n : pipeline_.plan().not_deterministic) {
      std::printf(
          "  not deterministic: %s does not say that %s repeats its results (%d calls a "
          "step); train.deterministic: true does without it, or refuses\n",
          n.vcu.c_str(), n.op.c_str(), n.calls);
    }
    if (cluster_.deterministic()) {
      std::printf("  deterministic: --plan %s/plan.json repeats this run bit by bit\n",
                  run_dir_.c_str());
    }
    int64_t slow = 0;
    for (const ImplementationCount& c : pipeline_.executor().implementations()) {
      if (c.implementation == "reference") {
        slow += c.calls;
        std::printf("  slow path: op %s runs on reference code (%lld calls a step)\n", c.op.c_str(),
                    static_cast<long long>(c.calls));
      }
    }
    std::printf("  files: %s/{config.yaml,plan.json,metrics.jsonl%s,checkpoints/}\n",
                run_dir_.c_str(), e_.config.log.tensorboard ? ",tensorboard/" : "");
    std::fflush(stdout);
  }

  Experiment& e_;
  Cluster& cluster_;
  ElasticPipeline& pipeline_;
  std::string run_dir_;
  bool may_resume_, first_;
  int64_t total_ = 0;
  bool stopped_ = false;
  double train_seconds_ = 0, eval_seconds_ = 0, work_ = 0, last_loss_ = 0;
  std::vector<VcuHistory> history_;
  RunSummary summary_;
  std::optional<MetricsWriter> metrics_;
  std::optional<TensorBoardWriter> board_;
  std::unique_ptr<Progress> progress_;
};

Status TrainOn(const ExperimentFlags& flags, const ExperimentConfig& config, Cluster& cluster,
               bool& stopped) {
  OC_ASSIGN_OR_RETURN(Experiment opened, OpenExperiment(config));
  auto experiment = std::make_unique<Experiment>(std::move(opened));
  OC_ASSIGN_OR_RETURN(const std::string run_dir, MakeRunDir(flags, config, cluster.job()));
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      OpenPipeline(*experiment, cluster, ProfilePath(run_dir), flags.plan_path));
  TrainingRun run(*experiment, cluster, *pipeline, run_dir, !flags.run_dir.empty());
  const Status status = run.Run();
  stopped = run.stopped();
  if (!status.ok()) {
    // The others are told before anything waits for a device or peer that may never answer: the
    // process ends without taking the pipeline apart.
    cluster.GiveUp(status);
    (void)pipeline.release();
    (void)experiment.release();  // its loader reads this
  }
  return status;
}

}  // namespace

CommandResult Train(const ExperimentFlags& flags) {
  auto config = LoadExperiment(flags);
  if (!config.ok()) return {config.status()};
  CatchSignals();
  auto opened = OpenCluster(*config);
  if (!opened.ok()) return {opened.status()};
  auto cluster = std::make_unique<Cluster>(*std::move(opened));
  bool stopped = false;
  Status status = TrainOn(flags, *config, *cluster, stopped);
  if (status.ok()) {
    status = cluster->Leave(config->comm_options.timeout_seconds);
  } else {
    cluster->GiveUp(status);
    (void)cluster.release();  // as the pipeline
  }
  int signal = 0;
  if (status.ok() && stopped) {
    const int own = received_signal.load(std::memory_order_relaxed);
    signal = own != 0 ? own : SIGTERM;
  }
  return {status, signal};
}

}  // namespace oc
