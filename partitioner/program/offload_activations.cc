// VcuLowering: what backward needs of forward lies in memory of the host between its uses. The work
// of a stage is cut where such values are last used in forward and first used in backward; they go
// while the next piece is computed, and come while the one before theirs is.
#include <algorithm>

#include "openclaw/partitioner/program/saved_values.h"
#include "openclaw/partitioner/program/vcu_lowering.h"

namespace oc {
namespace {

// Pieces are no smaller than that the copies of one hide behind it.
constexpr int64_t kLeastGroup = 64 << 10;
constexpr int64_t kGroupsWanted = 8;
// Between going and coming so many pieces are computed at least: one while it goes, one while it
// comes, and one without it.
constexpr int kLeastAway = 3;

}  // namespace

const std::vector<VcuLowering::AwayGroup>& VcuLowering::AwayGroups(int stage) {
  auto [it, is_new] = away_.try_emplace(stage);
  std::vector<AwayGroup>& groups = it->second;
  const std::vector<int>& origins = offload().activations;
  if (!is_new || origins.empty()) return groups;
  std::vector<SavedValue> values = SavedValues(graph_, context_.analysis, stage);
  std::erase_if(values, [&](const SavedValue& v) {
    return v.bytes < kLeastSavedValue ||
           std::find(origins.begin(), origins.end(), v.origin) == origins.end();
  });
  int64_t total = 0, bytes = 0;
  for (const SavedValue& v : values) total += v.bytes;
  const int64_t enough = std::max(kLeastGroup, total / kGroupsWanted);
  bool open = false;
  for (const SavedValue& v : values) {
    // One that is let go at the same place adds no cut.
    if (!open || (bytes >= enough && v.last_forward > groups.back().last_forward)) {
      groups.push_back({.first_backward = v.first_backward});
      bytes = 0;
      open = true;
    }
    AwayGroup& group = groups.back();
    group.roots.push_back(v.root);
    group.last_forward = v.last_forward;
    group.first_backward = std::min(group.first_backward, v.first_backward);
    bytes += v.bytes;
  }
  return groups;
}

// Where the nodes of an item are cut: positions, the first is 0.
std::vector<int> VcuLowering::CutsOf(const WorkItem& item) {
  const int n =
      static_cast<int>(context_.analysis.nodes[item.stage][static_cast<int>(item.part)].size());
  std::set<int> cuts = {0};
  for (const AwayGroup& group : AwayGroups(item.stage)) {
    const int at = item.part == Part::kForward ? group.last_forward : group.first_backward;
    if (item.part != Part::kCount && at < n) cuts.insert(at);
  }
  return {cuts.begin(), cuts.end()};
}

// Whether enough is computed between the last use of the group in the forward of item `k` and its
// first in the backward.
bool VcuLowering::IsAwayLong(size_t k, const AwayGroup& group) {
  const std::vector<WorkItem>& work = context_.work[vcu_];
  const auto before = [&](const WorkItem& item, int position) {
    const std::vector<int> cuts = CutsOf(item);
    return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
  };
  int pieces = static_cast<int>(CutsOf(work[k]).size()) - before(work[k], group.last_forward);
  for (size_t j = k + 1; j < work.size(); ++j) {
    const WorkItem& item = work[j];
    if (item.stage == work[k].stage && item.micro_batch == work[k].micro_batch &&
        item.part == Part::kBackward) {
      return pieces + before(item, group.first_backward) >= kLeastAway;
    }
    pieces += static_cast<int>(CutsOf(item).size());
  }
  return false;
}

// Behind the nodes [begin, end) of item `k`'s forward.
void VcuLowering::TakeActivations(size_t k, int begin, int end) {
  const WorkItem& item = context_.work[vcu_][k];
  if (item.part != Part::kForward) return;
  for (const AwayGroup& group : AwayGroups(item.stage)) {
    if (group.last_forward <= begin || group.last_forward > end || !IsAwayLong(k, group)) continue;
    for (int root : group.roots) {
      const auto here = values_.find({root, item.micro_batch});
      OC_CHECK(here != values_.end(), graph_.value(root).name);
      const int there =
          NewBuffer(items_[here->second].bytes, MemoryUse::kActivations, Arena::kHost);
      EmitCopy(graph_.value(root).name, Whole(here->second), Whole(there));
      pending_.back().command.micro_batch = item.micro_batch;
      sent_buffers_.push_back(here->second);
      taken_[here->first] = there;
      values_.erase(here);
    }
  }
}

// What the nodes before `end` of item `k`'s backward touch and is not here.
void VcuLowering::BringActivations(size_t k, int end) {
  const std::vector<WorkItem>& work = context_.work[vcu_];
  if (k >= work.size() || work[k].part != Part::kBackward) return;
  for (const AwayGroup& group : AwayGroups(work[k].stage)) {
    if (group.first_backward >= end) continue;
    for (int root : group.roots) {
      const auto there = taken_.find({root, work[k].micro_batch});
      if (there == taken_.end()) continue;
      const int here = NewBuffer(items_[there->second].bytes, MemoryUse::kActivations);
      EmitCopy(graph_.value(root).name, Whole(there->second), Whole(here));
      pending_.back().command.micro_batch = work[k].micro_batch;
      values_[there->first] = here;
      taken_.erase(there);
    }
  }
}

// What the first nodes of item `k` touch, while the item before it ends.
void VcuLowering::BringFirstActivations(size_t k) {
  if (k >= context_.work[vcu_].size()) return;
  const std::vector<int> cuts = CutsOf(context_.work[vcu_][k]);
  BringActivations(k, cuts.size() > 1 ? cuts[1] : cuts[0] + 1);
}

}  // namespace oc
