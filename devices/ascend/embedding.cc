#include "openclaw/devices/ascend/labels.h"

namespace oc::ascend {
namespace {

Status Embedding(const OpRequest&, Plan& plan) {
  const View table = plan.In(1);
  const CheckedIndices ids = CheckIndices(plan, plan.In(0), table.dims[0], "id", {});
  plan.Call(Operator::kEmbedding,
            {table, ids.safe, plan.Out(0).Shaped({ids.safe.elements(), table.dims[1]})});
  return OkStatus();
}

Status EmbeddingGrad(const OpRequest&, Plan& plan) {
  const View dtable = plan.OutF32(0);
  const int64_t vocabulary = dtable.dims[0], width = dtable.dims[1];
  const View ids_in = plan.In(1);
  const View dy = plan.InF32(0).Shaped({ids_in.elements(), width});
  if (dy.elements() == 0) {
    plan.Clear(dtable);
    return OkStatus();
  }
  const CheckedIndices ids = CheckIndices(plan, ids_in, vocabulary, "id", {});
  constexpr int64_t kNoPadding = -1;
  plan.Call(Operator::kEmbeddingDenseBackward,
            {dy, ids.safe, Int{vocabulary}, Int{kNoPadding}, Flag{false}, dtable});
  return OkStatus();
}

}  // namespace

void RegisterEmbedding(PlanRegistry& registry) {
  registry["embedding"] = {Embedding};
  registry["embedding_grad"] = {EmbeddingGrad, 1};
}

}  // namespace oc::ascend
