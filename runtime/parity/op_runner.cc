#include "openclaw/runtime/parity/op_runner.h"

#include <cstring>

namespace oc::parity {
namespace {

constexpr int64_t kGuard = 256;  // bytes around each operand that must stay as they are
constexpr std::byte kGarbage{0xA5};

// Device memory of one operand between two guards.
struct Operand {
  std::unique_ptr<Buffer> buffer;
  BufferRange range;
  std::vector<std::byte> before;  // the whole buffer as it was when the op began
};

StatusOr<Operand> Place(Slice& slice, Queue& queue, int64_t bytes, int64_t misalign,
                        std::span<const std::byte> content) {
  Operand operand;
  const int64_t total = 2 * kGuard + bytes + 64;
  OC_ASSIGN_OR_RETURN(operand.buffer, slice.Allocate(total));
  operand.range = {operand.buffer.get(), kGuard + misalign, bytes};
  operand.before.assign(static_cast<size_t>(total), kGarbage);
  if (!content.empty()) {
    std::memcpy(operand.before.data() + operand.range.offset, content.data(), content.size());
  }
  OC_RETURN_IF_ERROR(queue.CopyFromHost({operand.buffer.get(), 0, total}, operand.before));
  return operand;
}

Status Synchronize(Queue& queue, Event& event) {
  OC_RETURN_IF_ERROR(queue.Record(event));
  return event.Wait(60);
}

// kInternal where bytes changed outside of `written` (all of the operand's range, or nothing of
// it).
Status CheckUntouched(Queue& queue, Event& event, const Operand& operand, bool written,
                      const std::string& what, std::vector<std::byte>* after) {
  after->resize(operand.before.size());
  OC_RETURN_IF_ERROR(queue.CopyToHost(
      *after, {operand.buffer.get(), 0, static_cast<int64_t>(operand.before.size())}));
  OC_RETURN_IF_ERROR(Synchronize(queue, event));
  const auto begin = static_cast<size_t>(operand.range.offset);
  const size_t end = begin + static_cast<size_t>(operand.range.bytes);
  for (size_t i = 0; i < after->size(); ++i) {
    if (written && i >= begin && i < end) continue;
    if ((*after)[i] == operand.before[i]) continue;
    if (i >= begin && i < end)
      return Internal(what, ": the kernel changed byte ", i - begin, " of it");
    return Internal(what, ": the kernel wrote ", i < begin ? begin - i : i - end + 1, " bytes ",
                    i < begin ? "before" : "beyond", " it");
  }
  return OkStatus();
}

// The input whose memory output i takes, or -1.
int AliasOf(const OpDef& def, const OpRequest& request, int i, bool in_place) {
  const auto get = [&](const std::vector<int>& list) {
    return i < static_cast<int>(list.size()) ? list[static_cast<size_t>(i)] : -1;
  };
  const int update = UpdatedInput(def, request.attrs, request.inputs.size(), request.outputs.size(),
                                  static_cast<size_t>(i));
  if (update >= 0) return update;
  if (!in_place) return -1;
  const int reuse = get(def.reuse);
  if (reuse < 0 || reuse >= static_cast<int>(request.inputs.size())) return -1;
  return request.inputs[reuse].bytes() == request.outputs[i].bytes() ? reuse : -1;
}

}  // namespace

StatusOr<std::vector<Tensor>> OpRunner::Run(const std::string& op, const Attributes& attrs,
                                            const std::vector<Tensor>& inputs,
                                            const Options& options, std::string* implementation) {
  OpRequest request{.def = ops_->Find(op), .attrs = attrs, .accumulate = options.accumulate};
  if (request.def == nullptr) return ops_->Unknown(op);
  const OpDef& def = *request.def;
  for (const Tensor& t : inputs) request.inputs.push_back(t.type());
  OC_ASSIGN_OR_RETURN(request.outputs, def.infer({request.inputs, attrs}));
  std::vector<Tensor> results;
  if (def.is_view) {
    results.emplace_back(request.outputs[0]);
    std::memcpy(results[0].bytes().data(), inputs[0].bytes().data(), inputs[0].bytes().size());
    return results;
  }
  OC_ASSIGN_OR_RETURN(std::unique_ptr<PreparedOp> prepared, slice_.Prepare(request));
  if (implementation != nullptr) *implementation = prepared->implementation();

  const auto misaligned = [&](const TensorType& type) {
    const int64_t size = SizeInBytes(type.dtype);
    return options.misalign / size * size;
  };
  std::vector<Operand> operands;  // inputs, then the outputs that have memory of their own
  Operand workspace;
  std::vector<std::vector<std::byte>> after;
  std::vector<std::byte> scratch;
  // Goes before all that what is enqueued uses, also after a timeout.
  OC_ASSIGN_OR_RETURN(std::unique_ptr<Queue> queue, slice_.CreateQueue("compute"));
  OC_ASSIGN_OR_RETURN(std::unique_ptr<Event> done, slice_.CreateEvent());
  std::vector<BufferRange> in, out;
  for (const Tensor& t : inputs) {
    OC_ASSIGN_OR_RETURN(Operand o,
                        Place(slice_, *queue, t.type().bytes(), misaligned(t.type()), t.bytes()));
    operands.push_back(std::move(o));
    in.push_back(operands.back().range);
  }
  std::vector<size_t> home(request.outputs.size());
  std::vector<bool> written(inputs.size(), false);
  std::vector<int64_t> opaque = prepared->opaque_bytes();
  size_t next_opaque = 0;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const int alias = AliasOf(def, request, static_cast<int>(i), options.in_place);
    if (alias >= 0 && !written[alias]) {
      home[i] = static_cast<size_t>(alias);
      written[alias] = true;
      out.push_back(in[alias]);
      continue;
    }
    const bool is_opaque = HasOutput(def.opaque_outputs, i);
    const bool adds = HasOutput(options.accumulate, i);
    const TensorType& type = request.outputs[i];
    const int64_t bytes = is_opaque ? opaque[next_opaque++] : type.bytes();
    OC_ASSIGN_OR_RETURN(Operand o,
                        Place(slice_, *queue, bytes, misaligned(type),
                              adds ? options.initial[i].bytes() : std::span<const std::byte>()));
    home[i] = operands.size();
    operands.push_back(std::move(o));
    written.push_back(true);
    out.push_back(operands.back().range);
  }
  OC_ASSIGN_OR_RETURN(workspace, Place(slice_, *queue, prepared->workspace_bytes(), 0, {}));
  OC_RETURN_IF_ERROR(queue->Enqueue(*prepared, in, out, workspace.range));
  OC_RETURN_IF_ERROR(Synchronize(*queue, *done));

