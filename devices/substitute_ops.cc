#include "openclaw/devices/substitute_ops.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "openclaw/graph/builder.h"

namespace oc {

namespace {

constexpr int64_t kAlignment = 64;
int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
using Ranges = absl::InlinedVector<BufferRange, 16>;

}  // namespace

Status EnqueueAny(Queue& queue, PreparedOp& op, std::span<const BufferRange> inputs,
                  std::span<const BufferRange> outputs, BufferRange workspace) {
  if (auto* substitute = dynamic_cast<SubstituteOp*>(&op)) {
    return substitute->Enqueue(queue, inputs, outputs, workspace);
  }
  return queue.Enqueue(op, inputs, outputs, workspace);
}

namespace {

// Where a value of the decomposition lies.
struct Place {
  enum class In { kInput, kOutput, kScratch };
  In in = In::kScratch;
  int index = 0;       // of the input or output
  int64_t offset = 0;  // in the scratch
  int64_t bytes = 0;
};

// An op, or, where there is none, a copy of its one input to its one output.
struct Step {
  std::unique_ptr<PreparedOp> op;
  std::vector<Place> inputs, outputs;
};

class DecomposedOp : public SubstituteOp {
 public:
  DecomposedOp(std::vector<Step> steps, int64_t scratch_bytes)
      : steps_(std::move(steps)), scratch_bytes_(scratch_bytes) {
    for (const Step& step : steps_) {
      if (step.op == nullptr) continue;
      deterministic_ &= step.op->deterministic();
      inner_bytes_ = std::max(inner_bytes_, step.op->workspace_bytes());
    }
  }
  void set_names(const std::vector<std::string>& names) {
    substitute_ = absl::StrCat("decomposed into ", absl::StrJoin(names, ", "));
  }

  int64_t workspace_bytes() const override { return scratch_bytes_ + inner_bytes_; }
  const char* implementation() const override { return "decomposed"; }
  bool deterministic() const override { return deterministic_; }
  std::string substitute() const override { return substitute_; }

  Status Enqueue(Queue& queue, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    const auto find = [&](const Place& p) -> BufferRange {
      switch (p.in) {
        case Place::In::kInput:
          return inputs[p.index];
        case Place::In::kOutput:
          return outputs[p.index];
        case Place::In::kScratch:
          return {workspace.buffer, workspace.offset + p.offset, p.bytes};
      }
      return {};
    };
    for (const Step& step : steps_) {
      Ranges in, out;
      for (const Place& p : step.inputs) in.push_back(find(p));
      for (const Place& p : step.outputs) out.push_back(find(p));
      if (step.op == nullptr) {
        OC_RETURN_IF_ERROR(queue.Copy(out[0], {in[0].buffer, in[0].offset, out[0].bytes}));
        continue;
      }
      const BufferRange inner = {workspace.buffer, workspace.offset + scratch_bytes_,
                                 step.op->workspace_bytes()};
      OC_RETURN_IF_ERROR(EnqueueAny(queue, *step.op, in, out, inner));
    }
    return OkStatus();
  }

