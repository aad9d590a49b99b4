#include "openclaw/runtime/profiler.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "openclaw/core/clock.h"
#include "openclaw/core/logging.h"
#include "openclaw/core/rng.h"
#include "openclaw/devices/call_watch.h"

namespace oc {
namespace {

constexpr int64_t kAlign = 64;
int64_t Align(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct Operand {
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct Candidate {
  const CostRequest* request = nullptr;
  std::unique_ptr<PreparedOp> op;
  std::vector<BufferRange> inputs, outputs;
  BufferRange workspace;
  std::vector<double> seconds;
};

// Places operands one after the other in a ring of memory, so that what is not handed over has left
// the near caches by the time it is used again.
class Placer {
 public:
  Placer(Buffer& buffer) : buffer_(buffer) {}
  BufferRange Take(int64_t bytes) {
    if (cursor_ + bytes > buffer_.bytes()) cursor_ = 0;
    const BufferRange r = {&buffer_, cursor_, bytes};
    cursor_ += Align(bytes);
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
  int64_t total = Align(c.op->workspace_bytes());
  for (const TensorType& t : c.request->inputs) total += Align(t.bytes());
  const std::vector<int64_t> opaque = c.op->opaque_bytes();
  for (size_t i = 0; i < c.request->outputs.size(); ++i) {
    total += Align(OutputBytes(*c.request, i, opaque));
  }
  return total;
}

// Small floats of both signs; integers zero, which every op takes as an index or a label. Returns
// when they are there. `values` is what they are copied from: after a timeout the copy may be
// pending, so it must outlive the queue.
Status Fill(Queue& queue, Event& event, const BufferRange& range, DType dtype,
            double timeout_seconds, std::vector<std::byte>& values) {
  values.assign(static_cast<size_t>(range.bytes), std::byte{0});
  const int64_t n = range.bytes * 8 / SizeInBits(dtype);
  const Philox rng(7);
  if (IsFloat(dtype)) {
    for (int64_t i = 0; i < std::min<int64_t>(n, 1 << 16); i += 4) {
      const Philox::Words words = rng.Block(1, static_cast<uint64_t>(i));
      for (int64_t j = i; j < std::min(i + 4, n); ++j) {
        StoreElement(dtype, values.data(), j, 0.02 + 0.5 * UniformFloat(words[j - i]));
      }
    }
    const size_t block = static_cast<size_t>(std::min<int64_t>(n, 1 << 16)) * SizeInBytes(dtype);
    for (size_t at = block; at < values.size(); at += block) {
      std::memcpy(values.data() + at, values.data(), std::min(block, values.size() - at));
    }
  }
  OC_RETURN_IF_ERROR(queue.CopyFromHost(range, values));
  OC_RETURN_IF_ERROR(queue.Record(event));
  return event.Wait(timeout_seconds);
}

OpRequest ToOpRequest(const CostRequest& r) {
  return {.def = r.def,
          .attrs = r.attrs,
          .inputs = r.inputs,
          .outputs = r.outputs,
          .accumulate = r.accumulate};
}

// Null where the slice has no kernel of this variant: one that adds to the outputs asked for, or
// that takes a list of tensors.
StatusOr<std::unique_ptr<PreparedOp>> PrepareVariant(Slice& slice, const CostRequest& r) {
  const OpRequest request = ToOpRequest(r);
  if (r.accumulate != 0 || ListOf(*r.def, r.attrs, r.inputs.size()).tensors > 1) {
    OC_ASSIGN_OR_RETURN(const OpSupport support, slice.Support(request));
    if (!support.supported) return std::unique_ptr<PreparedOp>();
  }
  auto op = slice.Prepare(request);
  if (!op.ok()) return Annotate(op.status(), "profile");
  return op;
}

// The requests that `table` does not answer; with check_known also those that it answers otherwise
// than the slice's kernels do now.
StatusOr<std::vector<CostRequest>> ToMeasure(Slice& slice, const Graph& graph, const Graph* update,
                                             const std::string& kind, const CostTable& table,
                                             const ProfileOptions& options) {
  if (!options.check_known) return MissingCosts(graph, update, kind, table);
  std::vector<CostRequest> wanted;
  for (CostRequest& r : MissingCosts(graph, update, kind, CostTable())) {
    if (const CostEntry* known = table.Find(r.key)) {
      OC_ASSIGN_OR_RETURN(const auto op, PrepareVariant(slice, r));
      const bool same = op == nullptr
                            ? !known->supported
                            : known->supported && op->workspace_bytes() == known->workspace_bytes &&
                                  op->opaque_bytes() == known->opaque_bytes &&
                                  op->substitute() == known->substitute;
      if (same) continue;
    }
    wanted.push_back(std::move(r));
  }
  return wanted;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// How far the device is from the host.
struct Distance {
  double command_seconds = 0;  // 0: work is done when its call returns
  double enqueue_seconds = 0;  // the least that one more op adds
  std::vector<double> copies;  // of kCopyBytes; empty where the host can touch the memory
};

StatusOr<Distance> MeasureDistance(Slice& slice, Queue& queue, Event& event, Buffer& buffer,
                                   const Candidate& op, double timeout_seconds,
                                   std::vector<std::byte>& host) {
  constexpr int kRounds = 9, kMany = 9;
  Distance distance;
  bool returns_early = false;
  const auto run = [&](int ops) -> StatusOr<double> {
    const double begin = NowSeconds();
    for (int i = 0; i < ops; ++i) {
      OC_RETURN_IF_ERROR(queue.Enqueue(*op.op, op.inputs, op.outputs, op.workspace));
    }
    OC_RETURN_IF_ERROR(queue.Record(event));
    returns_early |= !event.Ready();
    OC_RETURN_IF_ERROR(event.Wait(timeout_seconds));
    return NowSeconds() - begin;
  };
  std::vector<double> one, many;
  for (int round = 0; round < kRounds; ++round) {
    OC_ASSIGN_OR_RETURN(const double first, run(1));
    OC_ASSIGN_OR_RETURN(const double rest, run(kMany));
    one.push_back(first);
    many.push_back(rest);
  }
  if (returns_early) {
    distance.enqueue_seconds = std::max(0.0, (Median(many) - Median(one)) / (kMany - 1));
    distance.command_seconds = std::max(0.0, Median(one) - distance.enqueue_seconds);
  }
  if (!slice.HostView({&buffer, 0, std::min<int64_t>(64, buffer.bytes())}).empty()) return distance;
  for (int64_t wanted : kCopyBytes) {
    const int64_t bytes = std::min(wanted, buffer.bytes());
    host.resize(static_cast<size_t>(bytes));
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const double begin = NowSeconds();
      OC_RETURN_IF_ERROR(queue.CopyToHost(host, {&buffer, 0, bytes}));
      OC_RETURN_IF_ERROR(queue.Record(event));
      OC_RETURN_IF_ERROR(event.Wait(timeout_seconds));
      seconds.push_back(NowSeconds() - begin);
    }
    distance.copies.push_back(Median(seconds) * static_cast<double>(wanted) /
                              static_cast<double>(bytes));
  }
  return distance;
}

}  // namespace

StatusOr<CostTable> MeasureCosts(Slice& slice, const std::vector<CostRequest>& requests,
                                 const ProfileOptions& options) {
  CostTable table;
  std::vector<Candidate> candidates;
  int64_t largest = 0, total = 0;
  for (const CostRequest& r : requests) {
    OC_ASSIGN_OR_RETURN(auto op, PrepareVariant(slice, r));
    if (op == nullptr) {
      table.Set(r.key, {.supported = false});
      continue;
    }
    candidates.push_back({.request = &r, .op = std::move(op)});
    const int64_t bytes = TotalBytes(candidates.back());
    largest = std::max(largest, bytes);
    total += bytes;
  }
  if (!options.measure) {
    for (const Candidate& c : candidates) {
      table.Set(c.request->key, {.workspace_bytes = c.op->workspace_bytes(),
                                 .opaque_bytes = c.op->opaque_bytes(),
                                 .substitute = c.op->substitute()});
    }
    return table;
  }
  if (candidates.empty()) return table;
  constexpr int64_t kRing = int64_t{128} << 20;
  OC_ASSIGN_OR_RETURN(
      auto buffer,
      slice.Allocate(std::max(largest + (int64_t{1} << 20), std::min(total, kRing)) + largest));
  std::vector<std::byte> values;
  OC_ASSIGN_OR_RETURN(auto queue, slice.CreateQueue("profile"));
  OC_ASSIGN_OR_RETURN(auto event, slice.CreateEvent());
  Placer placer(*buffer);
  // The last round's data of the whole ring is what the next reads: fill once.
  OC_RETURN_IF_ERROR(Fill(*queue, *event, {buffer.get(), 0, buffer->bytes() / 64 * 64}, DType::kF32,
                          options.timeout_seconds, values));
  const BufferRange* handed = nullptr;
  for (Candidate& c : candidates) {
    for (const TensorType& t : c.request->inputs) {
      const int64_t bytes = t.bytes();
      const bool hand_over =
          handed != nullptr && c.inputs.empty() && IsFloat(t.dtype) && handed->bytes >= bytes;
      c.inputs.push_back(hand_over ? BufferRange{handed->buffer, handed->offset, bytes}
                                   : placer.Take(bytes));
    }
    const std::vector<int64_t> opaque = c.op->opaque_bytes();
    for (size_t i = 0; i < c.request->outputs.size(); ++i) {
      const int update = UpdatedInput(*c.request->def, c.request->attrs, c.request->inputs.size(),
                                      c.request->outputs.size(), i);
      c.outputs.push_back(update != kNone ? c.inputs[update]
                                          : placer.Take(OutputBytes(*c.request, i, opaque)));
    }
    c.workspace = placer.Take(c.op->workspace_bytes());
    handed = c.outputs.empty() ? nullptr : &c.outputs[0];
  }
  int rounds = options.min_rounds + 1;
  for (int round = 0; round < rounds; ++round) {
    double spent = 0;
    for (Candidate& c : candidates) {
      // Integers (labels, indices, the generator's words) may have been overwritten by floats.
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        const DType dtype = c.request->inputs[i].dtype;
        if (IsFloat(dtype) && !(c.request->inputs[i].shape.rank() == 0)) continue;
        OC_RETURN_IF_ERROR(
            Fill(*queue, *event, c.inputs[i], dtype, options.timeout_seconds, values));
      }
      const double begin = NowSeconds();
      OC_RETURN_IF_ERROR(Annotate(queue->Enqueue(*c.op, c.inputs, c.outputs, c.workspace),
                                  absl::StrCat("profile ", c.request->key)));
      OC_RETURN_IF_ERROR(queue->Record(*event));
      OC_RETURN_IF_ERROR(event->Wait(options.timeout_seconds));
      const double seconds = NowSeconds() - begin;
      spent += seconds;
      if (round > 0) c.seconds.push_back(seconds);  // the first warms up
    }
    if (round == 1) {
      rounds = 1 + std::clamp(static_cast<int>(options.seconds / std::max(spent, 1e-6)),
                              options.min_rounds, options.max_rounds);
    }
  }
  std::vector<double> medians;
  const Candidate* cheapest = nullptr;  // of those whose inputs may hold any numbers
  double least = 0;
  for (const Candidate& c : candidates) {
    medians.push_back(Median(c.seconds));
    const std::vector<TensorType>& inputs = c.request->inputs;
    if (!std::all_of(inputs.begin(), inputs.end(),
                     [](const TensorType& t) { return IsFloat(t.dtype); })) {
      continue;
    }
    if (cheapest != nullptr && medians.back() >= least) continue;
    cheapest = &c;
    least = medians.back();
  }
  // An op of a step does not wait for the host as it does here. Where every op takes long that is
  // nothing, and the rounds would take long.
  constexpr double kLong = 1e-3;
  Distance distance;
  if (cheapest != nullptr && least < kLong) {
    OC_ASSIGN_OR_RETURN(distance, MeasureDistance(slice, *queue, *event, *buffer, *cheapest,
                                                  options.timeout_seconds, values));
  }
  if (distance.command_seconds > 0) {
    table.Set(CommandKey(slice.kind()), {.seconds = distance.command_seconds});
  }
  for (size_t i = 0; i < distance.copies.size(); ++i) {
    table.Set(CopyKey(kCopyBytes[i], slice.kind()), {.seconds = distance.copies[i]});
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const double seconds =
        std::max(medians[i] - distance.command_seconds, distance.enqueue_seconds);
    table.Set(c.request->key, {.seconds = distance.command_seconds > 0 ? seconds : medians[i],
                               .workspace_bytes = c.op->workspace_bytes(),
                               .opaque_bytes = c.op->opaque_bytes(),
                               .substitute = c.op->substitute()});
  }
  return table;
}

Status ProfileGraphs(Cluster& cluster, const Graph& graph, const Graph* update, CostTable& table,
                     const ProfileOptions& options) {
  const std::vector<Vcu*> vcus = cluster.local();
  std::vector<StatusOr<CostTable>> found(vcus.size(), StatusOr<CostTable>(CostTable()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < vcus.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string kind = cluster.spec().vcus[vcus[i]->index()].kind;
      Slice& slice = vcus[i]->slice();
      const CallPurpose purpose(cluster.spec().vcus[vcus[i]->index()].name.c_str(), "profile", "",
                                kNone);
      auto requests = ToMeasure(slice, graph, update, kind, table, options);
      found[i] = requests.ok() ? MeasureCosts(slice, *requests, options) : requests.status();
    });
  }
  for (std::thread& t : threads) t.join();
  std::map<std::string, std::pair<CostEntry, int>> sums;
  const auto add = [&](const CostTable& t) {
    for (const auto& [key, entry] : t.entries()) {
      auto [it, is_new] = sums.try_emplace(key, entry, 1);
      if (is_new) continue;
      it->second.first.seconds += entry.seconds;
      it->second.first.workspace_bytes =
          std::max(it->second.first.workspace_bytes, entry.workspace_bytes);
      ++it->second.second;
    }
  };
  CostTable local;
  Status status;
  for (const auto& t : found) {
    if (!t.ok()) {
      status = t.status();
    } else {
      add(*t);
    }
  }
  for (auto& [key, sum] : sums) {
    sum.first.seconds /= sum.second;
    local.Set(key, sum.first);
  }
  // Everybody comes to the exchange, also with an error: nobody waits for one who gave up.
  OC_ASSIGN_OR_RETURN(auto texts,
                      cluster.job().AllGather(status.ok() ? local.ToJson() : std::string("error"),
                                              "op costs", options.timeout_seconds));
  OC_RETURN_IF_ERROR(status);
  sums.clear();
  for (size_t r = 0; r < texts.size(); ++r) {
    if (texts[r] == "error")
      return absl::AbortedError(absl::StrCat("rank ", r, " failed to measure op costs"));
    OC_ASSIGN_OR_RETURN(const CostTable t, CostTable::FromJson(texts[r]));
    add(t);
  }
  for (auto& [key, sum] : sums) {
    sum.first.seconds /= sum.second;
    table.Set(key, sum.first);
  }
  return OkStatus();
}

}  // namespace oc
