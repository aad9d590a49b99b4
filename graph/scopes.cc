#include "openclaw/graph/scopes.h"

#include <set>

#include "openclaw/core/nearest_name.h"
#include "openclaw/core/pattern.h"

namespace oc {
namespace {

// Calls f(module) for each module on the way to `scope`, the outermost first, until f is true.
template <typename F>
void ForModules(const std::string& scope, const F& f) {
  for (size_t end = 1; end <= scope.size(); ++end) {
    if (end < scope.size() && scope[end] != '.') continue;
    if (f(scope.substr(0, end))) return;
  }
}

}  // namespace

std::string ModuleOf(const std::string& scope, const std::string& pattern) {
  std::string found;
  ForModules(scope, [&](const std::string& module) {
    if (MatchesPattern(pattern, module)) found = module;
    return !found.empty();
  });
  return found;
}

Status NoSuchModule(const Graph& graph, const std::string& key, const std::string& pattern) {
  std::set<std::string> known;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    ForModules(node.scope, [&](const std::string& module) {
      known.insert(module);
      return false;
    });
  }
  const std::string nearest = NearestName(pattern, {known.begin(), known.end()});
  return InvalidArgument(key, ": no module '", pattern, "'",
                         nearest.empty() ? "" : absl::StrCat("; nearest: '", nearest, "'"));
}

}  // namespace oc
