#include "openclaw/optim/groups.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>

#include "openclaw/core/nearest_name.h"
#include "openclaw/core/pattern.h"

namespace oc {
namespace {

std::string NameOf(const ParameterGroup& group) {
  return group.name.empty() ? absl::StrJoin(group.match, ", ") : group.name;
}

std::vector<std::string> Parts(const std::string& name) { return absl::StrSplit(name, '.'); }

// Up to three names that the pattern may have meant: those that have the part which comes nearest
// to one that the pattern misspells, else what there is.
std::string NearNames(const std::string& pattern, const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    for (const std::string& part : Parts(name)) parts.push_back(part);
  }
  std::vector<std::string> near;
  constexpr size_t kMost = 3;
  const auto add = [&](const std::string& name) {
    if (near.size() < kMost && std::count(near.begin(), near.end(), name) == 0) {
      near.push_back(name);
    }
  };
  for (const std::string& part : Parts(pattern)) {
    if (part.find_first_of("*?") != std::string::npos) continue;
    if (std::count(parts.begin(), parts.end(), part) != 0) continue;
    const std::string nearest = NearestName(part, parts);
    if (nearest.empty()) continue;
    for (const std::string& name : names) {
      const std::vector<std::string> own = Parts(name);
      if (std::count(own.begin(), own.end(), nearest) != 0) add(name);
    }
  }
  if (near.empty()) std::for_each(names.begin(), names.end(), add);
  return absl::StrJoin(near, ", ");
}

}  // namespace

Status CheckGroups(const std::vector<ParameterGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const ParameterGroup& g = groups[i];
    const auto bad = [&](const auto&... what) {
      return InvalidArgument("optimizer.groups.", i, ": ", what...);
    };
    if (g.match.empty()) return bad("match is missing: a pattern of parameters' names");
    if (!(g.lr_scale >= 0 && std::isfinite(g.lr_scale))) {
      return bad("lr_scale is ", g.lr_scale, ", wants a number from 0 on");
    }
    if (g.weight_decay && !(*g.weight_decay >= 0 && std::isfinite(*g.weight_decay))) {
      return bad("weight_decay is ", *g.weight_decay, ", wants a number from 0 on");
    }
  }
  return OkStatus();
}

StatusOr<std::vector<int>> AssignGroups(const std::vector<ParameterGroup>& groups,
                                        const std::vector<std::string>& names) {
  OC_RETURN_IF_ERROR(CheckGroups(groups));
  std::vector<int> assigned(names.size(), -1);
  for (size_t i = 0; i < groups.size(); ++i) {
    bool any = false;
    for (const std::string& pattern : groups[i].match) {
      bool matches = false;
      for (size_t n = 0; n < names.size(); ++n) {
        if (!MatchesPattern(pattern, names[n])) continue;
        matches = true;
        any |= assigned[n] == -1 || assigned[n] == static_cast<int>(i);
        if (assigned[n] == -1) assigned[n] = static_cast<int>(i);
      }
      if (matches) continue;
      return InvalidArgument("optimizer.groups.", i, ": no parameter matches '", pattern,
                             "'; there are ", NearNames(pattern, names), ", ...");
    }
    if (any) continue;
    return InvalidArgument("optimizer.groups.", i, " (", NameOf(groups[i]),
                           "): all of its parameters belong to groups before it");
  }
  return assigned;
}

}  // namespace oc
