#include "openclaw/partitioner/program/verify.h"

#include <algorithm>
#include <map>

#include "openclaw/partitioner/program/arena.h"
#include "openclaw/partitioner/program/verify_rules.h"
#include "openclaw/partitioner/program/walk.h"

namespace oc {
namespace {

Status CheckMoved(const Program& program, int vcu, int index, const Command& c) {
  const auto bad = [&](const std::string& what) {
    return InvalidArgument("structure: ", Where(program, vcu, index), ": ", what);
  };
  const bool gathers = c.op == CollectiveOp::kAllGather;
  if (c.writes.empty() || c.reads.size() > 1) return bad("wants one range");
  if (!gathers && (c.reads.empty() || !(c.reads[0] == c.writes[0]))) {
    return bad("wants one range, in place");
  }
  if (c.bucket != kNone && (c.bucket < 0 || c.bucket >= static_cast<int>(program.buckets.size()) ||
                            program.buckets[c.bucket].group != c.group)) {
    return bad("moves a bucket of another group");
  }
  if (c.pieces.empty()) {
    return c.op == CollectiveOp::kAllReduce ? OkStatus() : bad("names no pieces");
  }
  const std::vector<int>& members = program.groups[c.group].vcus;
  const int64_t size = SizeInBytes(c.dtype);
  if (c.pieces.size() != members.size() + 1 || c.pieces.front() != 0 ||
      c.pieces.back() * size != c.writes[0].bytes ||
      !std::is_sorted(c.pieces.begin(), c.pieces.end())) {
    return bad("its pieces do not make up its data");
  }
  const int64_t own = OwnPiece(program, vcu, c).bytes;
  const int64_t read = c.reads.empty() ? 0 : c.reads[0].bytes;
  if (gathers && own != read)
    return bad(absl::StrCat("gives ", read, " bytes as its piece of ", own));
  return OkStatus();
}

Status CheckOne(const Program& program, int vcu, int index, const Command& c) {
  const VcuProgram& v = program.vcus[vcu];
  const auto bad = [&](const std::string& what) {
    return InvalidArgument("structure: ", Where(program, vcu, index), ": ", what);
  };
  if (c.lane < 0 || c.lane >= static_cast<int>(v.lanes.size())) return bad("no such lane");
  for (int wait : c.waits) {
    if (wait < 0 || wait >= index) return bad(absl::StrCat("waits for command ", wait));
  }
  if (!c.predicate.empty() &&
      (c.kind != CommandKind::kCompute || std::find(program.metrics.begin(), program.metrics.end(),
                                                    c.predicate) == program.metrics.end())) {
    return bad(
        absl::StrCat("its condition ", c.predicate, " is no metric, or it computes nothing"));
  }
  const LaneSpec lane = v.lanes[c.lane];
  const int num_vcus = static_cast<int>(program.vcus.size());
  switch (c.kind) {
    case CommandKind::kCompute:
      if (c.segment < 0 || c.segment >= static_cast<int>(v.segments.size()))
        return bad("no such segment");
      if (lane.kind !=
          (v.segments[c.segment].on_host ? LaneKind::kHostCompute : LaneKind::kCompute)) {
        return bad("computes on another lane");
      }
      if (c.slots.size() != v.segments[c.segment].slots.size()) return bad("slots are missing");
      for (size_t s = 0; s < c.slots.size(); ++s) {
        if (c.slots[s].bytes != v.segments[c.segment].slots[s].bytes) {
          return bad(absl::StrCat("slot ", s, " has another size"));
        }
      }
      break;
    case CommandKind::kSend:
    case CommandKind::kRecv: {
      const bool send = c.kind == CommandKind::kSend;
      if (c.peer < 0 || c.peer >= num_vcus || c.peer == vcu) return bad("no such peer");
      if (!(lane == LaneSpec{send ? LaneKind::kSend : LaneKind::kRecv, c.peer}))
        return bad("wrong lane");
      if ((send ? c.reads : c.writes).size() != 1) return bad("wants one range");
      break;
    }
    case CommandKind::kCollective: {
      if (c.group < 0 || c.group >= static_cast<int>(program.groups.size()))
        return bad("no such group");
      const std::vector<int>& members = program.groups[c.group].vcus;
      if (std::find(members.begin(), members.end(), vcu) == members.end())
        return bad("is no member");
      if (!(lane == LaneSpec{LaneKind::kGroup, c.group})) return bad("wrong lane");
      return CheckMoved(program, vcu, index, c);
    }
    case CommandKind::kFeed:
      if (c.writes.size() != 1) return bad("wants one range");
      break;
    case CommandKind::kSnapshot:
      if (c.reads.size() != 1) return bad("wants one range");
      break;
    case CommandKind::kCopy:
      if (c.reads.size() != 1 || c.writes.size() != 1 || c.reads[0].bytes != c.writes[0].bytes) {
        return bad("wants two ranges of one size");
      }
      break;
  }
  return OkStatus();
}

bool OfDevice(const Range& r) { return r.arena == Arena::kState || r.arena == Arena::kStep; }

// Who may touch which arena, and on which lane.
Status CheckArenas(const Program& program, const ClusterSpec&) {
  return ForEachCommand(program, [&](int vcu, int i, const Command& c) -> Status {
    const auto bad = [&](const std::string& what) {
      return InvalidArgument("arenas: ", Where(program, vcu, i), ": ", what);
    };
    const VcuProgram& v = program.vcus[vcu];
    if (c.kind == CommandKind::kCopy) {
      const Range &from = c.reads[0], &to = c.writes[0];
      if (!OfDevice(from) && !OfDevice(to)) return bad("neither end is the device's");
      const bool file = from.arena == Arena::kFile || to.arena == Arena::kFile;
      const bool out = !OfDevice(to);
      if (!(v.lanes[c.lane] == LaneSpec{file ? LaneKind::kFile : LaneKind::kCopy, out ? 1 : 0})) {
        return bad("wrong lane");
      }
      return OkStatus();
    }
    const bool on_host = c.kind == CommandKind::kCompute && v.segments[c.segment].on_host;
    for (const auto* list : {&c.slots, &c.reads, &c.writes}) {
      for (const Range& r : *list) {
        if (r.bytes == 0) continue;
        const bool fits = c.kind == CommandKind::kFeed ? r.arena != Arena::kFile
                          : on_host                    ? r.arena == Arena::kHost
                                                       : OfDevice(r);
        if (!fits) return bad(absl::StrCat("touches the arena ", Name(r.arena)));
      }
    }
    return OkStatus();
  });
}

Status CheckStructure(const Program& program, const ClusterSpec& cluster) {
  if (static_cast<int>(program.vcus.size()) != cluster.size()) {
    return InvalidArgument("structure: the Program has ", program.vcus.size(),
                           " VCUs, the cluster ", cluster.size());
  }
  for (size_t g = 0; g < program.groups.size(); ++g) {
    for (int vcu : program.groups[g].vcus) {
      if (vcu < 0 || vcu >= cluster.size())
        return InvalidArgument("structure: group ", g, " names VCU ", vcu);
    }
  }
  return ForEachCommand(
      program, [&](int vcu, int i, const Command& c) { return CheckOne(program, vcu, i, c); });
}

Status CheckBounds(const Program& program, const ClusterSpec&) {
  return ForEachCommand(program, [&](int vcu, int i, const Command& c) -> Status {
    const VcuProgram& v = program.vcus[vcu];
    for (const auto* list : {&c.slots, &c.reads, &c.writes}) {
      for (const Range& r : *list) {
        const int64_t size = v.ArenaBytes(r.arena);
        if (r.offset < 0 || r.bytes < 0 || r.offset + r.bytes > size) {
          return InvalidArgument("bounds: ", Where(program, vcu, i), " touches ", r.offset, "+",
                                 r.bytes, " of ", size);
        }
      }
    }
    return OkStatus();
  });
}

// What the calls of a Compute read before they write it, and what they write.
void Footprint(const Segment& segment, const Command& c, std::vector<Range>& reads,
               std::vector<Range>& writes) {
  std::vector<bool> written(c.slots.size(), false);
  for (const Call& call : segment.calls) {
    for (int s : call.inputs) {
      if (!written[s]) reads.push_back(c.slots[s]);
    }
    for (size_t o = 0; o < call.outputs.size(); ++o) {
      const int s = call.outputs[o];
      if (HasOutput(call.accumulate, o) && !written[s]) reads.push_back(c.slots[s]);
      written[s] = true;
      writes.push_back(c.slots[s]);
    }
    if (call.workspace != kNone) {
      written[call.workspace] = true;
      writes.push_back(c.slots[call.workspace]);
    }
  }
  reads = MergeRanges(std::move(reads));
  writes = MergeRanges(std::move(writes));
}

Status CheckFootprint(const Program& program, const ClusterSpec&) {
  return ForEachCommand(program, [&](int vcu, int i, const Command& c) -> Status {
    if (c.kind != CommandKind::kCompute) return OkStatus();
    std::vector<Range> reads, writes;
    Footprint(program.vcus[vcu].segments[c.segment], c, reads, writes);
    if (!c.predicate.empty()) {
      const VcuProgram& v = program.vcus[vcu];
      reads.push_back(v.segments[c.segment].on_host ? v.host_metrics : v.metrics);
      reads = MergeRanges(std::move(reads));
    }
    if (reads == MergeRanges(c.reads) && writes == MergeRanges(c.writes)) return OkStatus();
    return InvalidArgument("footprint: ", Where(program, vcu, i),
                           " does not read and write what its calls do");
  });
}

Status CheckMemory(const Program& program, const ClusterSpec& cluster) {
  for (int vcu = 0; vcu < cluster.size(); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    const int64_t needed = v.state_bytes + v.step_bytes;
    if (needed <= cluster.vcus[vcu].memory_bytes) continue;
    return ResourceExhausted("memory: VCU ", v.name, " needs ", needed, " bytes, its budget is ",
                             cluster.vcus[vcu].memory_bytes);
  }
  return OkStatus();
}

Status CheckMessages(const Program& program, const ClusterSpec&) {
  struct End {
    int64_t tag, bytes;
    int command;
  };
  std::map<std::pair<int, int>, std::vector<End>> sends, receives;
  OC_RETURN_IF_ERROR(ForEachCommand(program, [&](int vcu, int i, const Command& c) {
    if (c.kind == CommandKind::kSend) {
      sends[{vcu, c.peer}].push_back({c.tag, WireBytes(c, c.reads[0]), i});
    }
    if (c.kind == CommandKind::kRecv)
      receives[{c.peer, vcu}].push_back({c.tag, WireBytes(c, c.writes[0]), i});
    return OkStatus();
  }));
  for (const auto& [pair, list] : receives) sends.try_emplace(pair);
  for (const auto& [pair, list] : sends) {
    const std::vector<End>& other = receives[pair];
    for (size_t k = 0; k < std::max(list.size(), other.size()); ++k) {
      if (k >= other.size()) {
        return InvalidArgument("messages: ", Where(program, pair.first, list[k].command),
                               " has no receive");
      }
      if (k >= list.size()) {
        return InvalidArgument("messages: ", Where(program, pair.second, other[k].command),
                               " has no send");
      }
      if (list[k].tag != other[k].tag || list[k].bytes != other[k].bytes) {
        return InvalidArgument("messages: ", Where(program, pair.first, list[k].command), " meets ",
                               Where(program, pair.second, other[k].command), ": tags ",
                               list[k].tag, " and ", other[k].tag, ", bytes ", list[k].bytes,
                               " and ", other[k].bytes);
      }
    }
  }
  return OkStatus();
}

Status CheckDeadlock(const Program& program, const ClusterSpec&) {
  return Annotate(WalkProgram(program, [](int, const Command&) { return 1.0; }).status(),
                  "deadlock");
}

Status CheckRaces(const Program& program, const ClusterSpec&) {
  for (int vcu = 0; vcu < static_cast<int>(program.vcus.size()); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    const Order order(v);
    std::vector<std::vector<Range>> reads, writes;
    for (const Command& c : v.commands) {
      reads.push_back(MergeRanges(c.reads));
      writes.push_back(MergeRanges(c.writes));
    }
    for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
      for (int j = 0; j < i; ++j) {
        if (order.Before(j, i)) continue;
        if (Overlap(writes[i], writes[j]) || Overlap(writes[i], reads[j]) ||
            Overlap(reads[i], writes[j])) {
          return InvalidArgument("races: ", Where(program, vcu, j), " and ", Where(program, vcu, i),
                                 " share memory and are not ordered");
        }
      }
    }
  }
  return OkStatus();
}

// State entries are aligned: what lies between them is kept with them, and means nothing.
Range Padded(Range r) {
  r.bytes = (r.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  return r;
}

Status CheckDefined(const Program& program, const ClusterSpec&) {
  for (int vcu = 0; vcu < static_cast<int>(program.vcus.size()); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    const Order order(v);
    std::vector<Range> kept;  // from step to step
    for (const StateEntry& e : v.state) {
      for (const Range& r : {e.range, e.host_copy}) kept.push_back(Padded(r));
    }
    kept = MergeRanges(std::move(kept));
    for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
      const Command& c = v.commands[i];
      std::vector<Range> wanted;
      for (const Range& r : MergeRanges(c.reads)) {
        if (r.arena == Arena::kStep || r.arena == Arena::kHost) wanted.push_back(r);
      }
      wanted = Subtract(wanted, kept);
      for (int j = i - 1; j >= 0 && !wanted.empty(); --j) {
        if (order.Before(j, i)) wanted = Subtract(wanted, MergeRanges(v.commands[j].writes));
      }
      // The gaps between the tensors of a bucket move with them, and mean nothing.
      if (c.bucket != kNone && !Overlap(wanted, TensorsOf(program, vcu, c))) wanted.clear();
      // So do those between gradients that go to the host.
      if (c.kind == CommandKind::kCopy && c.reads[0].arena == Arena::kStep) {
        std::vector<Range> sums;
        for (const StateEntry& g : v.gradients) sums.push_back(g.range);
        sums = MergeRanges(std::move(sums));
        if (Overlap(MergeRanges(c.reads), sums) && !Overlap(wanted, sums)) wanted.clear();
      }
      if (wanted.empty()) continue;
      return InvalidArgument("defined: ", Where(program, vcu, i), " reads ", Name(wanted[0].arena),
                             " bytes ", wanted[0].offset, "+", wanted[0].bytes,
                             ", which nothing wrote before");
    }
  }
  return OkStatus();
}

bool Touches(const std::vector<Range>& ranges, const Range& range) {
  return Overlap(MergeRanges(ranges), {range});
}

// Command `from` brought state to range `at` of the step arena from where it is kept, `home`: what
// is made of it there goes back, once, after the last change and before other bytes take its place.
Status CheckReturned(const Program& program, int vcu, int from, const Range& at,
                     const Range& home) {
  const VcuProgram& v = program.vcus[vcu];
  int changed = kNone, returned = kNone;
  for (int i = from + 1; i < static_cast<int>(v.commands.size()); ++i) {
    const Command& c = v.commands[i];
    if (c.kind == CommandKind::kCopy && c.writes[0] == home && c.reads[0] == at) {
      if (returned != kNone) {
        return InvalidArgument("offload: ", Where(program, vcu, i), " writes back what ",
                               Where(program, vcu, returned), " wrote");
      }
      returned = i;
      continue;
    }
    if (!Touches(c.writes, at)) continue;
    if (c.kind != CommandKind::kCompute || !Touches(c.reads, at)) break;  // other bytes' turn
    changed = i;
    if (returned == kNone) continue;
    return InvalidArgument("offload: ", Where(program, vcu, i), " changes what ",
                           Where(program, vcu, returned), " has written back");
  }
  if (changed != kNone && returned == kNone) {
    return InvalidArgument("offload: what ", Where(program, vcu, changed), " makes of what ",
                           Where(program, vcu, from), " brought is not written back");
  }
  return OkStatus();
}

// A parameter that the host updates comes back whole, after its update.
Status CheckHostCopy(const Program& program, int vcu, const StateEntry& e) {
  const VcuProgram& v = program.vcus[vcu];
  int changed = kNone;
  bool returned = false;
  for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
    const Command& c = v.commands[i];
    if (c.kind == CommandKind::kCompute && Touches(c.writes, e.host_copy)) {
      changed = i;
      returned = false;
    }
    if (c.kind != CommandKind::kCopy || !Subtract({e.host_copy}, c.reads).empty()) continue;
    const Range& to = c.writes[0];
    returned |= to.arena == e.range.arena &&
                to.offset - c.reads[0].offset == e.range.offset - e.host_copy.offset;
  }
  if (changed == kNone || returned) return OkStatus();
  return InvalidArgument("offload: ", Where(program, vcu, changed), " updates ", e.name,
                         " on the host, and it does not come back to VCU ", v.name);
}

