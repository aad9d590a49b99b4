#include "openclaw/partitioner/program/program.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <tuple>

#include "openclaw/core/rng.h"

namespace oc {

const char* Name(Arena arena) {
  switch (arena) {
    case Arena::kState:
      return "state";
    case Arena::kStep:
      return "step";
    case Arena::kHost:
      return "host";
    case Arena::kFile:
      return "file";
  }
  return "?";
}

int64_t VcuProgram::ArenaBytes(Arena arena) const {
  switch (arena) {
    case Arena::kState:
      return state_bytes;
    case Arena::kStep:
      return step_bytes;
    case Arena::kHost:
      return host_bytes;
    case Arena::kFile:
      return file_bytes;
  }
  return 0;
}

const char* Name(CommandKind kind) {
  switch (kind) {
    case CommandKind::kCompute:
      return "compute";
    case CommandKind::kSend:
      return "send";
    case CommandKind::kRecv:
      return "recv";
    case CommandKind::kCollective:
      return "collective";
    case CommandKind::kCopy:
      return "copy";
    case CommandKind::kFeed:
      return "feed";
    case CommandKind::kSnapshot:
      return "snapshot";
  }
  return "?";
}

const char* Name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "all_reduce";
    case CollectiveOp::kReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::kAllGather:
      return "all_gather";
  }
  return "?";
}

std::string ToString(const LaneSpec& lane) {
  switch (lane.kind) {
    case LaneKind::kCompute:
      return "compute";
    case LaneKind::kSend:
      return absl::StrCat("send>", lane.index);
    case LaneKind::kRecv:
      return absl::StrCat("recv<", lane.index);
    case LaneKind::kGroup:
      return absl::StrCat("group ", lane.index);
    case LaneKind::kCopy:
      return lane.index == 0 ? "copy in" : "copy out";
    case LaneKind::kHost:
      return "host";
    case LaneKind::kFile:
      return lane.index == 0 ? "file in" : "file out";
    case LaneKind::kHostCompute:
      return "host compute";
  }
  return "?";
}

