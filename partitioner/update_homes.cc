#include "openclaw/partitioner/update_homes.h"

#include <map>
#include <set>

namespace oc {

std::vector<std::string> UpdateHomes(const Graph& joint, const Graph& update) {
  std::map<std::string, std::string> targets;  // of reduced values, by name
  for (const Accumulator& a : joint.accumulators) {
    if (a.target != kNone) targets[a.name] = joint.value(a.target).name;
  }
  std::set<std::string> own;
  for (const auto* list : {&joint.parameters, &joint.states}) {
    for (const Variable& v : *list) own.insert(joint.value(v.value).name);
  }
  std::vector<std::string> homes(update.values.size());
  for (const Value& v : update.values) {
    const auto target = targets.find(v.name);
    if (v.kind == ValueKind::kReduced && target != targets.end()) homes[v.id] = target->second;
    const bool variable = v.kind == ValueKind::kParameter || v.kind == ValueKind::kState;
    // Running statistics and parameters are at home; an optimizer's state is where it is read.
    if (variable && own.count(v.name) != 0) homes[v.id] = v.name;
  }
  for (const Node& node : update.nodes) {
    std::string home;
    bool several = false;
    for (int v : node.inputs) {
      if (homes[v].empty()) continue;
      several |= !home.empty() && home != homes[v];
      home = homes[v];
    }
    if (several || home.empty()) continue;
    for (int v : node.inputs) {
      if (update.value(v).kind == ValueKind::kState && homes[v].empty()) homes[v] = home;
    }
    for (int v : node.outputs) homes[v] = home;
  }
  return homes;
}

}  // namespace oc
