#include "openclaw/partitioner/program/simulate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "openclaw/partitioner/costs.h"

namespace oc {
namespace {

// Small all-reduces go to one member and back, large ones round a ring (comm/all_reduce.h).
constexpr int64_t kRingBytes = 64 << 10;

double CollectiveSeconds(const Program& program, const ClusterSpec& cluster, const Command& c) {
  const std::vector<int>& members = program.groups[c.group].vcus;
  const int n = static_cast<int>(members.size());
  const int64_t bytes = c.writes.empty() ? 0 : c.writes[0].bytes;
  const bool small = c.pieces.empty() && bytes < kRingBytes;
  int64_t piece = bytes / n;  // the largest sets the pace
  for (size_t i = 1; i < c.pieces.size(); ++i) {
    piece = std::max(piece, (c.pieces[i] - c.pieces[i - 1]) * SizeInBytes(c.dtype));
  }
  // An all-reduce goes round the ring twice.
  const int rounds = (c.op == CollectiveOp::kAllReduce ? 2 : 1) * (n - 1);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const LinkCurve& link = cluster.link(members[i], members[(i + 1) % n]);
    worst = std::max(worst, small ? 2 * link.Seconds(bytes) : rounds * link.Seconds(piece));
  }
  return worst;
}

// What a VCU's distance from the host adds.
struct HostDistance {
  double command_seconds = 0;
  std::optional<LinkCurve> copies;  // where the host cannot touch the memory
  double file_seconds[2] = {0, 0};  // a byte read, and written
  double Copy(int64_t bytes) const { return copies.has_value() ? copies->Seconds(bytes) : 0; }
};

HostDistance DistanceOf(const std::string& kind, const CostTable& costs) {
  HostDistance distance;
  if (const CostEntry* command = costs.Find(CommandKey(kind))) {
    distance.command_seconds = command->seconds;
  }
  LinkCurve curve = HostLink(kind, costs);
  if (!curve.points.empty()) distance.copies = std::move(curve);
  for (const bool write : {false, true}) {
    if (const CostEntry* file = costs.Find(FileKey(write))) {
      distance.file_seconds[write] = file->seconds / kFileBytes;
    }
  }
  return distance;
}

double CopySeconds(const Command& c, const HostDistance& host, const SimulateOptions& options) {
  const Range &from = c.reads[0], &to = c.writes[0];
  const auto bytes = static_cast<double>(from.bytes);
  if (from.arena == Arena::kFile || to.arena == Arena::kFile) {
    return bytes * host.file_seconds[to.arena == Arena::kFile] + host.Copy(from.bytes);
  }
  if (from.arena == Arena::kHost || to.arena == Arena::kHost) return host.Copy(from.bytes);
  return bytes / options.host_bytes_per_second;
}

const std::string& KindOf(const Segment& segment, const VcuSpec& vcu) {
  return segment.on_host ? vcu.host_kind : vcu.kind;
}

}  // namespace

StatusOr<Simulation> Simulate(const Program& program, const ClusterSpec& cluster,
                              const CostTable& costs, const SimulateOptions& options) {
  std::vector<std::vector<double>> segment_seconds(program.vcus.size());
  for (size_t vcu = 0; vcu < program.vcus.size(); ++vcu) {
    for (const Segment& segment : program.vcus[vcu].segments) {
      double seconds = 0;
      for (const Call& call : segment.calls) {
        const auto cost = CostOf({call.def, call.attrs, call.input_types, call.accumulate},
                                 KindOf(segment, cluster.vcus[vcu]), costs);
        if (!cost.ok()) return Annotate(cost.status(), "simulate");
        seconds += cost->seconds + options.call_overhead_seconds;
      }
      const bool slow = cluster.vcus[vcu].kind == options.slow_kind;
      segment_seconds[vcu].push_back(slow ? seconds * options.slow_factor : seconds);
    }
  }
  std::vector<HostDistance> distance;
  for (const VcuSpec& v : cluster.vcus) distance.push_back(DistanceOf(v.kind, costs));
  const auto duration = [&](int vcu, const Command& c) {
    const double overhead = options.command_overhead_seconds;
    const HostDistance& host = distance[vcu];
    const auto fed = [&](int64_t bytes) {
      return host.copies.has_value() ? host.Copy(bytes) : bytes / options.host_bytes_per_second;
    };
    switch (c.kind) {
      case CommandKind::kCompute:
        return overhead + segment_seconds[vcu][c.segment] +
               (program.vcus[vcu].segments[c.segment].on_host ? 0 : host.command_seconds);
      case CommandKind::kSend:
        return overhead + host.Copy(c.reads[0].bytes) +
               cluster.link(vcu, c.peer).Seconds(WireBytes(c, c.reads[0]));
      case CommandKind::kRecv:
        return overhead + host.Copy(c.writes[0].bytes) +
               cluster.link(c.peer, vcu).Seconds(WireBytes(c, c.writes[0]));
      case CommandKind::kCollective: {
        // All go as fast as the one that is farthest from its host.
        double copies = 0;
        const int64_t bytes = c.writes.empty() ? 0 : c.writes[0].bytes;
        for (int member : program.groups[c.group].vcus) {
          copies = std::max(copies, 2 * distance[member].Copy(bytes));
        }
        return overhead + copies + CollectiveSeconds(program, cluster, c);
      }
      case CommandKind::kFeed:
        return overhead + fed(c.writes[0].bytes);
      case CommandKind::kSnapshot:
        return overhead + fed(c.reads[0].bytes);
      case CommandKind::kCopy:
        return overhead + CopySeconds(c, host, options);
    }
    return overhead;
  };
  Simulation result;
  OC_ASSIGN_OR_RETURN(result.walk, WalkProgram(program, duration));
  for (size_t vcu = 0; vcu < program.vcus.size(); ++vcu) {
    SimulatedVcu v;
    double first = 1e300, last = 0;
    for (size_t i = 0; i < program.vcus[vcu].commands.size(); ++i) {
      const CommandTime& t = result.walk.times[vcu][i];
      first = std::min(first, t.begin);
      last = std::max(last, t.end);
      if (program.vcus[vcu].commands[i].lane == 0) {
        v.compute_seconds += t.end - t.begin;
      }
    }
    v.step_seconds = std::max(0.0, last - first);
    v.bubble_fraction = v.step_seconds > 0 ? 1 - v.compute_seconds / v.step_seconds : 0;
    result.step_seconds = std::max(result.step_seconds, last);
    result.vcus.push_back(v);
  }
  return result;
}