 private:
  std::vector<Step> steps_;
  int64_t scratch_bytes_, inner_bytes_ = 0;
  bool deterministic_ = true;
  std::string substitute_;
};

// Gives the values of a decomposition their places.
class Decomposer {
 public:
  Decomposer(const OpRequest& request, const Graph& graph, const std::vector<int>& inputs,
             const std::vector<int>& results)
      : request_(request), graph_(graph), places_(graph.values.size()) {
    for (const Value& v : graph_.values) root_.push_back(v.id);
    for (const Node& node : graph_.nodes) {
      if (node.def->is_view) root_[node.outputs[0]] = root_[node.inputs[0]];
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      places_[inputs[i]] = {Place::In::kInput, static_cast<int>(i), 0, request.inputs[i].bytes()};
      placed_.insert(inputs[i]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const int v = root_[results[i]];
      // An output that may share memory with an input is written when all has been read.
      const bool shares =
          (i < request.def->reuse.size() && request.def->reuse[i] >= 0) ||
          UpdatedInput(*request.def, request.attrs, inputs.size(), results.size(), i) >= 0;
      const Place output = {Place::In::kOutput, static_cast<int>(i), 0, request.outputs[i].bytes()};
      if (shares || !placed_.insert(v).second) {
        copies_.push_back({v, output});
      } else {
        places_[v] = output;
      }
    }
  }

  // Steps and scratch bytes.
  StatusOr<std::pair<std::vector<Step>, int64_t>> Run(const PrepareFunction& prepare) {
    FindLives();
    const int64_t scratch = PlaceScratch();
    std::vector<Step> steps;
    for (const Node& node : graph_.nodes) {
      if (node.def->is_view) continue;
      OpRequest request{.def = node.def, .attrs = node.attrs};
      Step step;
      for (int v : node.inputs) {
        request.inputs.push_back(graph_.value(v).type);
        step.inputs.push_back(places_[root_[v]]);
      }
      for (int v : node.outputs) {
        request.outputs.push_back(graph_.value(v).type);
        step.outputs.push_back(places_[root_[v]]);
      }
      OC_ASSIGN_OR_RETURN(step.op, prepare(request));
      steps.push_back(std::move(step));
    }
    for (const auto& [v, output] : copies_) steps.push_back({nullptr, {places_[v]}, {output}});
    return std::pair(std::move(steps), scratch);
  }

 private:
  void FindLives() {
    first_.assign(graph_.values.size(), 0);
    last_.assign(graph_.values.size(), 0);
    for (const Node& node : graph_.nodes) {
      for (int v : node.outputs) first_[v] = last_[v] = node.id;
    }
    for (const Node& node : graph_.nodes) {
      for (int v : node.inputs) last_[root_[v]] = std::max(last_[root_[v]], node.id);
    }
    const int end = static_cast<int>(graph_.nodes.size());
    for (const auto& [v, output] : copies_) last_[v] = end;
  }

  // First fit, in the order of the nodes.
  int64_t PlaceScratch() {
    int64_t size = 0;
    std::vector<int> scratch;
    for (const Node& node : graph_.nodes) {
      if (node.def->is_view) continue;
      for (int v : node.outputs) {
        if (placed_.count(v) != 0) continue;
        Place place{.bytes = graph_.value(v).type.bytes()};
        for (bool moved = true; moved;) {
          moved = false;
          for (int other : scratch) {
            const Place& o = places_[other];
            const bool apart = last_[other] < first_[v] ||
                               place.offset + Align(place.bytes) <= o.offset ||
                               o.offset + Align(o.bytes) <= place.offset;
            if (apart) continue;
            place.offset = o.offset + Align(o.bytes);
            moved = true;
          }
        }
        places_[v] = place;
        scratch.push_back(v);
        size = std::max(size, place.offset + Align(place.bytes));
      }
    }
    return size;
  }

  const OpRequest& request_;
  const Graph& graph_;
  std::vector<int> root_;      // through views
  std::vector<Place> places_;  // by value
  std::set<int> placed_;       // inputs and outputs
  std::vector<std::pair<int, Place>> copies_;
  std::vector<int> first_, last_;
};

}  // namespace

StatusOr<std::unique_ptr<SubstituteOp>> MakeDecomposedOp(const OpRequest& request,
                                                         const PrepareFunction& prepare) {
  const OpDef& def = *request.def;
  if (!def.decompose) return Unimplemented(def.name, " has no decomposition");
  if (def.opaque_outputs != 0 || request.accumulate != 0) {
    return Unimplemented("this variant of ", def.name, " has no decomposition");
  }
  GraphBuilder b(absl::StrCat("decompose ", def.name));
  std::vector<int> inputs;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(b.Data(absl::StrCat("in", i), request.inputs[i]).id);
  }
  OC_ASSIGN_OR_RETURN(const std::vector<int> results, def.decompose(b, inputs, request.attrs));
  OC_ASSIGN_OR_RETURN(const Graph graph, b.Finish());
  if (results.size() != request.outputs.size()) {
    return Internal("the decomposition of ", def.name, " has ", results.size(), " outputs, the op ",
                    request.outputs.size());
  }
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.def->is_view) continue;
    names.push_back(node.def->name);
    for (int updated : node.def->updates) {
      if (updated >= 0) {
        return Unimplemented("the decomposition of ", def.name, " updates in place (",
                             node.def->name, ")");
      }
    }
  }
  Decomposer decomposer(request, graph, inputs, results);
  auto made = decomposer.Run(prepare);
  if (!made.ok()) {
    if (!absl::IsUnimplemented(made.status())) return made.status();
    return Unimplemented("the decomposition of ", def.name, ": ", made.status().message());
  }
  auto op = std::make_unique<DecomposedOp>(std::move(made->first), made->second);
  op->set_names(names);
  return op;
}

namespace {

class HostOp : public SubstituteOp {
 public:
  HostOp(Slice& host, std::shared_ptr<HostStaging> staging, double timeout_seconds)
      : host_(host), staging_(std::move(staging)), timeout_seconds_(timeout_seconds) {}

