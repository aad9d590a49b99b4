#include "openclaw/core/cost_table.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace oc {

using nlohmann::json;

const CostEntry* CostTable::Find(const std::string& key) const {
  auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

std::string CostTable::ToJson() const {
  json list = json::object();
  for (const auto& [key, e] : entries_) {
    list[key] = {{"seconds", e.seconds},
                 {"workspace_bytes", e.workspace_bytes},
                 {"opaque_bytes", e.opaque_bytes},
                 {"supported", e.supported}};
    if (e.host_bytes > 0) list[key]["host_bytes"] = e.host_bytes;
    if (!e.substitute.empty()) list[key]["substitute"] = e.substitute;
    if (e.deterministic) list[key]["deterministic"] = true;
  }
  return json{{"format", "openclaw-profile"}, {"version", 1}, {"entries", std::move(list)}}.dump(
      1, ' ', false, json::error_handler_t::replace);
}

StatusOr<CostTable> CostTable::FromJson(const std::string& text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  CostTable table;
  try {
    if (!root.is_object() || root.at("format") != "openclaw-profile") {
      return DataLoss("profile: not a profile file or damaged");
    }
    if (root.at("version") != 1) {
      return DataLoss("profile: version ", root.at("version").dump(), ", known is version 1");
    }
    const json& entries = root.at("entries");
    if (!entries.is_object()) return DataLoss("profile: entries are no object");
    for (const auto& [key, e] : entries.items()) {
      table.Set(key, {e.at("seconds").get<double>(), e.at("workspace_bytes").get<int64_t>(),
                      e.at("opaque_bytes").get<std::vector<int64_t>>(), e.value("supported", true),
                      e.value("host_bytes", int64_t{0}), e.value("substitute", ""),
                      e.value("deterministic", false)});
    }
  } catch (const json::exception& e) {
    return DataLoss("profile: damaged: ", e.what());
  }
  return table;
}

Status CostTable::Save(const std::string& path) const {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary);
  out << ToJson();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, path, error);
  if (!out || error)
    return absl::UnavailableError(absl::StrCat("write profile ", path, ": cannot write"));
  return OkStatus();
}

StatusOr<CostTable> CostTable::Load(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::UnavailableError(absl::StrCat("read profile ", path, ": cannot open"));
  std::stringstream text;
  text << in.rdbuf();
  auto table = FromJson(text.str());
  if (!table.ok()) return Annotate(table.status(), path);
  return table;
}

}  // namespace oc
