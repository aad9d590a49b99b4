#include "openclaw/core/trace.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace oc {

Status WriteChromeTrace(const std::string& path, const std::vector<TraceEvent>& events) {
  nlohmann::json list = nlohmann::json::array();
  std::map<std::string, int> processes, threads;
  for (const TraceEvent& e : events) {
    auto [process, new_process] = processes.emplace(e.process, processes.size());
    auto [thread, new_thread] = threads.emplace(e.process + "/" + e.thread, threads.size());
    if (new_process) {
      list.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", process->second},
                      {"args", {{"name", e.process}}}});
    }
    if (new_thread) {
      list.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", process->second},
                      {"tid", thread->second},
                      {"args", {{"name", e.thread}}}});
    }
    list.push_back({{"ph", "X"},
                    {"name", e.name},
                    {"pid", process->second},
                    {"tid", thread->second},
                    {"ts", static_cast<double>(e.begin_nanos) * 1e-3},
                    {"dur", static_cast<double>(e.end_nanos - e.begin_nanos) * 1e-3}});
  }
  std::ofstream out(path);
  out << nlohmann::json{{"traceEvents", std::move(list)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  out.flush();
  if (!out) return absl::UnavailableError(absl::StrCat("write trace ", path, ": cannot write"));
  return OkStatus();
}

}  // namespace oc
