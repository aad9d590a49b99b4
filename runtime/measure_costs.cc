#include "openclaw/runtime/measure_costs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "openclaw/core/clock.h"
#include "openclaw/core/file.h"
#include "openclaw/core/rng.h"
#include "openclaw/graph/cost_key.h"
#include "openclaw/graph/fuse.h"
#include "openclaw/partitioner/program/arena.h"
#include "openclaw/partitioner/program/lower.h"

namespace oc {
namespace {

struct Candidate {
  const CostRequest* request = nullptr;
  std::unique_ptr<PreparedOp> op;
  std::vector<double> seconds;
};

// Where one call of an op finds its operands.
struct Operands {
  std::vector<BufferRange> inputs, outputs;
  BufferRange workspace;
};

// One thing that a round does: it times an op, or (op null) puts values into a range.
struct Turn {
  Candidate* candidate = nullptr;
  Operands operands;
  BufferRange fed;
  DType dtype = DType::kF32;
};

// Places operands one after the other in a ring of memory, so that what is not handed over has left
// the near caches by the time it is used again.
class Placer {
 public:
  explicit Placer(Buffer& buffer) : buffer_(buffer) {}
  BufferRange Take(int64_t bytes) {
    if (cursor_ + bytes > buffer_.bytes()) cursor_ = 0;
    const BufferRange r = {&buffer_, cursor_, bytes};
    cursor_ += AlignForArena(bytes);
    return r;
  }