  Status Init(const OpRequest& request, Slice& device) {
    name_ = ToString(request);
    OC_ASSIGN_OR_RETURN(op_, host_.Prepare(request));
    OC_ASSIGN_OR_RETURN(queue_, host_.CreateQueue("substitute"));
    OC_ASSIGN_OR_RETURN(done_, host_.CreateEvent());
    OC_ASSIGN_OR_RETURN(copied_, device.CreateEvent());
    int64_t size = 0;
    const auto place = [&](int64_t bytes) {
      const int64_t at = size;
      size += Align(bytes);
      return BufferRange{nullptr, at, bytes};
    };
    for (const TensorType& t : request.inputs) inputs_.push_back(place(t.bytes()));
    for (size_t i = 0; i < request.outputs.size(); ++i) {
      const int updated = UpdatedInput(*request.def, request.attrs, request.inputs.size(),
                                       request.outputs.size(), i);
      outputs_.push_back(updated >= 0 ? inputs_[updated] : place(request.outputs[i].bytes()));
    }
    workspace_ = place(op_->workspace_bytes());
    host_bytes_ = size;
    std::lock_guard<std::mutex> lock(staging_->mutex);
    if (staging_->buffer == nullptr || staging_->buffer->bytes() < size) {
      OC_ASSIGN_OR_RETURN(staging_->buffer, host_.Allocate(std::max<int64_t>(size, kAlignment)));
    }
    if (host_.HostView({staging_->buffer.get(), 0, kAlignment}).empty()) {
      return FailedPrecondition("ops that a device lacks cannot run on ", host_.kind(),
                                ": the host cannot touch its memory");
    }
    substitute_ = absl::StrCat("on ", host_.kind(), ", with copies");
    return OkStatus();
  }

  const char* implementation() const override { return "host"; }
  bool deterministic() const override { return op_->deterministic(); }
  int64_t host_bytes() const override { return host_bytes_; }
  std::string substitute() const override { return substitute_; }

  Status Enqueue(Queue& queue, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange) override {
    std::lock_guard<std::mutex> lock(staging_->mutex);
    // Another op may have made it larger since.
    for (auto* list : {&inputs_, &outputs_}) {
      for (BufferRange& r : *list) r.buffer = staging_->buffer.get();
    }
    workspace_.buffer = staging_->buffer.get();
    for (size_t i = 0; i < inputs.size(); ++i) {
      OC_RETURN_IF_ERROR(queue.CopyToHost(host_.HostView(inputs_[i]),
                                          {inputs[i].buffer, inputs[i].offset, inputs_[i].bytes}));
    }
    OC_RETURN_IF_ERROR(queue.Record(*copied_));
    OC_RETURN_IF_ERROR(copied_->Wait(timeout_seconds_));
    OC_RETURN_IF_ERROR(RunOnHost());
    for (size_t i = 0; i < outputs.size(); ++i) {
      OC_RETURN_IF_ERROR(queue.CopyFromHost(
          {outputs[i].buffer, outputs[i].offset, outputs_[i].bytes}, host_.HostView(outputs_[i])));
    }
    // The staging memory is used again by the next run, on whatever queue.
    OC_RETURN_IF_ERROR(queue.Record(*copied_));
    return copied_->Wait(timeout_seconds_);
  }

 private:
  Status RunOnHost() {
    if (queue_ == nullptr) {
      OC_ASSIGN_OR_RETURN(queue_, host_.CreateQueue("substitute"));
    }
    const auto run = [&]() -> Status {
      OC_RETURN_IF_ERROR(queue_->Enqueue(*op_, inputs_, outputs_, workspace_));
      OC_RETURN_IF_ERROR(queue_->Record(*done_));
      return done_->Wait(timeout_seconds_);
    };
    const Status ran = run();
    if (ran.ok()) return ran;
    queue_ = nullptr;  // it would keep the error for what other queues run later
    return Annotate(ran, absl::StrCat("op ", name_, " on ", host_.kind()));
  }

  Slice& host_;
  const std::shared_ptr<HostStaging> staging_;  // before the queue, which ends first
  const double timeout_seconds_;
  std::unique_ptr<PreparedOp> op_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Event> done_, copied_;
  std::vector<BufferRange> inputs_, outputs_;
  BufferRange workspace_;
  int64_t host_bytes_ = 0;
  std::string name_, substitute_;
};

}  // namespace

bool RunsOnHost(const PreparedOp& op) { return dynamic_cast<const HostOp*>(&op) != nullptr; }

StatusOr<std::unique_ptr<SubstituteOp>> MakeHostOp(const OpRequest& request, Slice& device,
                                                   Slice& host,
                                                   std::shared_ptr<HostStaging> staging,
                                                   double timeout_seconds) {
  if (request.def->opaque_outputs != 0 || request.accumulate != 0) {
    return Unimplemented("this variant of ", request.def->name, " cannot run elsewhere");
  }
  auto op = std::make_unique<HostOp>(host, std::move(staging), timeout_seconds);
  OC_RETURN_IF_ERROR(op->Init(request, device));
  return op;
}

}  // namespace oc
