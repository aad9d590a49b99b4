#include <cmath>

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::opencl {
namespace {

std::string RangeOf(int64_t vocabulary) { return absl::StrCat("0..", vocabulary - 1); }

Status Embedding(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[1]));
  const int64_t count = r.inputs[0].shape.num_elements();
  const int64_t vocabulary = r.inputs[1].shape[0].size(), width = r.inputs[1].shape[1].size();
  const Operand flags = plan.Flags("id", RangeOf(vocabulary));
  plan.Kernel("sequence", "embedding")
      .In(0)
      .In(1)
      .Out(0)
      .Add(flags)
      .Int(count)
      .Int(vocabulary)
      .Int(width)
      .Items(count * width);
  return OkStatus();
}

Status EmbeddingGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const int64_t count = r.inputs[1].shape.num_elements();
  const int64_t vocabulary = r.outputs[0].shape[0].size(), width = r.outputs[0].shape[1].size();
  const Operand next = plan.Reserve(count), first = plan.Reserve(count);
  const Operand flags = plan.Flags("id", RangeOf(vocabulary));
  plan.Kernel("sequence", "link")
      .In(1)
      .Add(next)
      .Add(first)
      .Add(flags)
      .Int(count)
      .Int(vocabulary)
      .Items(count);
  if (r.accumulate == 0) {
    plan.Kernel("movement", "zero")
        .Define("M", MoveType(r.outputs[0].dtype))
        .Out(0)
        .Int(vocabulary * width)
        .Items(vocabulary * width);
  }
  plan.Kernel("sequence", "add_rows")
      .In(0)
      .In(1)
      .Add(next)
      .Add(first)
      .Out(0)
      .Int(count)
      .Int(width)
      .Int(r.accumulate != 0 ? 1 : 0)
      .Items(count * width);
  return OkStatus();
}

// base^(-2i / width) radians in 2^-64 turns, which wrap as turns do.
std::string Phases(double base, int64_t width) {
  std::string text = "{";
  for (int64_t i = 0; i < width / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
    const double turns = std::pow(base, exponent) / (2 * M_PI);
    const auto phase = static_cast<uint64_t>((turns - std::floor(turns)) * 0x1p64);
    absl::StrAppend(&text, phase, "UL,");
  }
  return text + "}";
}

Status Rope(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(r.inputs[0], r.attrs));
  const int64_t time = r.inputs[0].shape[1].size(), rows = r.inputs[0].shape[0].size() * time;
  const int64_t turning = (layout.heads + layout.kv_heads) * layout.width;
  const int32_t sign = r.attrs.Bool("inverse", false) ? -1 : 1;
  plan.Kernel("sequence", "rope")
      .Define("PHASES", Phases(r.attrs.Double("base", 10000.0), layout.width))
      .In(0)
      .Out(0)
      .Int(rows)
      .Int(time)
      .Int(turning)
      .Int(layout.packed())
      .Int(layout.width / 2)
      .Int32(sign)
      .Items(rows * (layout.packed() - turning / 2));
  return OkStatus();
}

struct Sizes {
  int64_t batch, time;
  ops::HeadLayout layout;
  double scale;
  bool causal;

  KernelStep& AddTo(KernelStep& step) const {
    return step.Int(time)
        .Int(layout.heads)
        .Int(layout.kv_heads)
        .Int(layout.width)
        .Float(scale)
        .Int(causal ? 1 : 0);
  }
};

// `rows` of time floats must fit into the local memory.
StatusOr<Sizes> ReadSizes(const OpRequest& r, int qkv, int rows, const Limits& limits) {
  const TensorType& type = r.inputs[static_cast<size_t>(qkv)];
  OC_RETURN_IF_ERROR(WantFloat(type));
  OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(type, r.attrs));
  const int64_t time = type.shape[1].size();
  const int64_t longest = (limits.local_bytes - (int64_t{2} << 10)) / (rows * 4);
  if (time > longest) {
    return Unimplemented("no kernel for ", time, " positions; the device's local memory holds ",
                         longest);
  }
  return Sizes{type.shape[0].size(), time, layout, ops::AttentionScale(layout, r.attrs),
               r.attrs.Bool("causal", true)};
}

Status Attention(const OpRequest& r, const Limits& limits, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(r, 0, 1, limits));
  KernelStep& step = plan.Kernel("sequence", "attention").In(0).Out(0).Out(1).LocalFloats(s.time);
  s.AddTo(step).Groups(s.batch * s.layout.heads * s.time, kRow);
  return OkStatus();
}

Status AttentionGrad(const OpRequest& r, const Limits& limits, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(r, 1, 2, limits));
  const int64_t queries = s.batch * s.layout.heads * s.time;
  const Operand delta = plan.Reserve(queries);
  const auto begin = [&](const char* kernel) -> KernelStep& {
    return plan.Kernel("sequence", kernel).In(0).In(1).In(3).Add(delta).Out(0);
  };
  s.AddTo(begin("attention_grad_queries").LocalFloats(s.time).LocalFloats(s.time))
      .Groups(queries, kRow);
  const int64_t keys = s.batch * s.layout.kv_heads * s.time;
  const bool shared = s.layout.heads > s.layout.kv_heads;
  const Operand sums = shared ? plan.Reserve(2 * keys * s.layout.width) : Operand{};
  s.AddTo(begin("attention_grad_keys").Add(sums).LocalFloats(s.time).LocalFloats(s.time))
      .Groups(keys, kRow);
  return OkStatus();
}

}  // namespace

void RegisterSequence(PlanRegistry& registry) {
  registry["embedding"] = {Embedding};
  registry["embedding_grad"] = {EmbeddingGrad, 1};
  registry["rope"] = {Rope};
  registry["attention"] = {Attention};
  registry["attention_grad"] = {AttentionGrad};
}

}  // namespace oc::opencl
