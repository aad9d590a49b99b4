#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <map>
#include <nlohmann/json.hpp>

#include "openclaw/runtime/parity/parity.h"

namespace oc::parity {
namespace {

using nlohmann::json;

std::string Row(const std::string& what, const std::string& way, const Deviation& d,
                const std::string& notes) {
  return absl::StrFormat("  %-32s %-10s %9.2e %9.2e %9.3g  %s%s\n", what, way, d.largest, d.mean,
                         d.of_allowed, d.where,
                         d.error.empty() ? notes : absl::StrCat(": FAILED: ", d.error));
}

std::string Notes(const OpRow& row) {
  std::string notes;
  for (const std::string& leaf : row.on_reference_code) {
    absl::StrAppend(&notes, "; ", leaf, " ran reference code");
  }
  return notes;
}

// "opencl:0 lacks 3 (no kernel for bf16)" -> what.
std::vector<std::pair<std::string, std::vector<std::string>>> ByReason(
    const std::vector<Lack>& lacks) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const Lack& l : lacks) groups[{l.device, l.reason}].push_back(l.what);
  std::vector<std::pair<std::string, std::vector<std::string>>> result;
  for (auto& [key, whats] : groups) {
    result.emplace_back(absl::StrCat(key.first, " lacks ", whats.size(), " (", key.second, ")"),
                        std::move(whats));
  }
  return result;
}

std::string PairText(const Report& report, const Pair& pair, size_t most) {
  const auto kind = [&](const std::string& name) {
    for (const ComparedDevice& d : report.devices) {
      if (d.name == name) return d.kind;
    }
    return std::string();
  };
  std::string text =
      absl::StrCat(pair.a, " (", kind(pair.a), ") and ", pair.b, " (", kind(pair.b), ")\n");
  absl::StrAppendFormat(&text, "  %-32s %-10s %9s %9s %9s  %s\n", "op or model", "", "largest",
                        "mean", "/allowed", "worst at");
  for (const TrainingRow& t : pair.training) {
    text += Row(absl::StrCat("training of ", t.model), "losses", t.losses, "");
    if (t.losses.error.empty()) text += Row("", "parameters", t.parameters, "");
  }
  size_t shown = 0, exceeded = 0, equal = 0, on_reference = 0;
  for (const OpRow& row : pair.ops) {
    const bool exceeds = row.deviation.of_allowed > 1;
    exceeded += exceeds ? 1 : 0;
    on_reference += row.on_reference_code.empty() ? 0 : 1;
    equal += row.deviation.of_allowed == 0 ? 1 : 0;
    if (!exceeds && (shown >= most || row.deviation.of_allowed == 0)) continue;
    ++shown;
    text += Row(absl::StrCat(row.op, " ", Name(row.dtype)), row.backward ? "backward" : "forward",
                row.deviation, Notes(row));
  }
  absl::StrAppend(&text, "  ", pair.ops.size(), " ops by dtype and way: ", exceeded,
                  " beyond what is allowed, ", equal, " equal to the bit, ", on_reference,
                  " ran reference code on a side that is not the reference device, ",
                  pair.ops.size() - shown, " not shown\n");
  for (const auto& [reason, whats] : ByReason(pair.lacks)) {
    absl::StrAppend(&text, "  ", reason, ": ", absl::StrJoin(whats, ", "), "\n");
  }
  return text;
}

json ToJson(const Deviation& d) {
  json j = {{"largest", d.largest},
            {"mean", d.mean},
            {"of_allowed", d.of_allowed},
            {"exceeded", d.of_allowed > 1},
            {"where", d.where}};
  if (!d.error.empty()) j["error"] = d.error;
  return j;
}

json ToJson(const Lack& l) {
  return {{"device", l.device}, {"what", l.what}, {"reason", l.reason}};
}

json ToJson(const Pair& pair) {
  json j = {{"a", pair.a},
            {"b", pair.b},
            {"ok", pair.ok()},
            {"ops", json::array()},
            {"training", json::array()},
            {"lacks", json::array()}};
  for (const OpRow& r : pair.ops) {
    json row = ToJson(r.deviation);
    row.update({{"op", r.op},
                {"dtype", Name(r.dtype)},
                {"way", r.backward ? "backward" : "forward"},
                {"cases", r.cases},
                {"on_reference_code", r.on_reference_code}});
    j["ops"].push_back(std::move(row));
  }
  for (const TrainingRow& t : pair.training) {
    j["training"].push_back(
        {{"model", t.model}, {"losses", ToJson(t.losses)}, {"parameters", ToJson(t.parameters)}});
  }
  for (const Lack& l : pair.lacks) j["lacks"].push_back(ToJson(l));
  return j;
}

}  // namespace

std::string ToText(const Report& report, size_t rows) {
  std::string text;
  for (const Lack& l : report.absent) {
    absl::StrAppend(&text, "left out: ", l.device, ": ", l.reason, "\n");
  }
  for (const Pair& pair : report.pairs) absl::StrAppend(&text, PairText(report, pair, rows), "\n");
  absl::StrAppend(&text,
                  report.ok() ? "all within what is allowed\n" : "NOT within what is allowed\n");
  return text;
}

std::string ToJson(const Report& report) {
  json j = {{"ok", report.ok()},
            {"devices", json::array()},
            {"pairs", json::array()},
            {"absent", json::array()}};
  for (const ComparedDevice& d : report.devices) {
    j["devices"].push_back({{"name", d.name}, {"kind", d.kind}});
  }
  for (const Pair& pair : report.pairs) j["pairs"].push_back(ToJson(pair));
  for (const Lack& l : report.absent) j["absent"].push_back(ToJson(l));
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace oc::parity
