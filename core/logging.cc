#include "openclaw/core/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "openclaw/core/status.h"

namespace oc {
namespace {

std::shared_ptr<spdlog::logger> MakeLogger() {
  auto logger = std::make_shared<spdlog::logger>(
      "openclaw", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %^%L%$ %v");
  logger->flush_on(spdlog::level::debug);
  const char* env = std::getenv("OC_LOG_LEVEL");
  logger->set_level(env != nullptr ? spdlog::level::from_str(env) : spdlog::level::info);
  return logger;
}

spdlog::logger& Logger() {
  static std::shared_ptr<spdlog::logger> logger = MakeLogger();
  return *logger;
}

spdlog::level::level_enum Convert(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::mutex prefix_mutex;
std::string prefix;  // guarded by prefix_mutex

}  // namespace

void Log(LogLevel level, const std::string& message) {
  std::string head;
  {
    std::lock_guard<std::mutex> lock(prefix_mutex);
    head = prefix;
  }
  Logger().log(Convert(level), "{}{}{}", head, head.empty() ? "" : ": ", message);
}

void SetLogLevel(LogLevel level) { Logger().set_level(Convert(level)); }

void SetLogPrefix(const std::string& text) {
  std::lock_guard<std::mutex> lock(prefix_mutex);
  prefix = text;
}

Status Annotate(const Status& status, const std::string& context) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace oc