Status CheckOffload(const Program& program, const ClusterSpec&) {
  for (int vcu = 0; vcu < static_cast<int>(program.vcus.size()); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    std::vector<Range> away;
    for (const StateEntry& e : v.state) {
      if (!OfDevice(e.range)) away.push_back(e.range);
      if (e.host_copy.bytes > 0) OC_RETURN_IF_ERROR(CheckHostCopy(program, vcu, e));
    }
    away = MergeRanges(std::move(away));
    for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
      const Command& c = v.commands[i];
      if (c.kind != CommandKind::kCopy) continue;
      if (Touches(away, c.reads[0])) {
        OC_RETURN_IF_ERROR(CheckReturned(program, vcu, i, c.writes[0], c.reads[0]));
      }
      if (!Touches(away, c.writes[0])) continue;
      const bool brought =
          std::any_of(v.commands.begin(), v.commands.begin() + i, [&](const Command& e) {
            return e.kind == CommandKind::kCopy && e.reads == c.writes && e.writes == c.reads;
          });
      if (brought) continue;
      return InvalidArgument("offload: ", Where(program, vcu, i),
                             " writes back what was not brought from there");
    }
  }
  return OkStatus();
}

}  // namespace

Status Verify(const Program& program, const ClusterSpec& cluster) {
  for (auto* rule : {CheckStructure, CheckArenas, CheckBounds, CheckFootprint, CheckMemory,
                     CheckMessages, CheckCollectives, CheckDeadlock, CheckRaces, CheckDefined,
                     CheckReductions, CheckGathers, CheckOffload}) {
    OC_RETURN_IF_ERROR(Annotate(rule(program, cluster), "verify program"));
  }
  return OkStatus();
}

}  // namespace oc
