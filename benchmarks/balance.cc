// How good the planner's shares and cuts are on unlike VCUs, against every integer share or every
// cut, all of them run; beside the same VCUs treated alike, and beside the sum of each one alone.
//
//   balance --vcus sim:speed=1,sim:speed=2,sim:speed=4 --model gpt-tiny --replicas 3
//       --micro-batches 7
//   balance --vcus cpu,opencl --model lenet --depth 2 --micro-batches 8
//
// One line a plan, then one JSON line. Everything is run once for --seconds; the planner's, the
// even one and the fastest others then take turns for --rounds, and their medians are compared, so
// that neither a drifting machine nor the luckiest of many runs decides.
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "in_memory.h"
#include "openclaw/core/clock.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/partitioner/shares.h"
#include "openclaw/partitioner/stage_costs.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

struct Flags {
  std::vector<ClusterEntry> vcus;
  std::string model = "gpt";
  int depth = 1, replicas = 1, micro_batches = 8, micro_batch = 4;
  double seconds = 1;
  int rounds = 5;
  int explain = -1;
};

StatusOr<ClusterEntry> ParseVcu(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  ClusterEntry entry{.device = parts[0], .cores = 1};
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> pair = absl::StrSplit(parts[i], '=');
    if (pair.size() != 2) return InvalidArgument("--vcus: '", parts[i], "' is not KEY=VALUE");
    entry.options[pair[0]] = pair[1];
  }
  return entry;
}

StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  const std::map<std::string, int*> numbers = {{"--depth", &flags.depth},
                                               {"--replicas", &flags.replicas},
                                               {"--micro-batches", &flags.micro_batches},
                                               {"--micro-batch", &flags.micro_batch},
                                               {"--rounds", &flags.rounds},
                                               {"--explain", &flags.explain}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (auto it = numbers.find(name); it != numbers.end()) {
      if (!absl::SimpleAtoi(value, it->second)) return InvalidArgument(name, ": ", value);
    } else if (name == "--seconds") {
      if (!absl::SimpleAtod(value, &flags.seconds)) return InvalidArgument(name, ": ", value);
    } else if (name == "--model") {
      flags.model = value;
    } else if (name == "--vcus") {
      for (const std::string& text : std::vector<std::string>(absl::StrSplit(value, ','))) {
        OC_ASSIGN_OR_RETURN(ClusterEntry entry, ParseVcu(text));
        flags.vcus.push_back(std::move(entry));
      }
    } else {
      return InvalidArgument("unknown flag ", name);
    }
  }
  if (static_cast<int>(flags.vcus.size()) != flags.depth * flags.replicas) {
    return InvalidArgument("--depth x --replicas must be the number of --vcus");
  }
  return flags;
}

struct Case {
  Graph model;
  std::unique_ptr<Dataset> data;
};

// The tiny ones are for simulated units, whose arithmetic must fit into the time that they
// simulate.
StatusOr<Case> MakeCase(const std::string& name) {
  const auto gpt = [](int64_t width, int64_t context) -> StatusOr<Case> {
    OC_ASSIGN_OR_RETURN(
        Graph model,
        models::Gpt2(
            {.layers = 4, .width = width, .heads = 4, .context = context, .vocabulary = 64}));
    return Case{std::move(model),
                MakeSyntheticTokens({.size = 512, .context = context, .vocabulary = 64})};
  };
  const auto mlp = [](int64_t width) -> StatusOr<Case> {
    OC_ASSIGN_OR_RETURN(Graph model, models::Mlp({.hidden = {width, width, width, width}}));
    return Case{std::move(model), MakeSyntheticImages({.size = 2048})};
  };
  if (name == "gpt") return gpt(128, 64);
  if (name == "gpt-tiny") return gpt(16, 16);
  if (name == "mlp") return mlp(256);
  if (name == "mlp-tiny") return mlp(32);
  if (name == "lenet") {
    OC_ASSIGN_OR_RETURN(Graph model, models::LeNet({}));
    return Case{std::move(model), MakeSyntheticImages({.size = 2048})};
  }
  return InvalidArgument("unknown model ", name, "; there are gpt, gpt-tiny, lenet, mlp, mlp-tiny");
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// When each command of the last step ran, and when it was predicted to.
void Explain(ElasticPipeline& pipeline) {
  const Program& program = pipeline.program();
  std::vector<TraceSpan> spans = pipeline.executor().spans();
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
    return std::tie(a.vcu, a.begin_nanos) < std::tie(b.vcu, b.begin_nanos);
  });
  int64_t start = spans.empty() ? 0 : spans[0].begin_nanos;
  for (const TraceSpan& s : spans) start = std::min(start, s.begin_nanos);
  std::printf("milliseconds    achieved          predicted\n");
  for (const TraceSpan& s : spans) {
    const VcuProgram& vcu = program.vcus[s.vcu];
    const Command& c = vcu.commands[s.command];
    const CommandTime& predicted = pipeline.simulation().walk.times[s.vcu][s.command];
    std::printf("%9.3f +%7.3f  %9.3f +%7.3f  %s %s: %s %s\n",
                static_cast<double>(s.begin_nanos - start) * 1e-6,
                static_cast<double>(s.end_nanos - s.begin_nanos) * 1e-6, predicted.begin * 1e3,
                (predicted.end - predicted.begin) * 1e3, vcu.name.c_str(),
                ToString(vcu.lanes[c.lane]).c_str(), Name(c.kind), c.name.c_str());
  }
}

