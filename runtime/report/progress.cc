#include "openclaw/runtime/report/progress.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "openclaw/core/clock.h"

namespace oc {
namespace {

constexpr double kRedrawSeconds = 0.1;

std::string Duration(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(seconds));
  if (total >= 3600) {
    return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  }
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

}  // namespace

std::string Compact(double value) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::fabs(value) < 999.5) break;
    value /= 1000;
    suffix = next;
  }
  const double size = std::fabs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f%s", decimals, value, suffix);
}

Progress::Progress(std::FILE* out, const ProgressOptions& options)
    : out_(out), options_(options), terminal_(options.terminal.value_or(isatty(fileno(out)) != 0)) {
  options_.every = std::max<int64_t>(options_.every, 1);
}

Progress::~Progress() { Finish(); }

std::string Progress::Line(const StepMetrics& m) {
  std::string line = absl::StrFormat("step %d", m.step);
  if (options_.total_steps > 0) line += absl::StrFormat("/%d", options_.total_steps);
  line += absl::StrFormat("  loss %.4f  lr %.1e", m.loss, m.lr);
  if (m.grad_norm) line += absl::StrFormat("  norm %.3g", *m.grad_norm);
  line += absl::StrFormat("  %s %s/s", Compact(m.throughput), options_.unit);
  if (m.mfu) line += absl::StrFormat("  %.0f %% of peak", 100 * *m.mfu);
  const int64_t done = m.step - first_step_;
  if (options_.total_steps > 0 && done > 0 && m.step < options_.total_steps) {
    const double rate = (NowSeconds() - started_) / static_cast<double>(done);
    line += "  eta " + Duration(rate * static_cast<double>(options_.total_steps - m.step));
  }
  return line;
}

void Progress::Update(const StepMetrics& metrics) {
  const double now = NowSeconds();
  if (first_step_ < 0) {
    first_step_ = metrics.step;  // the clock starts after the first step, which warms up
    started_ = now;
  }
  const bool last = metrics.step == options_.total_steps;
  if (terminal_) {
    line_ = Line(metrics);
    if (last || last_drawn_ < 0 || now - last_drawn_ >= kRedrawSeconds) {
      std::fprintf(out_, "\r%s\x1b[K", line_.c_str());
      std::fflush(out_);
      last_drawn_ = now;
    }
  } else if (last || metrics.step == 1 || metrics.step % options_.every == 0) {
    std::fprintf(out_, "%s\n", Line(metrics).c_str());
    std::fflush(out_);
  }
}

void Progress::Print(const std::string& line) {
  if (terminal_) {
    // Takes the place of the changing line, which is drawn again below.
    std::fprintf(out_, "\r%s\x1b[K\n%s", line.c_str(), line_.c_str());
  } else {
    std::fprintf(out_, "%s\n", line.c_str());
  }
  std::fflush(out_);
}

void Progress::Finish() {
  if (terminal_ && !line_.empty()) {
    std::fprintf(out_, "\r%s\x1b[K\n", line_.c_str());
    line_.clear();
  }
  std::fflush(out_);
}

}  // namespace oc
