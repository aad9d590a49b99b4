// Runs a bound graph node by node on a slice, each value in memory of its own: slow and simple, for
// tests that want the numbers of a graph without plans or Programs.
//
//   std::map<std::string, Tensor> inputs = test::InitialValues(joint, /*seed=*/1);
//   inputs["images"] = ...;
//   OC_ASSIGN_OR_RETURN(std::vector<Tensor> values, test::Interpret(joint, inputs, *slice));
//   const double loss = values[joint.loss_sum].at(0);
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"
#include "openclaw/graph/graph.h"
#include "openclaw/graph/initialize.h"

namespace oc::test {

// A slice that keeps its device alive.
struct OwnedSlice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Slice> slice;
};

inline StatusOr<OwnedSlice> FirstSlice(const DeviceLeaf& leaf, int threads = 1) {
  OC_ASSIGN_OR_RETURN(auto devices, leaf.discover());
  if (devices.empty()) return FailedPrecondition("leaf ", leaf.name, " finds no device");
  OwnedSlice result{std::move(devices[0]), nullptr};
  OC_ASSIGN_OR_RETURN(result.slice, result.device->CreateSlice({.threads = threads}));
  return result;
}

// Parameters and states by name, as training would begin.
inline std::map<std::string, Tensor> InitialValues(const Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> values;
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) {
      const Value& value = graph.value(v.value);
      Tensor t(value.type);
      const Status status = Initialize(v.init, value.name, seed, value.type, t.bytes());
      OC_CHECK(status.ok(), value.name, ": ", status.ToString());
      values[value.name] = t;
    }
  }
  return values;
}

class Interpreter {
 public:
  explicit Interpreter(Slice& slice) : slice_(slice) {}

  // The value of everything in the graph, by value id (empty: opaque ones). Inputs by name; errors
  // name the node, or the input that is missing or has another type.
  StatusOr<std::vector<Tensor>> Run(const Graph& graph,
                                    const std::map<std::string, Tensor>& inputs) {
    OC_ASSIGN_OR_RETURN(queue_, slice_.CreateQueue("interpreter"));
    memory_.clear();
    memory_.resize(graph.values.size());
    std::vector<Tensor> results(graph.values.size());
    for (const Value& v : graph.values) {
      if (v.producer != kNone) continue;
      auto it = inputs.find(v.name);
      if (it == inputs.end())
        return InvalidArgument("interpret ", graph.name, ": no input ", v.name);
      if (!(it->second.type() == v.type)) {
        return InvalidArgument("interpret ", graph.name, ": input ", v.name, " is ",
                               it->second.type().ToString(), ", wants ", v.type.ToString());
      }
      results[v.id] = it->second;
      OC_RETURN_IF_ERROR(Allocate(v.id, v.type.bytes()));
      OC_RETURN_IF_ERROR(queue_->CopyFromHost(Range(v.id), it->second.bytes()));
    }
    OC_RETURN_IF_ERROR(Finish());
    for (const Node& node : graph.nodes) {
      OC_RETURN_IF_ERROR(Annotate(RunNode(graph, node, results),
                                  absl::StrCat("node ", node.id, " (", node.def->name,
                                               node.scope.empty() ? "" : " in ", node.scope, ")")));
    }
    return results;
  }

 private:
  BufferRange Range(int value) const {
    Buffer* buffer = memory_[value].get();
    return {buffer, 0, buffer->bytes()};
  }
  Status Allocate(int value, int64_t bytes) {
    OC_ASSIGN_OR_RETURN(memory_[value], slice_.Allocate(bytes));
    return OkStatus();
  }

  Status RunNode(const Graph& graph, const Node& node, std::vector<Tensor>& results) {
    OC_RETURN_IF_ERROR(node.def->is_view ? View(graph, node) : Compute(graph, node));
    for (int v : node.outputs) {
      if (graph.value(v).opaque) continue;
      results[v] = Tensor(graph.value(v).type);
      OC_RETURN_IF_ERROR(queue_->CopyToHost(results[v].bytes(), Range(v)));
    }
    return Finish();
  }

  // Waits for all that is enqueued: copies of the host's memory, too.
  Status Finish() {
    OC_ASSIGN_OR_RETURN(auto done, slice_.CreateEvent());
    OC_RETURN_IF_ERROR(queue_->Record(*done));
    return done->Wait(/*timeout_seconds=*/300);
  }

  Status View(const Graph& graph, const Node& node) {
    OC_RETURN_IF_ERROR(Allocate(node.outputs[0], graph.value(node.outputs[0]).type.bytes()));
    return queue_->Copy(Range(node.outputs[0]), Range(node.inputs[0]));
  }

  Status Compute(const Graph& graph, const Node& node) {
    OpRequest request{.def = node.def, .attrs = node.attrs};
    std::vector<BufferRange> in, out;
    for (int v : node.inputs) {
      request.inputs.push_back(graph.value(v).type);
      in.push_back(Range(v));
    }
    for (int v : node.outputs) request.outputs.push_back(graph.value(v).type);
    OC_ASSIGN_OR_RETURN(auto op, slice_.Prepare(request));
    const std::vector<int64_t> opaque = op->opaque_bytes();
    size_t next_opaque = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& v = graph.value(node.outputs[i]);
      OC_RETURN_IF_ERROR(Allocate(v.id, v.opaque ? opaque[next_opaque++] : v.type.bytes()));
      out.push_back(Range(v.id));
      // State that is updated in place: in a copy here, so that the old value stays.
      const int updates =
          UpdatedInput(*node.def, node.attrs, node.inputs.size(), node.outputs.size(), i);
      if (updates < 0) continue;
      OC_RETURN_IF_ERROR(queue_->Copy(out[i], in[updates]));
      in[updates] = out[i];
    }
    OC_ASSIGN_OR_RETURN(auto workspace, slice_.Allocate(op->workspace_bytes()));
    OC_RETURN_IF_ERROR(queue_->Enqueue(*op, in, out, {workspace.get(), 0, workspace->bytes()}));
    return Finish();  // the op and its workspace go now
  }

  Slice& slice_;
  std::unique_ptr<Queue> queue_;
  std::vector<std::unique_ptr<Buffer>> memory_;
};

inline StatusOr<std::vector<Tensor>> Interpret(const Graph& graph,
                                               const std::map<std::string, Tensor>& inputs,
                                               Slice& slice) {
  return Interpreter(slice).Run(graph, inputs);
}

}  // namespace oc::test