 private:
  Buffer& buffer_;
  int64_t cursor_ = 0;
};

int64_t OutputBytes(const CostRequest& r, size_t i, const std::vector<int64_t>& opaque) {
  const auto is_opaque = [&](size_t j) { return HasOutput(r.def->opaque_outputs, j); };
  if (!is_opaque(i)) return r.outputs[i].bytes();
  size_t index = 0;
  for (size_t j = 0; j < i; ++j) index += is_opaque(j) ? 1 : 0;
  return opaque[index];
}

int64_t TotalBytes(const Candidate& c) {
  int64_t total = AlignForArena(c.op->workspace_bytes());
  for (const TensorType& t : c.request->inputs) total += AlignForArena(t.bytes());
  const std::vector<int64_t> opaque = c.op->opaque_bytes();
  for (size_t i = 0; i < c.request->outputs.size(); ++i) {
    total += AlignForArena(OutputBytes(*c.request, i, opaque));
  }
  return total;
}

// Operands of its own for one op; the first input that `handed` can hold is there.
Operands Place(const Candidate& c, const BufferRange* handed, Placer& placer) {
  Operands operands;
  for (const TensorType& t : c.request->inputs) {
    const int64_t bytes = t.bytes();
    const bool hand_over =
        handed != nullptr && operands.inputs.empty() && IsFloat(t.dtype) && handed->bytes >= bytes;
    operands.inputs.push_back(hand_over ? BufferRange{handed->buffer, handed->offset, bytes}
                                        : placer.Take(bytes));
  }
  const std::vector<int64_t> opaque = c.op->opaque_bytes();
  for (size_t i = 0; i < c.request->outputs.size(); ++i) {
    const int update = UpdatedInput(*c.request->def, c.request->attrs, c.request->inputs.size(),
                                    c.request->outputs.size(), i);
    operands.outputs.push_back(update != kNone ? operands.inputs[update]
                                               : placer.Take(OutputBytes(*c.request, i, opaque)));
  }
  operands.workspace = placer.Take(c.op->workspace_bytes());
  return operands;
}

// One after the other in a ring.
std::vector<Turn> RingTurns(const std::vector<Candidate*>& candidates, Placer& placer) {
  std::vector<Turn> turns;
  BufferRange handed;
  bool has_handed = false;
  for (Candidate* c : candidates) {
    Operands operands = Place(*c, has_handed ? &handed : nullptr, placer);
    // Integers (labels, indices, the generator's words) may have been overwritten by floats.
    for (size_t i = 0; i < operands.inputs.size(); ++i) {
      const TensorType& type = c->request->inputs[i];
      if (IsFloat(type.dtype) && type.shape.rank() != 0) continue;
      turns.push_back({.fed = operands.inputs[i], .dtype = type.dtype});
    }
    has_handed = !operands.outputs.empty();
    if (has_handed) handed = operands.outputs[0];
    turns.push_back({.candidate = c, .operands = std::move(operands)});
  }
  return turns;
}

// The Program of a step of two micro-batches on one VCU: both what begins a sum and what adds to it
// occurs.
StatusOr<Program> RehearsalProgram(const MeasuredGraphs& graphs, const std::string& kind,
                                   const CostTable& costs) {
  const Plan plan = SingleVcuPlan(graphs.graph, 0, /*micro_batch=*/1, /*micro_batches=*/2);
  ClusterSpec alone;
  alone.vcus.push_back(
      {.name = "rehearsal", .kind = kind, .memory_bytes = std::numeric_limits<int64_t>::max()});
  alone.links.resize(1);
  return Lower({graphs.graph, graphs.update, plan, alone, costs});
}

DType DTypeOf(const MeasuredGraphs& graphs, const std::string& name) {
  for (const Graph* graph : {&graphs.graph, graphs.update}) {
    const int v = graph == nullptr ? kNone : graph->FindValue(name);
    if (v != kNone) return graph->value(v).type.dtype;
  }
  return DType::kU8;  // zeros, as the metrics are
}

// The commands of `program`'s one VCU as turns on `buffer`: the state arena, then the step arena.
std::vector<Turn> RehearsalTurns(const Program& program, const MeasuredGraphs& graphs,
                                 const std::string& kind,
                                 const std::map<std::string, Candidate*>& candidates,
                                 Buffer& buffer) {
  // Of ops that occur more often, two show what they cost; those that make indices all run.
  constexpr int kOccurrences = 2;
  const VcuProgram& v = program.vcus[0];
  const auto place = [&](const Range& r) {
    return BufferRange{
        &buffer, r.offset + (r.arena == Arena::kStep ? AlignForArena(v.state_bytes) : 0), r.bytes};
  };
  std::map<std::string, int> occurred;
  std::vector<Turn> turns;
  for (const Command& c : v.commands) {
    if (c.kind == CommandKind::kFeed) {
      turns.push_back({.fed = place(c.writes[0]), .dtype = DTypeOf(graphs, c.name)});
    }
    if (c.kind != CommandKind::kCompute) continue;
    for (const Call& call : v.segments[c.segment].calls) {
      const std::string key =
          CostKey(*call.def, call.attrs, call.input_types, call.accumulate, kind);
      const auto found = candidates.find(key);
      const bool makes_indices = std::any_of(call.output_types.begin(), call.output_types.end(),
                                             [](const TensorType& t) { return !IsFloat(t.dtype); });
      if (found == candidates.end()) continue;
      if (occurred[key]++ >= kOccurrences && !makes_indices) continue;
      Operands operands;
      for (int s : call.inputs) operands.inputs.push_back(place(c.slots[s]));
      for (int s : call.outputs) operands.outputs.push_back(place(c.slots[s]));
      operands.workspace =
          call.workspace == kNone ? BufferRange{&buffer, 0, 0} : place(c.slots[call.workspace]);
      turns.push_back({.candidate = found->second, .operands = std::move(operands)});
    }
  }
  return turns;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Turns that were also run with a wait only where something is fed.
struct Whole {
  std::vector<const Candidate*> candidates;  // one a turn
  int waits = 0;
  double seconds = 0;
};

// How far the device is from the host.
struct Distance {
  double command_seconds = 0;  // 0: work is done when its call returns
  double enqueue_seconds = 0;  // the least that one more op adds
  std::vector<double> copies;  // of kCopyBytes; empty where the host can touch the memory
};

// Runs ops on a queue of its own and waits for each.
class Bench {
 public:
  Bench(Slice& slice, const ProfileOptions& options) : slice_(slice), options_(options) {}

  Status Open() {
    OC_ASSIGN_OR_RETURN(queue_, slice_.CreateQueue("profile"));
    OC_ASSIGN_OR_RETURN(event_, slice_.CreateEvent());
    return OkStatus();
  }

  // Repeats the turns for about options.seconds. `buffer` is what they touch: it is filled first.
  // Pairs of small bf16 are small floats too, and alone they are small f16.
  Status Run(std::vector<Turn>& turns, Buffer& buffer) {
    constexpr int64_t kPiece = int64_t{64} << 20;
    for (int64_t at = 0; at < buffer.bytes(); at += kPiece) {
      const int64_t bytes = std::min(kPiece, buffer.bytes() - at) / 4 * 4;
      OC_RETURN_IF_ERROR(Fill({&buffer, at, bytes}, DType::kBF16));
    }
    int rounds = options_.min_rounds + 1;
    bool early = false;
    for (int round = 0; round < rounds; ++round) {
      double spent = 0;
      returned_early_ = false;
      for (Turn& turn : turns) {
        if (turn.candidate == nullptr) {
          OC_RETURN_IF_ERROR(Fill(turn.fed, turn.dtype));
          continue;
        }
        OC_ASSIGN_OR_RETURN(const double seconds, Time(*turn.candidate, turn.operands, 1));
        spent += seconds;
        if (round > 0) turn.candidate->seconds.push_back(seconds);  // the first warms up
      }
      if (round == 1) {
        rounds = 1 + std::clamp(static_cast<int>(options_.seconds / std::max(spent, 1e-6)),
                                options_.min_rounds, options_.max_rounds);
      }
      early = returned_early_;
    }
    if (early) return RunWhole(turns);
    return OkStatus();
  }

  const std::vector<Whole>& wholes() const { return wholes_; }

  // How far the device is, by an op that takes little.
  StatusOr<Distance> MeasureDistance(const Candidate& op) {
    constexpr int kRounds = 9, kMany = 9;
    const int64_t bytes = std::max(TotalBytes(op), kCopyBytes[1]);
    OC_ASSIGN_OR_RETURN(const auto buffer, slice_.Allocate(bytes));
    Placer placer(*buffer);
    const Operands operands = Place(op, nullptr, placer);
    Distance distance;
    returned_early_ = false;
    std::vector<double> one, many;
    for (int round = 0; round < kRounds; ++round) {
      OC_ASSIGN_OR_RETURN(const double first, Time(op, operands, 1));
      OC_ASSIGN_OR_RETURN(const double rest, Time(op, operands, kMany));
      one.push_back(first);
      many.push_back(rest);
    }
    if (returned_early_) {
      distance.enqueue_seconds = std::max(0.0, (Median(many) - Median(one)) / (kMany - 1));
      distance.command_seconds = std::max(0.0, Median(one) - distance.enqueue_seconds);
    }
    if (!slice_.HostView({buffer.get(), 0, kArenaAlignment}).empty()) return distance;
    for (int64_t size : kCopyBytes) {
      values_.resize(static_cast<size_t>(size));
      std::vector<double> seconds;
      for (int round = 0; round < kRounds; ++round) {
        const double begin = NowSeconds();
        OC_RETURN_IF_ERROR(queue_->CopyToHost(values_, {buffer.get(), 0, size}));
        OC_RETURN_IF_ERROR(Finish());
        seconds.push_back(NowSeconds() - begin);
      }
      distance.copies.push_back(Median(seconds));
    }
    return distance;
  }

 private:
  Status Finish() {
    OC_RETURN_IF_ERROR(queue_->Record(*event_));
    returned_early_ |= !event_->Ready();
    return event_->Wait(options_.timeout_seconds);
  }

  Status Enqueue(const Candidate& c, const Operands& operands) {
    return Annotate(queue_->Enqueue(*c.op, operands.inputs, operands.outputs, operands.workspace),
                    absl::StrCat("profile ", c.request->key));
  }

  StatusOr<double> Time(const Candidate& c, const Operands& operands, int times) {
    const double begin = NowSeconds();
    for (int i = 0; i < times; ++i) OC_RETURN_IF_ERROR(Enqueue(c, operands));
    OC_RETURN_IF_ERROR(Finish());
    return NowSeconds() - begin;
  }

  // The turns once more as a step runs them: the host goes ahead of the device, from what is fed to
  // what is fed next.
  Status RunWhole(const std::vector<Turn>& turns) {
    constexpr int kRounds = 5;
    std::vector<double> times;
    for (int round = 0; round <= kRounds; ++round) {
      double seconds = 0, begin = NowSeconds();
      bool ahead = false;
      const auto wait = [&]() -> Status {
        if (ahead) OC_RETURN_IF_ERROR(Finish());
        if (ahead) seconds += NowSeconds() - begin;
        ahead = false;
        return OkStatus();
      };
      Whole whole;
      for (const Turn& turn : turns) {
        if (turn.candidate == nullptr) {
          OC_RETURN_IF_ERROR(wait());
          OC_RETURN_IF_ERROR(Fill(turn.fed, turn.dtype));
          continue;
        }
        if (!ahead) {
          begin = NowSeconds();
          ++whole.waits;
        }
        ahead = true;
        OC_RETURN_IF_ERROR(Enqueue(*turn.candidate, turn.operands));
        whole.candidates.push_back(turn.candidate);
      }
      OC_RETURN_IF_ERROR(wait());
      if (round > 0) times.push_back(seconds);  // the first warms up
      if (round < kRounds) continue;
      whole.seconds = Median(times);
      wholes_.push_back(std::move(whole));
    }
    return OkStatus();
  }

  // Small floats of both signs; integers zero, which every op takes as an index or a label.
  Status Fill(const BufferRange& range, DType dtype) {
    values_.assign(static_cast<size_t>(range.bytes), std::byte{0});
    const int64_t n = range.bytes * 8 / SizeInBits(dtype);
    const Philox rng(7);
    if (IsFloat(dtype)) {
      for (int64_t i = 0; i < std::min<int64_t>(n, 1 << 16); i += 4) {
        const Philox::Words words = rng.Block(1, static_cast<uint64_t>(i));
        for (int64_t j = i; j < std::min(i + 4, n); ++j) {
          StoreElement(dtype, values_.data(), j, 0.02 + 0.5 * UniformFloat(words[j - i]));
        }
      }
      const size_t block = static_cast<size_t>(std::min<int64_t>(n, 1 << 16)) * SizeInBytes(dtype);
      for (size_t at = block; at < values_.size(); at += block) {
        std::memcpy(values_.data() + at, values_.data(), std::min(block, values_.size() - at));
      }
    }
    OC_RETURN_IF_ERROR(queue_->CopyFromHost(range, values_));
    return Finish();
  }

  Slice& slice_;
  const ProfileOptions& options_;
  // What is copied from and to: after a timeout the copy may be pending, so it outlives the queue.
  std::vector<std::byte> values_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Event> event_;
  bool returned_early_ = false;
  std::vector<Whole> wholes_;
};

// Times the candidates that occur in a step, where the slice's memory holds it.
Status Rehearse(Slice& slice, std::vector<Candidate>& candidates, const MeasuredGraphs& graphs,
                const CostTable& prepared, Bench& bench) {
  CostTable costs = graphs.known;
  for (const auto& [key, entry] : prepared.entries()) costs.Set(key, entry);
  const auto program = RehearsalProgram(graphs, slice.kind(), costs);
  // Such as a graph that has no step: what it lacks is an error where it is planned.
  if (!program.ok()) return OkStatus();
  const VcuProgram& v = program->vcus[0];
  auto buffer =
      slice.Allocate(AlignForArena(v.state_bytes) + std::max(v.step_bytes, kArenaAlignment));
  if (absl::IsResourceExhausted(buffer.status())) return OkStatus();
  OC_RETURN_IF_ERROR(buffer.status());
  std::map<std::string, Candidate*> by_key;
  for (Candidate& c : candidates) by_key[c.request->key] = &c;
  std::vector<Turn> turns = RehearsalTurns(*program, graphs, slice.kind(), by_key, **buffer);
  return bench.Run(turns, **buffer);
}

// Times those that have no time yet.
Status MeasureAlone(Slice& slice, std::vector<Candidate>& candidates, Bench& bench) {
  std::vector<Candidate*> rest;
  int64_t largest = 0, total = 0;
  for (Candidate& c : candidates) {
    if (!c.seconds.empty()) continue;
    rest.push_back(&c);
    largest = std::max(largest, TotalBytes(c));
    total += TotalBytes(c);
  }
  if (rest.empty()) return OkStatus();
  constexpr int64_t kRing = int64_t{128} << 20;
  OC_ASSIGN_OR_RETURN(
      const auto buffer,
      slice.Allocate(std::max(largest + (int64_t{1} << 20), std::min(total, kRing)) + largest));
  Placer placer(*buffer);
  std::vector<Turn> turns = RingTurns(rest, placer);
  return bench.Run(turns, *buffer);
}

// An op of a step does not wait for the host as it does here. Where every op takes long that is
// nothing, and the rounds would take long.
StatusOr<Distance> DistanceOf(const std::vector<Candidate>& candidates, Bench& bench) {
  constexpr double kLong = 1e-3;
  const Candidate* cheapest = nullptr;  // of those whose inputs may hold any numbers
  double least = kLong;
  for (const Candidate& c : candidates) {
    const std::vector<TensorType>& inputs = c.request->inputs;
    const bool floats = std::all_of(inputs.begin(), inputs.end(),
                                    [](const TensorType& t) { return IsFloat(t.dtype); });
    if (!floats || Median(c.seconds) >= least) continue;
    cheapest = &c;
    least = Median(c.seconds);
  }
  if (cheapest == nullptr) return Distance();
  return bench.MeasureDistance(*cheapest);
}

// Of an op on a device that is so far away, from how long it took by itself.
double OwnSeconds(const Candidate& c, const Distance& distance) {
  const double seconds = Median(c.seconds);
  if (distance.command_seconds == 0) return seconds;
  return std::max(seconds - distance.command_seconds, distance.enqueue_seconds);
}

// Where the host goes ahead of the device, many ops take less (their starts overlap with the work
// before) or more (all lie in a queue) than each by itself: what all are to be multiplied by.
double PaceOf(const Whole& whole, const Distance& distance) {
  double sum = 0;
  for (const Candidate* c : whole.candidates) sum += OwnSeconds(*c, distance);
  const double seconds = whole.seconds - whole.waits * distance.command_seconds;
  return sum > 0 && seconds > 0 ? seconds / sum : 1;
}

CostEntry Prepared(const Candidate& c) {
  return {.workspace_bytes = c.op->workspace_bytes(),
          .opaque_bytes = c.op->opaque_bytes(),
          .host_bytes = c.op->host_bytes(),
          .substitute = c.op->substitute(),
          .deterministic = c.op->deterministic()};
}

}  // namespace

StatusOr<std::unique_ptr<PreparedOp>> PrepareVariant(Slice& slice, const CostRequest& r) {
  const OpRequest request = {.def = r.def,
                             .attrs = r.attrs,
                             .inputs = r.inputs,
                             .outputs = r.outputs,
                             .accumulate = r.accumulate};
  const bool list = ListOf(*r.def, r.attrs, r.inputs.size()).tensors > 1;
  if (r.accumulate != 0 || list || IsFused(r.def->name)) {
    OC_ASSIGN_OR_RETURN(const OpSupport support, slice.Support(request));
    if (!support.supported) return std::unique_ptr<PreparedOp>();
  }
  auto op = slice.Prepare(request);
  if (!op.ok()) return Annotate(op.status(), "profile");
  return op;
}

StatusOr<CostTable> MeasureFile(const std::string& folder) {
  constexpr int kRounds = 3;
  auto file = File::CreateNameless(folder, kFileBytes);
  if (!file.ok()) return Annotate(file.status(), "profile parallel.offload.path");
  std::vector<std::byte> bytes(static_cast<size_t>(kFileBytes), std::byte{1});
  std::vector<double> read, written;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = NowSeconds();
    OC_RETURN_IF_ERROR(file->WriteAt(0, bytes));
    const double middle = NowSeconds();
    OC_RETURN_IF_ERROR(file->ReadAt(0, bytes));
    written.push_back(middle - begin);
    read.push_back(NowSeconds() - middle);
  }
  CostTable table;
  table.Set(FileKey(/*write=*/false), {.seconds = Median(read)});
  table.Set(FileKey(/*write=*/true), {.seconds = Median(written)});
  return table;
}

StatusOr<CostTable> MeasureCosts(Slice& slice, const std::vector<CostRequest>& requests,
                                 const MeasuredGraphs& graphs, const ProfileOptions& options) {
  CostTable table;
  std::vector<Candidate> candidates;
  for (const CostRequest& r : requests) {
    OC_ASSIGN_OR_RETURN(auto op, PrepareVariant(slice, r));
    if (op == nullptr) {
      table.Set(r.key, {.supported = false});
      continue;
    }
    candidates.push_back({.request = &r, .op = std::move(op)});
    table.Set(r.key, Prepared(candidates.back()));
  }
  if (!options.measure || candidates.empty()) return table;
  Bench bench(slice, options);
  OC_RETURN_IF_ERROR(bench.Open());
  OC_RETURN_IF_ERROR(Rehearse(slice, candidates, graphs, table, bench));
  OC_RETURN_IF_ERROR(MeasureAlone(slice, candidates, bench));
  OC_ASSIGN_OR_RETURN(const Distance distance, DistanceOf(candidates, bench));
  if (distance.command_seconds > 0) {
    table.Set(CommandKey(slice.kind()), {.seconds = distance.command_seconds});
  }
  for (size_t i = 0; i < distance.copies.size(); ++i) {
    table.Set(CopyKey(kCopyBytes[i], slice.kind()), {.seconds = distance.copies[i]});
  }
  std::map<const Candidate*, double> paces;
  for (const Whole& whole : bench.wholes()) {
    const double pace = PaceOf(whole, distance);
    for (const Candidate* c : whole.candidates) paces.try_emplace(c, pace);
  }
  for (const Candidate& c : candidates) {
    CostEntry entry = Prepared(c);
    entry.seconds = OwnSeconds(c, distance);
    if (const auto pace = paces.find(&c); pace != paces.end()) entry.seconds *= pace->second;
    table.Set(c.request->key, std::move(entry));
  }
  return table;
}

}  // namespace oc
