#include "openclaw/devices/cpu/native/attention_loops.h"

#include <cmath>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// Heads in the packed tensor: the last axis holds `heads` queries, then keys, then values.
struct Layout {
  AttentionShape shape;
  FloatKind kind;
  int64_t batch, heads, kv_heads, size;
  int64_t floats = 0;  // scratch of a worker

  int64_t group() const { return heads / kv_heads; }
  int64_t Packed(int64_t b, int64_t head) const {
    return (b * shape.length * shape.packed + head * shape.width) * size;
  }
  int64_t Key(int64_t b, int64_t kv) const { return Packed(b, heads + kv); }
  int64_t Value(int64_t b, int64_t kv) const { return Packed(b, heads + kv_heads + kv); }
  int64_t Row(int64_t b, int64_t head) const {
    return (b * shape.length * shape.row + head * shape.width) * size;
  }
  int64_t Lse(int64_t b, int64_t head) const { return (b * heads + head) * shape.length; }
};

StatusOr<Layout> LayoutOf(const OpRequest& request, const TensorType& qkv) {
  Layout l = {};
  OC_ASSIGN_OR_RETURN(l.kind, FloatKindOf(qkv));
  l.size = SizeInBytes(qkv.dtype);
  l.heads = request.attrs.Int("heads", 1);
  l.kv_heads = request.attrs.Int("kv_heads", 0);
  if (l.kv_heads == 0) l.kv_heads = l.heads;
  l.batch = qkv.shape[0].size();
  l.shape.length = qkv.shape[1].size();
  l.shape.packed = qkv.shape[2].size();
  l.shape.width = l.shape.packed / (l.heads + 2 * l.kv_heads);
  l.shape.row = l.heads * l.shape.width;
  const double scale = request.attrs.Double("scale", 0.0);
  l.shape.scale =
      static_cast<float>(scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(l.shape.width)));
  l.shape.causal = request.attrs.Bool("causal", true);
  return l;
}

float* ScratchOf(const Layout& l, const KernelArgs& args, int worker) {
  return reinterpret_cast<float*>(args.workspace) + worker * l.floats;
}

// Heads are what is split: neighbours share keys and values, which a worker then loads once.
Kernel MakeAttention(const OpRequest& request, int threads) {
  OC_ASSIGN_OR_RETURN(Layout l, LayoutOf(request, request.inputs[0]));
  const AttentionLoops& loops = GetAttentionLoops();
  l.floats = loops.forward_floats(l.shape);
  const auto run = [l, &loops](const KernelArgs& args) {
    args.pool.Run([&](int worker) {
      const WorkRange part = SplitWork(l.batch * l.heads, 1, args.pool.threads(), worker);
      float* const scratch = ScratchOf(l, args, worker);
      int64_t loaded = -1;
      for (int64_t i = part.begin; i < part.end; ++i) {
        const int64_t b = i / l.heads, h = i % l.heads, kv = h / l.group();
        if (b * l.kv_heads + kv != loaded) {
          loaded = b * l.kv_heads + kv;
          loops.load[l.kind](l.shape, args.inputs[0] + l.Key(b, kv),
                             args.inputs[0] + l.Value(b, kv), scratch);
        }
        loops.forward[l.kind](l.shape, args.inputs[0] + l.Packed(b, h),
                              args.outputs[0] + l.Row(b, h), args.out<float>(1) + l.Lse(b, h),
                              scratch);
      }
    });
  };
  return MakeKernel(run, threads * l.floats * static_cast<int64_t>(sizeof(float)));
}

// dy, qkv, y, lse -> dqkv. A worker takes whole groups of heads: their keys' gradients are sums.
Kernel MakeAttentionGrad(const OpRequest& request, int threads) {
  OC_ASSIGN_OR_RETURN(Layout l, LayoutOf(request, request.inputs[1]));
  const AttentionLoops& loops = GetAttentionLoops();
  l.floats = loops.backward_floats(l.shape);
  const auto run = [l, &loops](const KernelArgs& args) {
    const std::byte* const qkv = args.inputs[1];
    std::byte* const dqkv = args.outputs[0];
    args.pool.Run([&](int worker) {
      const WorkRange part = SplitWork(l.batch * l.kv_heads, 1, args.pool.threads(), worker);
      float* const scratch = ScratchOf(l, args, worker);
      for (int64_t i = part.begin; i < part.end; ++i) {
        const int64_t b = i / l.kv_heads, kv = i % l.kv_heads;
        loops.load_backward[l.kind](l.shape, qkv + l.Key(b, kv), qkv + l.Value(b, kv), scratch);
        for (int64_t h = kv * l.group(); h < (kv + 1) * l.group(); ++h) {
          loops.backward[l.kind](l.shape, args.inputs[0] + l.Row(b, h), qkv + l.Packed(b, h),
                                 args.inputs[2] + l.Row(b, h), args.in<float>(3) + l.Lse(b, h),
                                 dqkv + l.Packed(b, h), scratch);
        }
        loops.store_backward[l.kind](l.shape, dqkv + l.Key(b, kv), dqkv + l.Value(b, kv), scratch);
      }
    });
  };
  return MakeKernel(run, threads * l.floats * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

void RegisterAttention(KernelRegistry& registry) {
  registry.Add("attention", MakeAttention);
  registry.Add("attention_grad", MakeAttentionGrad);
}

}  // namespace oc::cpu
