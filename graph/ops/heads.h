// The packed layout of attention's input, which rope and attention share: the last axis holds
// `heads` queries, `kv_heads` keys and `kv_heads` values of D elements each, in this order.
#pragma once

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {

struct HeadLayout {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t width = 1;  // D

  int64_t packed() const { return (heads + 2 * kv_heads) * width; }
  // Offsets within a row.
  int64_t Query(int64_t head) const { return head * width; }
  int64_t Key(int64_t kv_head) const { return (heads + kv_head) * width; }
  int64_t Value(int64_t kv_head) const { return (heads + kv_heads + kv_head) * width; }
  // The key-value head that a query head reads.
  int64_t KvHead(int64_t head) const { return head * kv_heads / heads; }
};

// kInvalidArgument where `qkv` is not [B, T, (heads + 2 * kv_heads) * D] or heads is no multiple of
// kv_heads (0 or absent: as many as heads).
StatusOr<HeadLayout> ReadHeads(const TensorType& qkv, const Attributes& attrs);
// The attribute, or 1 / sqrt(D) where it is 0.
double AttentionScale(const HeadLayout& layout, const Attributes& attrs);

}  // namespace oc::ops
