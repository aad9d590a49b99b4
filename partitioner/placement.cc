#include "openclaw/partitioner/placement.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace oc {
namespace {

// VCUs of one class can stand for each other.
std::vector<int> Classes(const ClusterSpec& cluster) {
  std::vector<std::pair<std::string, int64_t>> known;
  std::vector<int> classes;
  for (const VcuSpec& v : cluster.vcus) {
    const std::pair key(v.kind, v.memory_bytes);
    const auto at = std::find(known.begin(), known.end(), key);
    classes.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(key);
  }
  return classes;
}

// chains[r * depth + s]: a VCU.
Placement FromChains(const std::vector<int>& chains, int depth, int replicas) {
  Placement placement(depth);
  for (int s = 0; s < depth; ++s) {
    for (int r = 0; r < replicas; ++r) placement[s].push_back(chains[r * depth + s]);
  }
  return placement;
}

// Equal for chains that differ only in their order.
std::vector<std::vector<int>> KeyOf(const std::vector<int>& classes, int depth, int replicas) {
  std::vector<std::vector<int>> chains;
  for (int r = 0; r < replicas; ++r) {
    chains.emplace_back(classes.begin() + r * depth, classes.begin() + (r + 1) * depth);
  }
  std::sort(chains.begin(), chains.end());
  return chains;
}

}  // namespace

std::vector<Placement> Placements(const ClusterSpec& cluster, int depth, int replicas, int most) {
  const int taken = depth * replicas;
  std::vector<int> neighbours(cluster.size());
  std::iota(neighbours.begin(), neighbours.end(), 0);
  std::vector<Placement> result = {FromChains(neighbours, depth, replicas)};
  const std::vector<int> class_of = Classes(cluster);
  std::set<std::vector<std::vector<int>>> seen = {KeyOf(class_of, depth, replicas)};
  const auto add = [&](const std::vector<int>& placed) {
    if (!seen.insert(KeyOf(placed, depth, replicas)).second) return;
    std::vector<int> chains;
    std::vector<bool> used(cluster.size(), false);
    for (int i = 0; i < taken; ++i) {
      int v = 0;
      while (used[v] || class_of[v] != placed[i]) ++v;
      used[v] = true;
      chains.push_back(v);
    }
    result.push_back(FromChains(chains, depth, replicas));
  };
  // Chains of one class, then stages of one class, then every order of the classes. The steps are
  // bounded as well: most orders of many VCUs are alike.
  std::vector<int> order = class_of;
  std::sort(order.begin(), order.end());
  add(order);
  std::vector<int> by_stage(order);
  for (int s = 0; s < depth; ++s) {
    for (int r = 0; r < replicas; ++r) by_stage[r * depth + s] = order[s * replicas + r];
  }
  add(by_stage);
  for (int64_t steps = int64_t{most} * 64; steps > 0; --steps) {
    if (static_cast<int>(result.size()) > most) break;
    add(order);
    if (!std::next_permutation(order.begin(), order.end())) break;
  }
  return result;
}

}  // namespace oc