// One cluster, many plans on it, one at a time.
class Bench {
 public:
  explicit Bench(const Flags& flags) : flags_(flags) {
    profile_ = std::filesystem::temp_directory_path() /
               absl::StrCat("openclaw-balance-", static_cast<int64_t>(NowSeconds() * 1e6), ".json");
  }
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove(profile_, ignored);
  }

  // A plan by its own `balance`, or the given one where not empty; its samples a second.
  StatusOr<double> Run(const std::vector<ClusterEntry>& vcus, int depth, int replicas,
                       Balance balance, const std::string& plan, double seconds) {
    OC_ASSIGN_OR_RETURN(Case c, MakeCase(flags_.model));
    OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.config = {.entries = vcus}}));
    // The planner may leave a VCU out, as every share that it is compared with: a number of
    // replicas that is asked for gives each of them something.
    std::optional<int64_t> data_parallel = replicas;
    if (plan.empty() && balance == Balance::kMeasured) data_parallel.reset();
    OC_ASSIGN_OR_RETURN(auto pipeline,
                        ElasticPipeline::Create(
                            c.model, cluster, HybridOptimizer(AdamW{.lr = 1e-4}, {.clip_norm = 1}),
                            {.micro_batch = flags_.micro_batch,
                             .global_batch = int64_t{flags_.micro_batch} * flags_.micro_batches,
                             .pipeline_depth = depth,
                             .data_parallel = data_parallel,
                             .recompute = "none",
                             .balance = balance,
                             .plan_json = plan,
                             // What one costs alone is no profile of those that slow each other.
                             .profile_path = vcus.size() > 1 ? profile_.string() : "",
                             .profile_seconds = 2}));
    plan_ = pipeline->plan();
    if (first_.empty()) {
      OC_ASSIGN_OR_RETURN(const StageCosts costs,
                          StageCosts::Create(pipeline->joint(), &pipeline->update(),
                                             cluster.spec().vcus[0].kind, pipeline->costs()));
      for (int at = 1; at < costs.units(); ++at) {
        if (costs.MayCut(at)) first_.push_back(costs.origins()[at]);
      }
    }
    const InMemory data(*c.data);
    OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(data, 1 << 20));
    Batches::Iterator batch = batches.begin();
    std::vector<double> times;
    const double begin = NowSeconds();
    for (int i = 0; i < 5 || NowSeconds() - begin < seconds; ++i, ++batch) {
      OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(*batch));
      if (i >= 2) times.push_back(step.seconds);  // the first warm up
    }
    const double rate = static_cast<double>(pipeline->global_batch()) / Median(times);
    if (flags_.explain >= 0) Explain(*pipeline);
    pipeline.reset();
    OC_RETURN_IF_ERROR(cluster.Leave(30));
    return rate;
  }

  const Plan& plan() const { return plan_; }
  // The first forward node of a second stage, for every place where the graph may be cut.
  const std::vector<int>& cuts() const { return first_; }

 private:
  const Flags& flags_;
  std::filesystem::path profile_;
  Plan plan_;
  std::vector<int> first_;
};

struct Entry {
  std::string name;
  std::string plan;
  double rate = 0;
  std::vector<double> rates;
};

std::string NameOf(const Plan& plan) {
  std::vector<std::string> stages;
  for (const StagePlan& s : plan.stages) {
    std::vector<std::string> shares;
    for (int v : s.vcus) {
      shares.push_back(absl::StrCat(v, " x", std::count(s.owner.begin(), s.owner.end(), v)));
    }
    stages.push_back(
        absl::StrCat(s.first_origin, "..", s.last_origin, " on ", absl::StrJoin(shares, " ")));
  }
  return absl::StrJoin(stages, "; ");
}

