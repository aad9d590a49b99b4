// Log lines on standard error, one record a line, with the rank where one is set.
//
//   OC_LOG_INFO("planned ", stages, " stages");
#pragma once

#include <absl/strings/str_cat.h>

#include <string>

namespace oc {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Thread-safe.
void Log(LogLevel level, const std::string& message);
// Records below `level` are dropped. Default: kInfo, or the environment variable OC_LOG_LEVEL
// (debug, info, warning, error).
void SetLogLevel(LogLevel level);
// A prefix for every record of the process, such as "rank 1"; empty for none.
void SetLogPrefix(const std::string& prefix);

}  // namespace oc

#define OC_LOG_DEBUG(...) ::oc::Log(::oc::LogLevel::kDebug, ::absl::StrCat(__VA_ARGS__))
#define OC_LOG_INFO(...) ::oc::Log(::oc::LogLevel::kInfo, ::absl::StrCat(__VA_ARGS__))
#define OC_LOG_WARNING(...) ::oc::Log(::oc::LogLevel::kWarning, ::absl::StrCat(__VA_ARGS__))
#define OC_LOG_ERROR(...) ::oc::Log(::oc::LogLevel::kError, ::absl::StrCat(__VA_ARGS__))
