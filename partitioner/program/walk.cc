#include "openclaw/partitioner/program/walk.h"

#include <algorithm>

namespace oc {
namespace {

constexpr double kNotYet = -1;

class Walker {
 public:
  Walker(const Program& program, const DurationFunction& duration)
      : program_(program), duration_(duration) {
    for (const VcuProgram& v : program.vcus) {
      walk_.times.emplace_back(v.commands.size(), CommandTime{kNotYet, kNotYet});
      heads_.emplace_back(v.lanes.size(), 0);
      lane_free_.emplace_back(v.lanes.size(), 0.0);
      std::vector<std::vector<int>> lanes(v.lanes.size());
      for (size_t i = 0; i < v.commands.size(); ++i) {
        lanes[v.commands[i].lane].push_back(static_cast<int>(i));
      }
      commands_.push_back(std::move(lanes));
    }
  }

  StatusOr<Walk> Run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (int vcu = 0; vcu < static_cast<int>(program_.vcus.size()); ++vcu) {
        for (int lane = 0; lane < static_cast<int>(heads_[vcu].size()); ++lane) {
          while (TryHead(vcu, lane)) progress = true;
        }
      }
    }
    std::string stuck;
    int count = 0;
    for (int vcu = 0; vcu < static_cast<int>(program_.vcus.size()); ++vcu) {
      for (int lane = 0; lane < static_cast<int>(heads_[vcu].size()); ++lane) {
        const int head = Head(vcu, lane);
        if (head != kNone && count++ < 6) absl::StrAppend(&stuck, "; ", Describe(vcu, head));
      }
    }
    if (count > 0) {
      return InvalidArgument("program: ", count, " lanes cannot go on", stuck);
    }
    return std::move(walk_);
  }

 private:
  int Head(int vcu, int lane) const {
    const std::vector<int>& list = commands_[vcu][lane];
    return heads_[vcu][lane] < list.size() ? list[heads_[vcu][lane]] : kNone;
  }
  const Command& At(int vcu, int index) const { return program_.vcus[vcu].commands[index]; }

  // When the command may start as far as its own VCU is concerned; kNotYet where it may not.
  double Ready(int vcu, int index) const {
    const Command& c = At(vcu, index);
    double ready = lane_free_[vcu][c.lane];
    for (int wait : c.waits) {
      if (walk_.times[vcu][wait].end == kNotYet) return kNotYet;
      ready = std::max(ready, walk_.times[vcu][wait].end);
    }
    return ready;
  }

  void Finish(int vcu, int index, double begin, double seconds) {
    const int lane = At(vcu, index).lane;
    walk_.times[vcu][index] = {begin, begin + seconds};
    lane_free_[vcu][lane] = begin + seconds;
    ++heads_[vcu][lane];
  }

  int FindLane(int vcu, const LaneSpec& spec) const {
    const std::vector<LaneSpec>& lanes = program_.vcus[vcu].lanes;
    const auto at = std::find(lanes.begin(), lanes.end(), spec);
    return at == lanes.end() ? kNone : static_cast<int>(at - lanes.begin());
  }

  // The other ends of the command at the head of a lane: (vcu, command), itself first. Empty where
  // one is not there yet.
  std::vector<std::pair<int, int>> Ends(int vcu, int index) const {
    const Command& c = At(vcu, index);
    std::vector<std::pair<int, int>> ends = {{vcu, index}};
    const auto add = [&](int other, const LaneSpec& spec) {
      const int lane = FindLane(other, spec);
      const int head = lane == kNone ? kNone : Head(other, lane);
      if (head == kNone) return false;
      ends.emplace_back(other, head);
      return true;
    };
    if (c.kind == CommandKind::kSend) {
      if (!add(c.peer, {LaneKind::kRecv, vcu})) return {};
    } else if (c.kind == CommandKind::kRecv) {
      if (!add(c.peer, {LaneKind::kSend, vcu})) return {};
    } else if (c.kind == CommandKind::kCollective) {
      for (int member : program_.groups[c.group].vcus) {
        if (member != vcu && !add(member, {LaneKind::kGroup, c.group})) return {};
      }
    }
    return ends;
  }

  bool TryHead(int vcu, int lane) {
    const int head = Head(vcu, lane);
    if (head == kNone) return false;
    const std::vector<std::pair<int, int>> ends = Ends(vcu, head);
    if (ends.empty()) return false;
    double begin = 0;
    for (const auto& [other, index] : ends) {
      const double ready = Ready(other, index);
      if (ready == kNotYet) return false;
      begin = std::max(begin, ready);
    }
    double seconds = 0;
    for (const auto& [other, index] : ends) {
      seconds = std::max(seconds, duration_(other, At(other, index)));
    }
    for (const auto& [other, index] : ends) Finish(other, index, begin, seconds);
    return true;
  }

  std::string Describe(int vcu, int index) const {
    const Command& c = At(vcu, index);
    std::string text = absl::StrCat("VCU ", program_.vcus[vcu].name, " command ", index, " ",
                                    Name(c.kind), " ", c.name);
    if (c.micro_batch != kNone) absl::StrAppend(&text, " of micro-batch ", c.micro_batch);
    for (int wait : c.waits) {
      if (walk_.times[vcu][wait].end == kNotYet) {
        return absl::StrCat(text, " waits for command ", wait);
      }
    }
    if (c.peer != kNone) return absl::StrCat(text, " waits for VCU ", program_.vcus[c.peer].name);
    if (c.group != kNone) return absl::StrCat(text, " waits for group ", c.group);
    return text;
  }

  const Program& program_;
  const DurationFunction& duration_;
  Walk walk_;
  std::vector<std::vector<std::vector<int>>> commands_;  // [vcu][lane]
  std::vector<std::vector<size_t>> heads_;
  std::vector<std::vector<double>> lane_free_;
};

}  // namespace

StatusOr<Walk> WalkProgram(const Program& program, const DurationFunction& duration) {
  return Walker(program, duration).Run();
}

}  // namespace oc