// Every share of one stage over all VCUs, or every cut into two stages in both orders.
std::vector<Plan> AllPlans(const Plan& base, const Flags& flags, const std::vector<int>& cuts) {
  std::vector<Plan> plans;
  const int n = static_cast<int>(flags.vcus.size());
  if (flags.depth == 1) {
    for (const std::vector<int>& s : AllShares(n, flags.micro_batches)) {
      Plan plan = base;
      plan.stages[0].vcus.clear();
      std::vector<int> all;
      for (int v = 0; v < n; ++v) {
        all.push_back(v);
        if (s[v] > 0) plan.stages[0].vcus.push_back(v);
      }
      plan.stages[0].owner = ConsecutiveOwners(all, s);
      plans.push_back(std::move(plan));
    }
    return plans;
  }
  for (int order : {0, 1}) {
    for (int first : cuts) {
      Plan plan = base;
      plan.stages[0].last_origin = first - 1;
      plan.stages[1].first_origin = first;
      for (int s = 0; s < 2; ++s) {
        const int v = order == 0 ? s : 1 - s;
        plan.stages[s].vcus = {v};
        plan.stages[s].owner.assign(flags.micro_batches, v);
      }
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

Status Run(const Flags& flags) {
  if (flags.depth > 2 || (flags.depth == 2 && flags.replicas > 1)) {
    return Unimplemented("balance: every cut of ", flags.depth, " stages x ", flags.replicas,
                         " replicas; there are depth 1, and depth 2 with one replica");
  }
  Bench bench(flags);
  double parts = 0, slowest = 1e300;
  for (const ClusterEntry& vcu : flags.vcus) {
    OC_ASSIGN_OR_RETURN(const double rate,
                        bench.Run({vcu}, 1, 1, Balance::kMeasured, "", flags.seconds));
    std::printf("%10.1f samples/s  %s alone\n", rate, vcu.device.c_str());
    parts += rate;
    slowest = std::min(slowest, rate);
  }
  std::vector<Entry> entries;
  const auto measure = [&](Balance balance, const std::string& plan) -> Status {
    auto rate = bench.Run(flags.vcus, flags.depth, flags.replicas, balance, plan, flags.seconds);
    if (!rate.ok()) return rate.status();
    entries.push_back({NameOf(bench.plan()), bench.plan().ToJson(), *rate});
    std::printf("%10.1f samples/s (predicted %.1f)  %s\n", *rate,
                static_cast<double>(flags.micro_batch) * flags.micro_batches /
                    bench.plan().predicted_step_seconds,
                entries.back().name.c_str());
    std::fflush(stdout);
    return OkStatus();
  };
  OC_RETURN_IF_ERROR(measure(Balance::kMeasured, ""));
  const Plan chosen = bench.plan();
  if (flags.explain > 0) {
    for (const Plan& plan : AllPlans(chosen, flags, {flags.explain})) {
      OC_RETURN_IF_ERROR(measure(Balance::kMeasured, plan.ToJson()));
    }
  }
  if (flags.explain >= 0) return OkStatus();
  OC_RETURN_IF_ERROR(measure(Balance::kEven, ""));
  int refused = 0;
  for (const Plan& plan : AllPlans(chosen, flags, bench.cuts())) {
    // Such as a cut that parts a weight from its gradient.
    if (const Status status = measure(Balance::kMeasured, plan.ToJson()); !status.ok()) {
      ++refused;
      std::printf("   refused: %s: %s\n", NameOf(plan).c_str(),
                  std::string(status.message()).c_str());
    }
  }
  const int tried = static_cast<int>(entries.size()) - 2;
  std::stable_sort(entries.begin() + 2, entries.end(),
                   [](const Entry& a, const Entry& b) { return a.rate > b.rate; });
  // The planner's, the even one, and the four fastest of the others: each plan once.
  std::vector<Entry> finalists = {entries[0], entries[1]};
  for (size_t i = 2; i < entries.size() && finalists.size() < 6; ++i) {
    if (entries[i].name != entries[0].name) finalists.push_back(entries[i]);
  }
  for (int round = 0; round < flags.rounds; ++round) {
    for (Entry& e : finalists) {
      OC_ASSIGN_OR_RETURN(const double rate, bench.Run(flags.vcus, flags.depth, flags.replicas,
                                                       Balance::kMeasured, e.plan, flags.seconds));
      e.rates.push_back(rate);
    }
  }
  for (Entry& e : finalists) e.rate = Median(e.rates);
  const auto best =
      std::max_element(finalists.begin(), finalists.end(),
                       [](const Entry& a, const Entry& b) { return a.rate < b.rate; });
  std::printf(
      "{\"model\": \"%s\", \"tried\": %d, \"refused\": %d, \"planned\": \"%s\", "
      "\"planned_rate\": %.1f, \"best\": \"%s\", \"best_rate\": %.1f, \"of_best\": %.3f, "
      "\"even_rate\": %.1f, \"over_even\": %.3f, \"most_over_even\": %.3f, "
      "\"sum_of_parts\": %.1f, \"of_parts\": %.3f}\n",
      flags.model.c_str(), tried, refused, finalists[0].name.c_str(), finalists[0].rate,
      best->name.c_str(), best->rate, finalists[0].rate / best->rate, finalists[1].rate,
      finalists[0].rate / finalists[1].rate,
      // Alike, all wait for the slowest.
      parts / (slowest * static_cast<double>(flags.vcus.size())), parts, finalists[0].rate / parts);
  return OkStatus();
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  const auto flags = oc::ParseFlags(argc, argv);
  const oc::Status status = flags.ok() ? oc::Run(*flags) : flags.status();
  if (!status.ok()) std::fprintf(stderr, "balance: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
