// The verifier's rules for what moves in buckets.
#include <algorithm>
#include <map>
#include <optional>

#include "openclaw/partitioner/program/verify_rules.h"

namespace oc {

std::string Where(const Program& program, int vcu, int index) {
  const Command& c = program.vcus[vcu].commands[index];
  return absl::StrCat("VCU ", program.vcus[vcu].name, " command ", index, " (", Name(c.kind), " ",
                      c.name, c.micro_batch == kNone ? "" : absl::StrCat(" #", c.micro_batch), ")");
}

Order::Order(const VcuProgram& v) : v_(v) {
  const size_t lanes = v.lanes.size();
  known_.assign(v.commands.size(), std::vector<int>(lanes, kNone));
  std::vector<int> last(lanes, kNone);
  for (size_t i = 0; i < v.commands.size(); ++i) {
    const Command& c = v.commands[i];
    if (last[c.lane] != kNone) Learn(i, last[c.lane]);
    for (int wait : c.waits) Learn(i, wait);
    last[c.lane] = static_cast<int>(i);
  }
}

void Order::Learn(size_t i, int earlier) {
  for (size_t l = 0; l < known_[i].size(); ++l) {
    known_[i][l] = std::max(known_[i][l], known_[earlier][l]);
  }
  int& own = known_[i][v_.commands[earlier].lane];
  own = std::max(own, earlier);
}

std::vector<Range> Subtract(const std::vector<Range>& wanted, const std::vector<Range>& have) {
  std::vector<Range> rest;
  for (const Range& w : wanted) {
    int64_t at = w.offset;
    const int64_t end = w.offset + w.bytes;
    for (const Range& h : have) {
      if (h.arena != w.arena || h.offset + h.bytes <= at || h.offset >= end) continue;
      if (h.offset > at) rest.push_back({w.arena, at, h.offset - at});
      at = std::max(at, h.offset + h.bytes);
    }
    if (at < end) rest.push_back({w.arena, at, end - at});
  }
  return rest;
}

Range OwnPiece(const Program& program, int vcu, const Command& c) {
  const std::vector<int>& members = program.groups[c.group].vcus;
  const auto at = std::find(members.begin(), members.end(), vcu) - members.begin();
  const int64_t size = SizeInBytes(c.dtype);
  return {c.writes[0].arena, c.writes[0].offset + c.pieces[at] * size,
          (c.pieces[at + 1] - c.pieces[at]) * size};
}

std::vector<Range> TensorsOf(const Program& program, int vcu, const Command& c) {
  const ProgramBucket& bucket = program.buckets[c.bucket];
  const int64_t size = SizeInBytes(c.dtype);
  if (c.reads.empty()) return {};
  // Where the bucket would begin, if what is read were a part of it.
  const Range own = OwnPiece(program, vcu, c);
  const bool gathers = c.op == CollectiveOp::kAllGather;
  const int64_t base = c.reads[0].offset - (gathers ? own.offset - c.writes[0].offset : 0);
  std::vector<Range> tensors;
  for (size_t t = 0; t < bucket.names.size(); ++t) {
    tensors.push_back({c.reads[0].arena, base + bucket.offsets[t] * size, bucket.sizes[t] * size});
  }
  return MergeRanges(std::move(tensors));
}

Status CheckCollectives(const Program& program, const ClusterSpec&) {
  // [group][member]: the commands, in order.
  std::map<int, std::map<int, std::vector<int>>> calls;
  OC_RETURN_IF_ERROR(ForEachCommand(program, [&](int vcu, int i, const Command& c) {
    if (c.kind == CommandKind::kCollective) calls[c.group][vcu].push_back(i);
    return OkStatus();
  }));
  for (const auto& [group, members] : calls) {
    const int first = program.groups[group].vcus[0];
    const auto leader = members.find(first);
    for (int vcu : program.groups[group].vcus) {
      const auto list = members.find(vcu);
      const size_t count = list == members.end() ? 0 : list->second.size();
      const size_t wanted = leader == members.end() ? 0 : leader->second.size();
      if (count != wanted) {
        return InvalidArgument("collectives: VCU ", program.vcus[vcu].name, " takes part in ",
                               count, " of group ", group, ", VCU ", program.vcus[first].name,
                               " in ", wanted);
      }
      for (size_t k = 0; k < count; ++k) {
        const Command& a = program.vcus[first].commands[leader->second[k]];
        const Command& b = program.vcus[vcu].commands[list->second[k]];
        if (a.op == b.op && a.dtype == b.dtype && a.bucket == b.bucket && a.pieces == b.pieces &&
            a.writes[0].bytes == b.writes[0].bytes) {
          continue;
        }
        return InvalidArgument("collectives: ", Where(program, first, leader->second[k]), " meets ",
                               Where(program, vcu, list->second[k]),
                               ", which is another operation, type, bucket, size or division");
      }
    }
  }
  return OkStatus();
}

namespace {

// What is known of the bytes of a step arena.
enum class Bytes {
  kPlain,    // whatever was written
  kReduced,  // summed over a group
  kToTake,   // the same, of one round: to be added to the step's sum
  kOthers,   // what a reduce-scatter left of the others' pieces, or what was taken up
};

class ByteMap {
 public:
  explicit ByteMap(int64_t bytes) { runs_ = {{0, Bytes::kPlain}, {bytes, Bytes::kPlain}}; }

