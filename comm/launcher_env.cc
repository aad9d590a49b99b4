#include "openclaw/comm/launcher_env.h"

#include <cstdlib>

namespace oc {
namespace {

int IntOf(const char* variable) {
  const char* text = variable == nullptr ? nullptr : std::getenv(variable);
  if (text == nullptr || *text == 0) return -1;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == 0 && value >= 0 && value < (1 << 30) ? static_cast<int>(value) : -1;
}

}  // namespace

std::optional<LauncherEnvironment> DetectLauncher() {
  struct Known {
    const char* rank;
    const char* size;
  };
  constexpr Known kKnown[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                              {"PMI_RANK", "PMI_SIZE"},
                              {"PMIX_RANK", nullptr}};
  for (const Known& known : kKnown) {
    const int rank = IntOf(known.rank), size = IntOf(known.size);
    if (rank < 0 && size < 0) continue;
    return LauncherEnvironment{size >= 0 ? known.size : known.rank, rank, size};
  }
  return std::nullopt;
}

}  // namespace oc
