#include "openclaw/partitioner/program/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/program/vcu_lowering.h"
#include "openclaw/partitioner/recompute.h"
#include "openclaw/partitioner/schedules/schedule.h"
#include "openclaw/partitioner/update_homes.h"

namespace oc {
namespace {

std::vector<int> Sorted(const std::set<int>& s) { return {s.begin(), s.end()}; }

Status FindWork(LoweringContext& c, bool training) {
  const Plan& plan = c.input.plan;
  ScheduleInput schedule_input{.stages = plan.pipeline_depth(),
                               .micro_batches = plan.micro_batches,
                               .vcus = c.input.cluster.size()};
  for (const StagePlan& s : plan.stages) schedule_input.owner.push_back(s.owner);
  ScheduleFunction schedule = ForwardOnly;
  if (training) {
    OC_ASSIGN_OR_RETURN(schedule, FindSchedule(plan.schedule));
  }
  for (const std::vector<Action>& actions : schedule(schedule_input)) {
    std::vector<WorkItem> items;
    for (const Action& a : actions) {
      items.push_back({a.stage, a.kind == Action::Kind::kForward ? Part::kForward : Part::kBackward,
                       a.micro_batch});
    }
    c.work.push_back(std::move(items));
  }
  return OkStatus();
}

// The messages in the order of the sends, VCU by VCU.
void FindMessages(LoweringContext& c) {
  const Plan& plan = c.input.plan;
  std::vector<std::map<std::tuple<int, Part, int>, int>> index(c.work.size());
  for (size_t vcu = 0; vcu < c.work.size(); ++vcu) {
    for (size_t k = 0; k < c.work[vcu].size(); ++k) {
      const WorkItem& item = c.work[vcu][k];
      index[vcu][{item.stage, item.part, item.micro_batch}] = static_cast<int>(k);
    }
  }
  std::map<std::tuple<int, int, int>, size_t> known;  // (root, micro-batch, to) -> message
  for (int vcu = 0; vcu < static_cast<int>(c.work.size()); ++vcu) {
    for (int k = 0; k < static_cast<int>(c.work[vcu].size()); ++k) {
      const WorkItem& item = c.work[vcu][k];
      for (int id : c.analysis.nodes[item.stage][static_cast<int>(item.part)]) {
        for (int v : c.input.graph.node(id).outputs) {
          for (size_t i = 0; i < c.analysis.readers[v].size(); ++i) {
            const int stage = c.analysis.readers[v][i];
            const int to = plan.stages[stage].owner[item.micro_batch];
            if (to == vcu) continue;
            const int need = index[to].at({stage, c.analysis.reader_parts[v][i], item.micro_batch});
            const int root = c.analysis.root[v];
            auto [it, is_new] = known.try_emplace({root, item.micro_batch, to}, c.messages.size());
            if (is_new) {
              c.messages.push_back({.value = root,
                                    .micro_batch = item.micro_batch,
                                    .from = vcu,
                                    .to = to,
                                    .send_action = k,
                                    .need_action = need,
                                    .tag = int64_t{root} * plan.micro_batches + item.micro_batch});
            } else {
              Message& m = c.messages[it->second];
              m.need_action = std::min(m.need_action, need);
            }
          }
        }
      }
    }
  }
  // A lane receives in the order of the sends: what is sent before something needed early is posted
  // early as well.
  std::map<std::pair<int, int>, int> earliest;
  for (auto m = c.messages.rbegin(); m != c.messages.rend(); ++m) {
    auto [it, is_new] = earliest.try_emplace({m->from, m->to}, m->need_action);
    it->second = std::min(it->second, m->need_action);
    m->post_action = it->second;
  }
}

// Who holds each variable: the VCUs of the stages that read it.
Status FindHolders(LoweringContext& c) {
  const Graph& graph = c.input.graph;
  std::vector<std::set<int>> holders(graph.values.size()), summed(graph.values.size());
  // Backwards: what the prologue reads is held where its results are read.
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const int stage = c.analysis.stage[node->id];
    std::set<int> vcus;
    if (stage != kNone) {
      vcus = {c.input.plan.stages[stage].vcus.begin(), c.input.plan.stages[stage].vcus.end()};
    } else {
      for (int v : node->outputs) vcus.insert(holders[v].begin(), holders[v].end());
    }
    for (int v : node->inputs) {
      const Value& value = graph.value(v);
      const bool variable = value.kind == ValueKind::kParameter || value.kind == ValueKind::kState;
      const bool prologue =
          value.producer != kNone && graph.node(value.producer).phase == Phase::kPrologue;
      if (variable || prologue) holders[v].insert(vcus.begin(), vcus.end());
    }
  }
  for (const Accumulator& a : graph.accumulators) {
    if (a.target == kNone) continue;
    for (int v : a.contributions) {
      const int stage = c.analysis.stage[graph.value(v).producer];
      const std::vector<int>& vcus = c.input.plan.stages[stage].vcus;
      summed[a.target].insert(vcus.begin(), vcus.end());
    }
    holders[a.target].insert(summed[a.target].begin(), summed[a.target].end());
    if (summed[a.target] != holders[a.target]) {
      return Unimplemented("lower: ", graph.value(a.target).name,
                           " is read on a stage where it has no gradient; cut the graph elsewhere");
    }
  }
  for (const Value& v : graph.values) {
    if (v.producer == kNone && !holders[v.id].empty()) c.holders[v.name] = Sorted(holders[v.id]);
  }
  if (c.input.update == nullptr) return OkStatus();
  // An optimizer's state lies with its parameter.
  const Graph& update = *c.input.update;
  c.update_homes = UpdateHomes(graph, update);
  for (const Variable& state : update.states) {
    const std::string& name = update.value(state.value).name;
    const auto with = c.holders.find(c.update_homes[state.value]);
    if (with == c.holders.end()) {
      return InvalidArgument("lower: state ", name, " belongs to no parameter of the model");
    }
    c.holders.try_emplace(name, std::vector<int>(with->second));
  }
  return OkStatus();
}

void FindGroups(LoweringContext& c, Program& program) {
  const Graph& graph = c.input.graph;
  std::vector<int> all;
  for (int i = 0; i < c.input.cluster.size(); ++i) all.push_back(i);
  c.metrics_group = AddGroup(program, all, "metrics");
  std::set<int> counting;
  for (const Accumulator& a : graph.accumulators) {
    if (a.kind != Accumulator::Kind::kCount || a.contributions.empty()) continue;
    const int stage = c.analysis.stage[graph.value(a.contributions[0]).producer];
    const std::vector<int>& owner = c.input.plan.stages[stage].owner;
    counting.insert(owner.begin(), owner.end());
  }
  c.count_vcus = Sorted(counting);
  c.count_group = AddGroup(program, c.count_vcus, "count");
}

// Of a graph that says itself what is computed again.
StatusOr<Program> LowerGraph(const LowerInput& input, const LowerOptions& options) {
  Program program;
  program.epoch = options.epoch;
  program.ops = input.graph.shared_ops();
  LoweringContext context{.input = input, .options = options};
  TypedGraphs typed(input.graph);
  for (int vcu = 0; vcu < input.cluster.size(); ++vcu) {
    DType dtype = DType::kF32;
    if (!input.plan.compute_types.empty()) {
      dtype = input.plan.compute_types[vcu];
    } else {
      OC_ASSIGN_OR_RETURN(dtype, ComputeTypeFor(input.graph, input.cluster.vcus[vcu]));
    }
    OC_ASSIGN_OR_RETURN(const Graph* graph, typed.In(dtype));
    context.graphs.push_back(graph);
  }
  OC_ASSIGN_OR_RETURN(context.analysis, AnalyzeStages(input.graph, input.plan, options.fetch));
  if (input.update != nullptr) context.update_analysis = AnalyzeUpdate(*input.update);
  bool training = false;
  for (const Node& node : input.graph.nodes) {
    training |= node.phase == Phase::kInputGrad || node.phase == Phase::kWeightGrad;
  }
  for (const Graph* graph : {&input.graph, input.update}) {
    if (graph == nullptr) continue;
    for (const Accumulator& a : graph->accumulators) {
      if (a.kind == Accumulator::Kind::kMetric) context.metrics.push_back(a.name);
    }
  }
  OC_RETURN_IF_ERROR(FindWork(context, training));
  FindMessages(context);
  OC_RETURN_IF_ERROR(FindHolders(context));
  FindGroups(context, program);
  OC_RETURN_IF_ERROR(FindShards(context, program));
  context.groups = &program.groups;
  program.metrics = context.metrics;
  program.metrics.push_back("stop");
  for (int vcu = 0; vcu < input.cluster.size(); ++vcu) {
    VcuLowering lowering(context, vcu);
    OC_ASSIGN_OR_RETURN(VcuProgram v, lowering.Run());
    program.vcus.push_back(std::move(v));
  }
  return program;
}

}  // namespace

StatusOr<Program> Lower(const LowerInput& input, const LowerOptions& options) {
  OC_RETURN_IF_ERROR(input.cluster.Validate());
  OC_RETURN_IF_ERROR(input.plan.Validate(input.graph, input.cluster));
  for (const Graph* graph : {&input.graph, input.update}) {
    if (graph == nullptr || graph->UnboundDims().empty()) continue;
    return InvalidArgument("lower graph ", graph->name, ": dimension ", graph->UnboundDims()[0],
                           " is not bound");
  }
  if (input.plan.recomputed.empty()) return LowerGraph(input, options);
  OC_ASSIGN_OR_RETURN(const Graph repeating, WithRecomputation(input.graph, input.plan));
  return LowerGraph({repeating, input.update, input.plan, input.cluster, input.costs}, options);
}

}  // namespace oc
