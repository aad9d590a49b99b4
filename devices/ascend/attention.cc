// Attention as two products and what is between them, in f32, on views of the packed rows: a head
// is [batch, head that it reads, heads that read it, time, width], so that queries which share a
// key broadcast over it.
#include <cmath>

#include "openclaw/devices/ascend/plan.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::ascend {
namespace {

struct Heads {
  static StatusOr<Heads> Read(const OpRequest& r, int qkv) {
    const TensorType& type = r.inputs[static_cast<size_t>(qkv)];
    OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(type, r.attrs));
    return Heads{layout,
                 type.shape[0].size(),
                 type.shape[1].size(),
                 layout.heads / layout.kv_heads,
                 ops::AttentionScale(layout, r.attrs),
                 r.attrs.Bool("causal", true)};
  }

  // Heads of rows of `row` elements that begin at `offset` of each: `group` that share a key.
  View In(const View& rows, int64_t row, int64_t offset, int64_t group) const {
    const int64_t width = layout.width;
    View v = rows;
    v.dims = {batch, layout.kv_heads, group, time, width};
    v.strides = {time * row, group * width, width, row, 1};
    v.offset += offset;
    return v;
  }
  View Queries(const View& qkv) const { return In(qkv, layout.packed(), 0, sharing); }
  View Keys(const View& qkv) const { return In(qkv, layout.packed(), layout.Key(0), 1); }
  View Values(const View& qkv) const { return In(qkv, layout.packed(), layout.Value(0), 1); }
  View Outputs(const View& y) const { return In(y, layout.heads * layout.width, 0, sharing); }

  std::vector<int64_t> ScoreDims() const { return {batch, layout.kv_heads, sharing, time, time}; }
  std::vector<int64_t> QueryDims() const {
    return {batch, layout.kv_heads, sharing, time, layout.width};
  }
  std::vector<int64_t> RowDims() const { return {batch, layout.kv_heads, sharing, time, 1}; }

  ops::HeadLayout layout;
  int64_t batch, time;
  int64_t sharing;  // query heads of a key
  double scale;
  bool causal;
};

// scale * q k^T, -inf where a key is later than its query.
View Scores(Plan& plan, const Heads& heads, const View& qkv) {
  const View scores = plan.Reserve(DType::kF32, heads.ScoreDims());
  plan.Product(heads.Queries(qkv), heads.Keys(qkv).Transposed(), scores);
  plan.Scale(scores, heads.scale, scores);
  if (heads.causal) {
    std::vector<bool> later(static_cast<size_t>(heads.time * heads.time));
    for (int64_t q = 0; q < heads.time; ++q) {
      for (int64_t k = q + 1; k < heads.time; ++k) {
        later[static_cast<size_t>(q * heads.time + k)] = true;
      }
    }
    plan.Call(Operator::kInplaceMaskedFillScalar,
              {scores, plan.ConstantMask(later, {heads.time, heads.time}), Number{-INFINITY}});
  }
  return scores;
}

Status Attention(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const Heads heads, Heads::Read(r, 0));
  const View qkv = plan.InF32(0);
  const View scores = Scores(plan, heads, qkv);
  const View largest = plan.Reserve(DType::kF32, heads.RowDims());
  const View sum = plan.Reserve(DType::kF32, heads.RowDims());
  const View log = plan.Reserve(DType::kF32, heads.RowDims());
  plan.Call(Operator::kAmax, {scores, Ints{{4}}, Flag{true}, largest});
  plan.Add(scores, largest, scores, -1);
  plan.Call(Operator::kExp, {scores, scores});
  plan.Sum(scores, {4}, sum);
  plan.Call(Operator::kDiv, {scores, sum, scores});
  plan.Call(Operator::kLog, {sum, log});
  plan.Add(log, largest, plan.Out(1).Shaped(heads.RowDims()));
  const View result = plan.Reserve(DType::kF32, heads.QueryDims());
  plan.Product(scores, heads.Values(qkv), result);
  plan.Copy(result, heads.Outputs(plan.OutF32(0)));
  return OkStatus();
}

// a b for each query head, summed over those that share a key, to heads of dqkv.
void ProductToShared(Plan& plan, const Heads& heads, const View& a, const View& b, const View& to) {
  const View each = plan.Reserve(DType::kF32, heads.QueryDims());
  plan.Product(a, b, each);
  if (heads.sharing == 1) return plan.Copy(each, to);
  std::vector<int64_t> dims = heads.QueryDims();
  dims[2] = 1;
  const View sum = plan.Reserve(DType::kF32, dims);
  plan.Sum(each, {2}, sum);
  plan.Copy(sum, to);
}

Status AttentionGrad(const OpRequest& r, Plan& plan) {
  OC_ASSIGN_OR_RETURN(const Heads heads, Heads::Read(r, 1));
  const View qkv = plan.InF32(1);
  const View dy = heads.Outputs(plan.InF32(0)), y = heads.Outputs(plan.InF32(2));
  const View dqkv = plan.OutF32(0);
  const View p = Scores(plan, heads, qkv);
  plan.Add(p, plan.InF32(3).Shaped(heads.RowDims()), p, -1);
  plan.Call(Operator::kExp, {p, p});
  ProductToShared(plan, heads, p.Transposed(), dy, heads.Values(dqkv));
  // ds = p * (dy v^T - sum of dy * y) * scale.
  const View ds = plan.Reserve(DType::kF32, heads.ScoreDims());
  const View product = plan.Reserve(DType::kF32, heads.QueryDims());
  const View delta = plan.Reserve(DType::kF32, heads.RowDims());
  plan.Product(dy, heads.Values(qkv).Transposed(), ds);
  plan.Mul(dy, y, product);
  plan.Sum(product, {4}, delta);
  plan.Add(ds, delta, ds, -1);
  plan.Mul(ds, p, ds);
  plan.Scale(ds, heads.scale, ds);
  plan.Product(ds, heads.Keys(qkv), product);
  plan.Copy(product, heads.Queries(dqkv));
  ProductToShared(plan, heads, ds.Transposed(), heads.Queries(qkv), heads.Keys(dqkv));
  return OkStatus();
}

}  // namespace

void RegisterAttention(PlanRegistry& registry) {
  registry["attention"] = {Attention};
  registry["attention_grad"] = {AttentionGrad};
}

}  // namespace oc::ascend
