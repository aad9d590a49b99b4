// Embeddings, rotary positions, dropout.
#include "openclaw/devices/cuda/kernels/sequence.h"
#include "openclaw/devices/cuda/kernels/embedding.h"
#include "openclaw/devices/cuda/plan.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::cuda {
namespace {

void CheckIds(OpPlan& plan, int64_t vocabulary) {
  plan.Check("id", absl::StrCat("0..", vocabulary - 1));
}

Status Embedding(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const kernels::Embedding embedding_of{.type = TypeOf(r.inputs[1].dtype),
                                        .count = r.inputs[0].shape.num_elements(),
                                        .vocabulary = r.inputs[1].shape[0].size(),
                                        .width = r.inputs[1].shape[1].size()};
  CheckIds(plan, embedding_of.vocabulary);
  plan.Launch([=](const Call& c) {
    kernels::Embedding embedding = embedding_of;
    embedding.ids = c.In<int32_t>(0);
    embedding.table = c.In(1);
    embedding.y = c.Out(0);
    embedding.flags = c.flags;
    return kernels::Launch(embedding, c.stream);
  });
  return OkStatus();
}

Status EmbeddingGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const kernels::EmbeddingGrad embedding_of{.type = TypeOf(r.inputs[0].dtype),
                                            .count = r.inputs[1].shape.num_elements(),
                                            .vocabulary = r.outputs[0].shape[0].size(),
                                            .width = r.outputs[0].shape[1].size(),
                                            .table_type = TypeOf(r.outputs[0].dtype),
                                            .add = (r.accumulate & 1) != 0};
  CheckIds(plan, embedding_of.vocabulary);
  const int64_t room =
      plan.Reserve(kernels::EmbeddingGradWorkspace(embedding_of.count, embedding_of.width));
  plan.Launch([=](const Call& c) {
    kernels::EmbeddingGrad embedding = embedding_of;
    embedding.dy = c.In(0);
    embedding.ids = c.In<int32_t>(1);
    embedding.dtable = c.Out(0);
    embedding.flags = c.flags;
    embedding.workspace = c.Work(room);
    return kernels::Launch(embedding, c.stream);
  });
  return OkStatus();
}

Status Rope(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  OC_ASSIGN_OR_RETURN(const ops::HeadLayout layout, ops::ReadHeads(r.inputs[0], r.attrs));
  const kernels::Rope rope_of{.type = TypeOf(r.inputs[0].dtype),
                              .batch = r.inputs[0].shape[0].size(),
                              .time = r.inputs[0].shape[1].size(),
                              .packed = layout.packed(),
                              .turning_heads = layout.heads + layout.kv_heads,
                              .half = layout.width / 2,
                              .base = r.attrs.Double("base", 10000.0),
                              .inverse = r.attrs.Bool("inverse", false)};
  plan.Launch([=](const Call& c) {
    kernels::Rope rope = rope_of;
    rope.x = c.In(0);
    rope.y = c.Out(0);
    return kernels::Launch(rope, c.stream);
  });
  return OkStatus();
}

Status Dropout(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Shape& shape = r.inputs[0].shape;
  const int64_t n = shape.num_elements();
  if (n == 0) return OkStatus();
  const bool off = !r.attrs.Bool("training", true);
  const double p = off ? 0 : r.attrs.Double("p");
  const kernels::Dropout dropout_of{.type = TypeOf(r.inputs[0].dtype),
                                    .n = n,
                                    .stream = static_cast<uint64_t>(r.attrs.Int("stream")),
                                    .sample_size = static_cast<uint64_t>(n / shape[0].size()),
                                    .p = static_cast<float>(p),
                                    .scale = static_cast<float>(1 / (1 - p))};
  plan.Launch([=](const Call& c) {
    kernels::Dropout dropout = dropout_of;
    dropout.x = c.In(0);
    dropout.numbers = c.In<int64_t>(1);
    dropout.y = c.Out(0);
    return kernels::Launch(dropout, c.stream);
  });
  return OkStatus();
}

}  // namespace

void RegisterSequence(PlanRegistry& registry) {
  registry["embedding"] = {Embedding};
  registry["embedding_grad"] = {EmbeddingGrad, 1, true};
  registry["rope"] = {Rope};
  registry["dropout"] = {Dropout};
}

}  // namespace oc::cuda