namespace {

// Calls f(VCU, call, its costs, runs a step) for every call that runs and is measured.
template <typename F>
void ForCalls(const Program& program, const ClusterSpec& cluster, const CostTable& costs,
              const F& f) {
  for (size_t vcu = 0; vcu < program.vcus.size(); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    std::vector<int> runs(v.segments.size(), 0);
    for (const Command& c : v.commands) {
      if (c.kind == CommandKind::kCompute) ++runs[c.segment];
    }
    for (size_t s = 0; s < v.segments.size(); ++s) {
      if (runs[s] == 0) continue;
      for (const Call& call : v.segments[s].calls) {
        const auto cost = CostOf({call.def, call.attrs, call.input_types, call.accumulate},
                                 KindOf(v.segments[s], cluster.vcus[vcu]), costs);
        if (cost.ok()) f(vcu, call, *cost, runs[s]);
      }
    }
  }
}

std::vector<Substitute> FindSubstitutes(const Program& program, const ClusterSpec& cluster,
                                        const CostTable& costs) {
  std::vector<Substitute> found;
  std::map<std::pair<size_t, std::string>, size_t> index;
  ForCalls(program, cluster, costs,
           [&](size_t vcu, const Call& call, const CostEntry& entry, int runs) {
             if (entry.substitute.empty()) return;
             const auto [it, is_new] = index.try_emplace({vcu, call.cost_key}, found.size());
             if (is_new) {
               found.push_back({program.vcus[vcu].name, call.cost_key, entry.substitute});
             }
             found[it->second].calls += runs;
             found[it->second].seconds += runs * entry.seconds;
           });
  return found;
}

std::vector<NotDeterministic> FindNotDeterministic(const Program& program,
                                                   const ClusterSpec& cluster,
                                                   const CostTable& costs) {
  std::vector<NotDeterministic> found;
  std::map<std::pair<size_t, std::string>, size_t> index;
  ForCalls(program, cluster, costs,
           [&](size_t vcu, const Call& call, const CostEntry& entry, int runs) {
             if (entry.deterministic) return;
             const auto [it, is_new] = index.try_emplace({vcu, call.cost_key}, found.size());
             if (is_new) found.push_back({program.vcus[vcu].name, call.cost_key});
             found[it->second].calls += runs;
           });
  return found;
}

}  // namespace

void Predict(const Simulation& simulation, const Program& program, const ClusterSpec& cluster,
             const CostTable& costs, Plan& plan) {
  plan.substitutes = FindSubstitutes(program, cluster, costs);
  plan.predicted_step_seconds = simulation.step_seconds;
  plan.vcus.clear();
  for (size_t i = 0; i < program.vcus.size(); ++i) {
    const VcuProgram& v = program.vcus[i];
    plan.vcus.push_back({.name = v.name,
                         .step_seconds = simulation.vcus[i].step_seconds,
                         .bubble_fraction = simulation.vcus[i].bubble_fraction,
                         .state_bytes = v.state_bytes,
                         .step_bytes = v.step_bytes,
                         .host_arena_bytes = v.host_bytes,
                         .file_bytes = v.file_bytes,
                         .memory = v.memory,
                         .activation_bytes = v.activation_bytes});
  }
  plan.not_deterministic = FindNotDeterministic(program, cluster, costs);
  ForCalls(program, cluster, costs, [&](size_t vcu, const Call&, const CostEntry& entry, int) {
    plan.vcus[vcu].host_bytes = std::max(plan.vcus[vcu].host_bytes, entry.host_bytes);
  });
}

}  // namespace oc