  void Set(const Range& r, Bytes state) {
    if (r.arena != Arena::kStep || r.bytes == 0) return;
    const int64_t end = r.offset + r.bytes;
    const Bytes behind = At(end);
    runs_.erase(runs_.lower_bound(r.offset), runs_.upper_bound(end));
    runs_[r.offset] = state;
    runs_[end] = behind;
  }
  // The first byte of the range in this state.
  std::optional<int64_t> Find(const Range& r, Bytes state) const {
    if (r.arena != Arena::kStep || r.bytes == 0) return std::nullopt;
    for (auto run = std::prev(runs_.upper_bound(r.offset));
         run != runs_.end() && run->first < r.offset + r.bytes; ++run) {
      if (run->second == state) return std::max(run->first, r.offset);
    }
    return std::nullopt;
  }

 private:
  Bytes At(int64_t offset) const { return std::prev(runs_.upper_bound(offset))->second; }
  std::map<int64_t, Bytes> runs_;  // from this byte on
};

// Follows a VCU's commands in their order, which lanes and waits keep wherever bytes are shared
// (rule "races").
class Follower {
 public:
  Follower(const Program& program, int vcu)
      : program_(program), vcu_(vcu), v_(program.vcus[vcu]), bytes_(v_.step_bytes) {
    for (const StateEntry& g : v_.gradients) {
      const int bucket = BucketOf(g.name);
      if (bucket != kNone && program.buckets[bucket].group != kNone && !ReducedInPlace(g, bucket)) {
        taken_up_.push_back(g.range);
      }
    }
    taken_up_ = MergeRanges(std::move(taken_up_));
  }

  Status Run() {
    for (int i = 0; i < static_cast<int>(v_.commands.size()); ++i) {
      const Command& c = v_.commands[i];
      OC_RETURN_IF_ERROR(c.kind == CommandKind::kCollective ? Collective(i, c) : Other(i, c));
    }
    if (const auto at = bytes_.Find({Arena::kStep, 0, v_.step_bytes}, Bytes::kToTake)) {
      return InvalidArgument("reductions: VCU ", v_.name, " reduces step bytes from ", *at,
                             " on and never takes them up");
    }
    return OkStatus();
  }

 private:
  int BucketOf(const std::string& sum) const {
    for (size_t b = 0; b < program_.buckets.size(); ++b) {
      const std::vector<std::string>& sums = program_.buckets[b].sums;
      if (std::find(sums.begin(), sums.end(), sum) != sums.end()) return static_cast<int>(b);
    }
    return kNone;
  }
  bool ReducedInPlace(const StateEntry& g, int bucket) const {
    return std::any_of(v_.commands.begin(), v_.commands.end(), [&](const Command& c) {
      return c.kind == CommandKind::kCollective && c.bucket == bucket &&
             c.op != CollectiveOp::kAllGather && Overlap({c.writes[0]}, {g.range});
    });
  }
  Status Bad(int i, const std::string& what, int64_t at) const {
    return InvalidArgument("reductions: ", Where(program_, vcu_, i), " ", what, " (step byte ", at,
                           ")");
  }
  Status Write(int i, const Range& r) {
    if (const auto at = bytes_.Find(r, Bytes::kToTake)) {
      return Bad(i, "overwrites what was reduced and not taken up", *at);
    }
    bytes_.Set(r, Bytes::kPlain);
    return OkStatus();
  }

  // What a collective reads; of a reduction the tensors: what lies between them is nobody's.
  std::vector<Range> Moved(const Command& c) const {
    if (c.reads.empty() || c.op == CollectiveOp::kAllGather || c.bucket == kNone) return c.reads;
    const ProgramBucket& bucket = program_.buckets[c.bucket];
    const int64_t size = SizeInBytes(c.dtype);
    std::vector<Range> tensors;
    for (size_t t = 0; t < bucket.sizes.size(); ++t) {
      tensors.push_back(
          {c.reads[0].arena, c.reads[0].offset + bucket.offsets[t] * size, bucket.sizes[t] * size});
    }
    return tensors;
  }

