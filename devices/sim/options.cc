#include "openclaw/devices/sim/options.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <cmath>
#include <functional>

#include "openclaw/core/nearest_name.h"

namespace oc::sim {
namespace {

// Reads one value; what it must be where it is not that, else empty.
using Reader = std::function<std::string(const std::string& text, SimOptions& options)>;

Reader Number(double SimOptions::*member, bool zero_allowed) {
  return [=](const std::string& text, SimOptions& options) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
        (value > 0 || (zero_allowed && value == 0))) {
      options.*member = value;
      return "";
    }
    return zero_allowed ? "a number of at least 0" : "a number above 0";
  };
}

Reader Count(int64_t SimOptions::*member) {
  return [=](const std::string& text, SimOptions& options) -> std::string {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < 1) return "an integer of at least 1";
    options.*member = value;
    return "";
  };
}

std::string ReadQueueName(const std::string& text, SimOptions& options) {
  if (text.empty()) return "the name of a queue, such as compute";
  options.faults_on = text;
  return "";
}

std::string ReadDTypes(const std::string& text, SimOptions& options) {
  for (const auto part : absl::StrSplit(text, ',')) {
    const auto dtype = ParseDType(std::string(absl::StripAsciiWhitespace(part)));
    if (!dtype.ok()) return absl::StrCat("a list of element types: ", dtype.status().message());
    options.dtypes.push_back(*dtype);
  }
  return "";
}

Reader Ops(std::vector<std::string> SimOptions::*member) {
  return [member](const std::string& text, SimOptions& options) -> std::string {
    for (const auto part : absl::StrSplit(text, ',')) {
      std::vector<std::string>& ops = options.*member;
      ops.emplace_back(absl::StripAsciiWhitespace(part));
      if (ops.back().empty()) return "a list of ops, such as layer_norm,softmax";
    }
    return "";
  };
}

const std::map<std::string, Reader>& Readers() {
  static const std::map<std::string, Reader> readers = {
      {"speed", Number(&SimOptions::speed, false)},
      {"flops", Number(&SimOptions::flops, false)},
      {"memory_gbps", Number(&SimOptions::memory_gbps, false)},
      {"latency_us", Number(&SimOptions::latency_us, true)},
      {"bandwidth_gbps", Number(&SimOptions::bandwidth_gbps, false)},
      {"dtypes", &ReadDTypes},
      {"lacks", Ops(&SimOptions::lacks)},
      {"not_deterministic", Ops(&SimOptions::not_deterministic)},
      {"fail_at", Count(&SimOptions::fail_at)},
      {"never_signal_at", Count(&SimOptions::never_signal_at)},
      {"faults_on", &ReadQueueName},
      {"out_of_memory_at", Count(&SimOptions::out_of_memory_at)}};
  return readers;
}

Status Unknown(const std::string& key) {
  std::vector<std::string> known;
  for (const auto& [name, reader] : Readers()) known.push_back(name);
  const std::string nearest = NearestName(key, known);
  return InvalidArgument("unknown option '", key, "'",
                         nearest.empty()
                             ? absl::StrCat("; known here: ", absl::StrJoin(known, ", "))
                             : absl::StrCat("; did you mean '", nearest, "'?"));
}

}  // namespace

StatusOr<SimOptions> ParseOptions(const std::map<std::string, std::string>& options) {
  SimOptions result;
  for (const auto& [key, text] : options) {
    const auto it = Readers().find(key);
    if (it == Readers().end()) return Unknown(key);
    const std::string wanted = it->second(text, result);
    if (!wanted.empty()) {
      return InvalidArgument("option '", key, "' is '", text, "', which must be ", wanted);
    }
  }
  for (const char* rate : {"flops", "memory_gbps"}) {
    if (options.contains(rate) && result.speed == 0) result.speed = 1;
  }
  if (!result.faults_on.empty() && result.fail_at == 0 && result.never_signal_at == 0) {
    return InvalidArgument("option 'faults_on' needs 'fail_at' or 'never_signal_at'");
  }
  return result;
}

std::string CostName(const SimOptions& options) {
  std::vector<std::string> parts;
  const SimOptions defaults;
  parts.push_back(options.speed > 0 ? absl::StrCat(options.speed, "x") : "host");
  if (options.flops != defaults.flops) parts.push_back(absl::StrCat("flops=", options.flops));
  if (options.memory_gbps != defaults.memory_gbps) {
    parts.push_back(absl::StrCat("memory_gbps=", options.memory_gbps));
  }
  if (!options.dtypes.empty()) {
    parts.push_back(absl::StrCat(
        "dtypes=", absl::StrJoin(options.dtypes, "+",
                                 [](std::string* out, DType t) { out->append(Name(t)); })));
  }
  if (!options.lacks.empty()) {
    parts.push_back(absl::StrCat("lacks=", absl::StrJoin(options.lacks, "+")));
  }
  if (!options.not_deterministic.empty()) {
    parts.push_back(
        absl::StrCat("not_deterministic=", absl::StrJoin(options.not_deterministic, "+")));
  }
  return absl::StrJoin(parts, ",");
}

}  // namespace oc::sim