namespace {

std::string ToString(const Range& r) {
  return absl::StrCat(Name(r.arena), "[", r.offset, "+", r.bytes, "]");
}

std::string Join(const std::vector<Range>& ranges) {
  return absl::StrJoin(ranges, " ",
                       [](std::string* out, const Range& r) { out->append(ToString(r)); });
}

std::string ToText(const Segment& s) {
  std::string text = absl::StrCat("  segment ", s.name, s.on_host ? " on the host" : "", "\n");
  for (size_t i = 0; i < s.slots.size(); ++i) {
    absl::StrAppend(&text, "    slot ", i, " ", s.slots[i].name, " ", s.slots[i].bytes, "\n");
  }
  for (const Call& c : s.calls) {
    absl::StrAppend(&text, "    ", absl::StrJoin(c.outputs, ","),
                    c.accumulate != 0 ? " += " : " = ", c.cost_key, "(",
                    absl::StrJoin(c.inputs, ","), ")");
    if (c.workspace != kNone) absl::StrAppend(&text, " workspace ", c.workspace);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string ToText(const ProgramBucket& b, int index) {
  std::string text =
      absl::StrCat("bucket ", index, " group ", b.group, " elements ", b.elements,
                   b.divided ? " divided" : "", " pieces ", absl::StrJoin(b.pieces, ","), "\n");
  for (size_t i = 0; i < b.names.size(); ++i) {
    absl::StrAppend(&text, "  ", b.offsets[i], "+", b.sizes[i], " ", b.names[i], "\n");
  }
  return text;
}

std::string ToText(const VcuProgram& v, int index, const Command& c) {
  std::string text =
      absl::StrCat("  ", index, " ", ToString(v.lanes[c.lane]), ": ", Name(c.kind), " ", c.name);
  if (c.micro_batch != kNone) absl::StrAppend(&text, " #", c.micro_batch);
  if (c.segment != kNone) absl::StrAppend(&text, " segment ", c.segment);
  if (c.peer != kNone) absl::StrAppend(&text, " peer ", c.peer, " tag ", c.tag);
  if (c.dtype != c.wire && c.peer != kNone) {
    absl::StrAppend(&text, " as ", Name(c.dtype), " over ", Name(c.wire));
  }
  if (c.group != kNone) {
    absl::StrAppend(&text, " ", Name(c.op), " group ", c.group, " ", Name(c.dtype));
  }
  if (c.bucket != kNone) absl::StrAppend(&text, " bucket ", c.bucket);
  if (!c.pieces.empty()) absl::StrAppend(&text, " pieces ", absl::StrJoin(c.pieces, ","));
  if (!c.reads.empty()) absl::StrAppend(&text, " reads ", Join(c.reads));
  if (!c.writes.empty()) absl::StrAppend(&text, " writes ", Join(c.writes));
  if (!c.slots.empty()) absl::StrAppend(&text, " slots ", Join(c.slots));
  if (!c.waits.empty()) absl::StrAppend(&text, " waits ", absl::StrJoin(c.waits, ","));
  if (!c.predicate.empty()) absl::StrAppend(&text, " if ", c.predicate);
  return text + "\n";
}

}  // namespace

std::string ToText(const Program& program, int vcu) {
  std::string text = absl::StrCat("program epoch ", program.epoch, " metrics ",
                                  absl::StrJoin(program.metrics, ","), "\n");
  for (size_t g = 0; g < program.groups.size(); ++g) {
    absl::StrAppend(&text, "group ", g, " ", program.groups[g].name, ": ",
                    absl::StrJoin(program.groups[g].vcus, ","), "\n");
  }
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    absl::StrAppend(&text, ToText(program.buckets[b], static_cast<int>(b)));
  }
  for (int i = 0; i < static_cast<int>(program.vcus.size()); ++i) {
    if (vcu != kNone && i != vcu) continue;
    const VcuProgram& v = program.vcus[i];
    absl::StrAppend(&text, "vcu ", i, " ", v.name, " state ", v.state_bytes, " step ", v.step_bytes,
                    v.host_bytes > 0 ? absl::StrCat(" host ", v.host_bytes) : "",
                    v.file_bytes > 0 ? absl::StrCat(" file ", v.file_bytes) : "", "\n");
    for (const StateEntry& e : v.state) {
      absl::StrAppend(&text, "  state ", e.name, " ", e.type.ToString(),
                      e.whole() ? "" : absl::StrCat(" elements ", e.begin, ":", e.end), " ",
                      ToString(e.range),
                      e.host_copy.bytes > 0 ? " and " + ToString(e.host_copy) : "",
                      e.owner ? " owner" : "", "\n");
    }
    for (const Segment& s : v.segments) absl::StrAppend(&text, ToText(s));
    for (size_t c = 0; c < v.commands.size(); ++c) {
      absl::StrAppend(&text, ToText(v, static_cast<int>(c), v.commands[c]));
    }
  }
  return text;
}

uint64_t Fingerprint(const Program& program) {
  const std::string text = ToText(program);
  return StreamOf(text.data(), text.size());
}

int64_t WireBytes(const Command& c, const Range& r) {
  return c.dtype == c.wire ? r.bytes : r.bytes / SizeInBytes(c.dtype) * SizeInBytes(c.wire);
}

std::vector<Range> MergeRanges(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.arena, a.offset) < std::tie(b.arena, b.offset);
  });
  std::vector<Range> merged;
  for (const Range& r : ranges) {
    if (r.bytes == 0) continue;
    if (!merged.empty() && merged.back().arena == r.arena &&
        merged.back().offset + merged.back().bytes >= r.offset) {
      merged.back().bytes =
          std::max(merged.back().bytes, r.offset + r.bytes - merged.back().offset);
    } else {
      merged.push_back(r);
    }
  }
  return merged;
}

bool Overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const Range& x = a[i];
    const Range& y = b[j];
    if (x.arena != y.arena) {
      x.arena < y.arena ? ++i : ++j;
    } else if (x.offset + x.bytes <= y.offset) {
      ++i;
    } else if (y.offset + y.bytes <= x.offset) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace oc