  Status Collective(int i, const Command& c) {
    for (const Range& r : Moved(c)) {
      if (const auto at = bytes_.Find(r, Bytes::kOthers)) {
        return Bad(i, "moves what a reduction left to others", *at);
      }
    }
    const Range& data = c.writes[0];
    for (size_t w = 1; w < c.writes.size(); ++w) OC_RETURN_IF_ERROR(Write(i, c.writes[w]));
    if (c.op == CollectiveOp::kAllGather) return Write(i, data);
    for (Bytes state : {Bytes::kReduced, Bytes::kToTake}) {
      if (const auto at = bytes_.Find(data, state)) return Bad(i, "is reduced twice", *at);
    }
    if (c.op == CollectiveOp::kAllReduce) {
      bytes_.Set(data, Bytes::kReduced);
      return OkStatus();
    }
    const Range own = OwnPiece(program_, vcu_, c);
    bool kept = false;  // where it was reduced
    for (const StateEntry& g : v_.gradients)
      kept |= Overlap({g.range}, {own}) && BucketOf(g.name) == c.bucket;
    bytes_.Set(data, Bytes::kOthers);
    bytes_.Set(own, kept ? Bytes::kReduced : Bytes::kToTake);
    return OkStatus();
  }

  Status Other(int i, const Command& c) {
    const std::vector<Range> writes = MergeRanges(c.writes);
    // From the first on that takes up, every command that writes there does: before it the bytes
    // were others'.
    const bool begins = TakesUp(c.reads);
    bool takes = c.kind == CommandKind::kCompute && Overlap(writes, taken_up_);
    if (takes && begins && !Overlap(writes, begun_) && Overlap(MergeRanges(c.reads), writes)) {
      return Bad(i, "adds to what was not reduced", writes[0].offset);
    }
    takes = takes && (begins || Overlap(writes, begun_));
    if (takes) {
      begun_.insert(begun_.end(), writes.begin(), writes.end());
      begun_ = MergeRanges(std::move(begun_));
    }
    for (const Range& r : MergeRanges(c.reads)) {
      if (const auto at = bytes_.Find(r, Bytes::kOthers)) {
        return Bad(i, "reads what a reduction left to others", *at);
      }
      if (!takes) continue;
      for (const Range& source : Subtract({r}, writes)) {
        if (const auto at = bytes_.Find(source, Bytes::kPlain)) {
          return Bad(i, "takes up what is not reduced", *at);
        }
        bytes_.Set(source, Bytes::kOthers);
      }
    }
    for (const Range& w : writes) OC_RETURN_IF_ERROR(Write(i, w));
    return OkStatus();
  }
  // A command that reads what a round reduced.
  bool TakesUp(const std::vector<Range>& reads) const {
    return std::any_of(reads.begin(), reads.end(),
                       [&](const Range& r) { return bytes_.Find(r, Bytes::kToTake).has_value(); });
  }

  const Program& program_;
  const int vcu_;
  const VcuProgram& v_;
  ByteMap bytes_;
  std::vector<Range> taken_up_;  // sums over rounds
  std::vector<Range> begun_;     // of them, those that hold one
};

// A gradient that is reduced where it was summed.
Status CheckGradient(const Program& program, int vcu, const StateEntry& g, const Order& order,
                     int bucket) {
  const VcuProgram& v = program.vcus[vcu];
  const std::vector<Range> range = {g.range};
  const auto bad = [&](const std::string& what) {
    return InvalidArgument("reductions: ", g.name, " on VCU ", v.name, " ", what);
  };
  const auto reduces = [&](const Command& c) {
    return c.kind == CommandKind::kCollective && c.op != CollectiveOp::kAllGather &&
           c.bucket == bucket;
  };
  std::vector<Range> rest = range;
  std::vector<int> collectives;
  for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
    if (!reduces(v.commands[i]) || !Overlap({v.commands[i].writes[0]}, range)) continue;
    rest = Subtract(rest, {v.commands[i].writes[0]});
    collectives.push_back(i);
  }
  if (collectives.empty()) {
    // In rounds then (Follower), of which there must be one.
    const bool rounds = std::any_of(v.commands.begin(), v.commands.end(), reduces);
    return rounds ? OkStatus() : bad("is not reduced over its holders");
  }
  if (!rest.empty()) return bad("is not reduced over its holders");
  for (int i = 0; i < static_cast<int>(v.commands.size()); ++i) {
    const Command& c = v.commands[i];
    if (c.kind != CommandKind::kCompute && c.kind != CommandKind::kCopy) continue;
    const bool adds = Overlap(MergeRanges(c.writes), range);
    const bool uses = Overlap(MergeRanges(c.reads), range);
    for (int r : collectives) {
      if (adds && !order.Before(i, r)) return bad("is added to after its reduction");
      if (!adds && uses && !order.Before(r, i)) return bad("is used before its reduction");
    }
  }
  return OkStatus();
}

// Each element of a gradient is some member's.
Status CheckParts(const Program& program, const ProgramBucket& bucket, size_t t) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int vcu : program.groups[bucket.group].vcus) {
    for (const StateEntry& g : program.vcus[vcu].gradients) {
      if (g.name == bucket.sums[t]) parts.emplace_back(g.begin, g.end);
    }
  }
  std::sort(parts.begin(), parts.end());
  int64_t end = 0;
  for (const auto& [begin, behind] : parts) {
    if (begin > end) break;
    end = std::max(end, behind);
  }
  if (end == bucket.sizes[t]) return OkStatus();
  return InvalidArgument("reductions: nobody has the elements of ", bucket.sums[t], " from ", end,
                         " on");
}

}  // namespace

