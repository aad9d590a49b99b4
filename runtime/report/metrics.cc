#include "openclaw/runtime/report/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace oc {

using nlohmann::ordered_json;

namespace {

ordered_json Number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

void AddMore(ordered_json& out, const std::vector<NamedValue>& more) {
  for (const auto& [name, value] : more) out[name] = Number(value);
}

void AddOptional(ordered_json& out, const char* key, const std::optional<double>& value) {
  if (value) out[key] = Number(*value);
}

std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json ToValue(const VcuSummary& vcu) {
  ordered_json memory = ordered_json::object();
  for (int u = 0; u < kMemoryUses; ++u) {
    memory[Name(static_cast<MemoryUse>(u))] = vcu.predicted_memory.bytes[u];
  }
  return {{"name", vcu.name},
          {"predicted_step_seconds", Number(vcu.predicted_step_seconds)},
          {"achieved_step_seconds", Number(vcu.achieved_step_seconds)},
          {"predicted_bubble_fraction", Number(vcu.predicted_bubble_fraction)},
          {"achieved_bubble_fraction", Number(vcu.achieved_bubble_fraction)},
          {"predicted_peak_bytes", vcu.predicted_peak_bytes},
          {"achieved_peak_bytes", vcu.achieved_peak_bytes},
          {"predicted_memory", std::move(memory)},
          {"computes_in", vcu.computes_in},
          {"predicted_host_arena_bytes", vcu.predicted_host_arena_bytes},
          {"achieved_host_arena_bytes", vcu.achieved_host_arena_bytes},
          {"file_bytes", vcu.file_bytes},
          {"launches", vcu.launches},
          {"captured_calls", vcu.captured_calls},
          {"plain_calls", vcu.plain_calls},
          {"plain_reason", vcu.plain_reason}};
}

// The lines of steps up to `last`; a line cut off by a crash is no JSON and ends what is kept.
std::string KeepUpTo(const std::string& path, int64_t last) {
  std::ifstream in(path);
  std::string kept, line;
  while (std::getline(in, line)) {
    const ordered_json value = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer() ||
        value["step"].get<int64_t>() > last) {
      break;
    }
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

std::string ToJson(const StepMetrics& m) {
  ordered_json out = {{"step", m.step}, {"loss", Number(m.loss)}, {"lr", Number(m.lr)}};
  AddOptional(out, "grad_norm", m.grad_norm);
  if (m.tokens) out["tokens"] = *m.tokens;
  if (m.samples) out["samples"] = *m.samples;
  out["step_seconds"] = Number(m.step_seconds);
  out["throughput"] = Number(m.throughput);
  out["peak_bytes"] = m.peak_bytes;
  out["loss_scale"] = Number(m.loss_scale);
  AddOptional(out, "mfu", m.mfu);
  out["exposed_comm_seconds"] = Number(m.exposed_comm_seconds);
  out["data_wait_seconds"] = Number(m.data_wait_seconds);
  AddMore(out, m.more);
  return Dump(out);
}

std::string ToJson(const RunSummary& s) {
  ordered_json out = {{"final_loss", Number(s.final_loss)}};
  AddOptional(out, "validation_loss", s.validation_loss);
  AddOptional(out, "validation_accuracy", s.validation_accuracy);
  out["steps"] = s.steps;
  out["seconds"] = Number(s.seconds);
  out["throughput"] = Number(s.throughput);
  AddMore(out, s.more);
  out["vcus"] = ordered_json::array();
  for (const VcuSummary& vcu : s.vcus) out["vcus"].push_back(ToValue(vcu));
  out["processes"] = ordered_json::array();
  for (const ProcessSummary& process : s.processes) {
    out["processes"].push_back({{"rank", process.rank},
                                {"host", process.host},
                                {"predicted_bytes", process.predicted_bytes},
                                {"achieved_bytes", process.achieved_bytes}});
  }
  if (!s.substitutes.empty()) out["substitutes"] = ordered_json::array();
  for (const Substitute& x : s.substitutes) {
    out["substitutes"].push_back({{"vcu", x.vcu},
                                  {"op", x.op},
                                  {"by", x.by},
                                  {"calls", x.calls},
                                  {"predicted_seconds", Number(x.seconds)}});
  }
  ordered_json line = ordered_json::object();
  line["summary"] = std::move(out);
  return Dump(line);
}

StatusOr<MetricsWriter> MetricsWriter::Open(const std::string& path, int64_t resume_step) {
  const std::string kept = resume_step > 0 ? KeepUpTo(path, resume_step) : "";
  // Written beside it first, so that a crash here loses nothing of what was recorded.
  const std::string fresh = path + ".new";
  std::FILE* file = std::fopen(fresh.c_str(), "we");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat("write ", fresh, ": ", std::strerror(errno)));
  }
  MetricsWriter writer(path, file);
  std::fputs(kept.c_str(), file);
  std::error_code error;
  if (std::fflush(file) == 0) std::filesystem::rename(fresh, path, error);
  if (std::ferror(file) != 0 || error) {
    return absl::UnavailableError(absl::StrCat("write ", path, ": cannot write it"));
  }
  return writer;
}

Status MetricsWriter::WriteLine(const std::string& line) {
  std::FILE* file = file_.get();
  if (std::fputs(line.c_str(), file) < 0 || std::fputc('\n', file) == EOF ||
      std::fflush(file) != 0) {
    return absl::UnavailableError(absl::StrCat("write ", path_, ": ", std::strerror(errno)));
  }
  return OkStatus();
}

Status MetricsWriter::Write(const StepMetrics& metrics) { return WriteLine(ToJson(metrics)); }

Status MetricsWriter::WriteSummary(const RunSummary& summary) { return WriteLine(ToJson(summary)); }

}  // namespace oc
