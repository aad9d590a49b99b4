// The progress of a run for a person: one line that changes on a terminal, plain lines in a log.
//
//   Progress progress(stdout, {.total_steps = 1000, .every = 10, .unit = "samples"});
//   progress.Update(metrics);   // step 120/1000  loss 0.4321  lr 6.0e-04  12.3k samples/s  eta
//   1:23
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "openclaw/runtime/report/metrics.h"

namespace oc {

struct ProgressOptions {
  int64_t total_steps = 0;       // 0: unknown
  int64_t every = 1;             // steps between plain lines; the last step always has one
  std::string unit = "samples";  // or tokens
  std::optional<bool> terminal;  // none: whether the stream is one
};

// Not thread-safe. Does not own the stream.
class Progress {
 public:
  Progress(std::FILE* out, const ProgressOptions& options);
  // Ends an open line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // On a terminal at most ten times a second.
  void Update(const StepMetrics& metrics);
  // A line that stays, such as a validation result.
  void Print(const std::string& line);
  // Leaves the last state of the changing line as a line.
  void Finish();

 private:
  std::string Line(const StepMetrics& metrics);

  std::FILE* out_;
  ProgressOptions options_;
  bool terminal_;
  std::string line_;  // shown, or to be shown, on the terminal
  double last_drawn_ = -1;
  double started_ = 0;
  int64_t first_step_ = -1;
};

// 1234567 as "1.23M", 1234 as "1.23k": three digits.
std::string Compact(double value);

}  // namespace oc