Status CheckReductions(const Program& program, const ClusterSpec&) {
  std::map<std::string, int> buckets;  // by sum
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    for (const std::string& sum : program.buckets[b].sums) buckets[sum] = static_cast<int>(b);
  }
  for (int vcu = 0; vcu < static_cast<int>(program.vcus.size()); ++vcu) {
    OC_RETURN_IF_ERROR(Follower(program, vcu).Run());
    const Order order(program.vcus[vcu]);
    for (const StateEntry& g : program.vcus[vcu].gradients) {
      const int bucket = buckets.at(g.name);
      if (program.buckets[bucket].group == kNone) continue;
      OC_RETURN_IF_ERROR(CheckGradient(program, vcu, g, order, bucket));
    }
  }
  std::map<std::string, bool> known;
  for (const VcuProgram& v : program.vcus) {
    for (const StateEntry& g : v.gradients) known[g.name] = true;
  }
  for (const ProgramBucket& bucket : program.buckets) {
    for (size_t t = 0; bucket.group != kNone && t < bucket.sums.size(); ++t) {
      if (known.count(bucket.sums[t]) != 0) OC_RETURN_IF_ERROR(CheckParts(program, bucket, t));
    }
  }
  return OkStatus();
}

namespace {

const StateEntry* FindEntry(const VcuProgram& v, const std::string& name) {
  const auto at = std::find_if(v.state.begin(), v.state.end(),
                               [&](const StateEntry& e) { return e.name == name; });
  return at == v.state.end() ? nullptr : &*at;
}

// Whether everything that this VCU holds of a parameter is new behind the step: what it computes
// itself, and what it gathers behind that.
bool AllIsNew(const VcuProgram& v, const StateEntry& e, int bucket) {
  std::vector<Range> rest = {e.range};
  bool computed = false;
  for (auto c = v.commands.rbegin(); c != v.commands.rend(); ++c) {
    const bool gathers = c->kind == CommandKind::kCollective && c->bucket == bucket &&
                         c->op == CollectiveOp::kAllGather;
    if (gathers && !computed) rest = Subtract(rest, {c->writes[0]});
    if (c->kind != CommandKind::kCompute && c->kind != CommandKind::kCopy) continue;
    const std::vector<Range> writes = MergeRanges(c->writes);
    computed |= Overlap(writes, {e.range});
    rest = Subtract(rest, writes);
  }
  return rest.empty();
}

bool Writes(const VcuProgram& v, const StateEntry& e) {
  return std::any_of(v.commands.begin(), v.commands.end(), [&](const Command& c) {
    return (c.kind == CommandKind::kCompute || c.kind == CommandKind::kCopy) &&
           Overlap(MergeRanges(c.writes), {e.range});
  });
}

}  // namespace

Status CheckGathers(const Program& program, const ClusterSpec&) {
  for (int b = 0; b < static_cast<int>(program.buckets.size()); ++b) {
    const ProgramBucket& bucket = program.buckets[b];
    if (bucket.group == kNone) continue;
    const std::vector<int>& vcus = program.groups[bucket.group].vcus;
    for (const std::string& name : bucket.names) {
      const bool changes = std::any_of(vcus.begin(), vcus.end(), [&](int vcu) {
        const StateEntry* e = FindEntry(program.vcus[vcu], name);
        return e != nullptr && Writes(program.vcus[vcu], *e);
      });
      for (int vcu : vcus) {
        const StateEntry* e = FindEntry(program.vcus[vcu], name);
        if (!changes || e == nullptr || AllIsNew(program.vcus[vcu], *e, b)) continue;
        return InvalidArgument("gathers: ", name, " on VCU ", program.vcus[vcu].name,
                               " keeps old values where others have new ones");
      }
    }
  }
  return OkStatus();
}

}  // namespace oc
