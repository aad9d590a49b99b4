// metrics.jsonl: what a run measured, one JSON object a line.
//
//   OC_ASSIGN_OR_RETURN(MetricsWriter writer, MetricsWriter::Open(run_dir + "/metrics.jsonl"));
//   OC_RETURN_IF_ERROR(writer.Write({.step = 1, .loss = 2.3, .samples = 128}));
//   OC_RETURN_IF_ERROR(writer.WriteSummary(summary));     // the last line
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/partitioner/plan.h"

namespace oc {

using NamedValue = std::pair<std::string, double>;

// One training step; keys of the file are the names here. Times in seconds, rates a second. A
// number that is not finite is written as null; an empty optional is left out.
struct StepMetrics {
  int64_t step = 0;  // from 1: steps done
  double loss = 0;
  double lr = 0;
  std::optional<double> grad_norm;
  std::optional<int64_t> tokens;   // of the step: one of tokens
  std::optional<int64_t> samples;  // and samples
  double step_seconds = 0;
  double throughput = 0;   // tokens or samples a second
  int64_t peak_bytes = 0;  // highest of the VCUs' arenas
  double loss_scale = 1;
  std::optional<double> mfu;  // share of the VCUs' measured peak
  double exposed_comm_seconds = 0;
  double data_wait_seconds = 0;
  std::vector<NamedValue> more;  // validation_loss, ...
};

struct VcuSummary {
  std::string name;
  double predicted_step_seconds = 0, achieved_step_seconds = 0;
  double predicted_bubble_fraction = 0, achieved_bubble_fraction = 0;
  int64_t predicted_peak_bytes = 0, achieved_peak_bytes = 0;  // arenas
  MemoryBreakdown predicted_memory;                           // adds up to predicted_peak_bytes
  std::string computes_in;  // "f32", "bf16", "f16": products and activations
  // What is offloaded.
  int64_t predicted_host_arena_bytes = 0, achieved_host_arena_bytes = 0, file_bytes = 0;
  // A step's ops that were launched as captured work, in how many launches; the others, and why.
  int64_t launches = 0, captured_calls = 0, plain_calls = 0;
  std::string plain_reason;
};

struct ProcessSummary {
  int rank = 0;
  std::string host;
  int64_t predicted_bytes = 0, achieved_bytes = 0;  // growth of resident memory
};

struct RunSummary {
  double final_loss = 0;
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;
  int64_t steps = 0;
  double seconds = 0;
  double throughput = 0;
  std::vector<VcuSummary> vcus;
  std::vector<ProcessSummary> processes;
  std::vector<Substitute> substitutes;  // ops that devices lacked, and what stood in
  std::vector<NamedValue> more;         // unigram_entropy, ...
};

// Each as one line of JSON, without its end.
std::string ToJson(const StepMetrics& metrics);
std::string ToJson(const RunSummary& summary);  // {"summary": {...}}

// Not thread-safe. Every line is on its way to the file when its call returns.
class MetricsWriter {
 public:
  // A new file; or, for a run that resumes after `resume_step` steps, what was recorded up to that
  // step, with later lines and a summary removed. kUnavailable where it cannot be written.
  static StatusOr<MetricsWriter> Open(const std::string& path, int64_t resume_step = 0);

  Status Write(const StepMetrics& metrics);
  Status WriteSummary(const RunSummary& summary);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status WriteLine(const std::string& line);

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace oc
