// The ordered list of passes, and its runner.
#include <absl/strings/str_join.h>

#include <algorithm>

#include "openclaw/core/clock.h"
#include "openclaw/graph/passes.h"

namespace oc {

std::vector<Pass> DefaultPasses() {
  return {
      {"identities", RemoveIdentities},
      {"dead_code", RemoveDeadNodes},
      {"common_subexpressions", MergeCommonSubexpressions},
      {"fuse_sum_types", FuseSumTypes},
      {"fuse_elementwise", FuseElementwise},
  };
}

Status RunPasses(Graph& graph, const std::vector<Pass>& passes, const PassOptions& options) {
  std::vector<std::string> known;
  for (const Pass& pass : passes) known.push_back(pass.name);
  for (const std::string& name : options.disabled) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument("disable pass '", name, "': unknown; there are ",
                             absl::StrJoin(known, ", "));
    }
  }
  for (const Pass& pass : passes) {
    if (std::find(options.disabled.begin(), options.disabled.end(), pass.name) !=
        options.disabled.end()) {
      continue;
    }
    const double begin = NowSeconds();
    OC_RETURN_IF_ERROR(Annotate(pass.run(graph), absl::StrCat("pass ", pass.name)));
    OC_RETURN_IF_ERROR(Annotate(Verify(graph), absl::StrCat("after pass ", pass.name)));
    if (options.observer) options.observer(pass.name, NowSeconds() - begin, graph);
  }
  return OkStatus();
}

}  // namespace oc