  after.resize(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_input = i < inputs.size();
    OC_RETURN_IF_ERROR(CheckUntouched(
        *queue, *done, operands[i], written[i],
        absl::StrCat(op, is_input ? " input " : " output ", is_input ? i : i - inputs.size()),
        &after[i]));
  }
  OC_RETURN_IF_ERROR(
      CheckUntouched(*queue, *done, workspace, true, absl::StrCat(op, " workspace"), &scratch));
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    results.emplace_back(request.outputs[i]);
    const bool is_opaque = HasOutput(def.opaque_outputs, i);
    if (is_opaque) continue;  // the device's own bytes: not for others to read
    std::memcpy(results[i].bytes().data(), after[home[i]].data() + operands[home[i]].range.offset,
                results[i].bytes().size());
  }
  return results;
}

StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph,
                                       const std::map<std::string, Tensor>& inputs,
                                       const std::vector<int>& wanted, OpRunner& runner,
                                       std::map<std::string, std::string>* implementations) {
  std::vector<Tensor> values(graph.values.size());
  for (const Value& v : graph.values) {
    if (v.producer != kNone) continue;
    auto it = inputs.find(v.name);
    if (it == inputs.end()) return InvalidArgument("evaluate ", graph.name, ": no input ", v.name);
    values[v.id] = it->second;
  }
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> in;
    for (int v : node.inputs) in.push_back(values[v]);
    std::string implementation;
    auto out = runner.Run(node.def->name, node.attrs, in, {}, &implementation);
    if (!out.ok())
      return Annotate(out.status(), absl::StrCat("node ", node.id, " ", node.def->name));
    if (implementations != nullptr) (*implementations)[node.def->name] = implementation;
    for (size_t i = 0; i < node.outputs.size(); ++i) values[node.outputs[i]] = (*out)[i];
  }
  std::vector<Tensor> result;
  for (int v : wanted) result.push_back(values[v]);
  return result;
}

}  // namespace oc::parity
