#include "openclaw/devices/cuda/kernels/softmax.h"

#include "openclaw/devices/cuda/plan.h"

namespace oc::cuda {
namespace {

Status Softmax(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  const bool gradient = r.inputs.size() > 1;
  const kernels::Softmax softmax{
      .type = TypeOf(r.inputs[0].dtype), .rows = rows.count, .columns = rows.columns};
  plan.Launch([=](const Call& c) {
    kernels::Softmax s = softmax;
    s.x = c.In(0);
    s.y = gradient ? c.In(1) : nullptr;
    s.to = c.Out(0);
    return kernels::Launch(s, c.stream);
  });
  return OkStatus();
}

int64_t Ignored(const OpRequest& r) { return r.attrs.Int("ignore_index", -1); }

void CheckLabels(const OpRequest& r, OpPlan& plan, int64_t classes) {
  plan.Check("label", absl::StrCat("0..", classes - 1, " (and not ignore_index ", Ignored(r), ")"));
}

kernels::Labels LabelsOf(const Call& c, int input, int64_t ignored) {
  return {.values = c.In<int32_t>(input), .ignored = ignored, .flags = c.flags};
}

int64_t ReserveRows(OpPlan& plan, int64_t rows) {
  return plan.Reserve(rows * static_cast<int64_t>(sizeof(float)));
}

Status CrossEntropy(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  CheckLabels(r, plan, rows.columns);
  const int64_t losses = ReserveRows(plan, rows.count);
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), ignored = Ignored(r)](const Call& c) {
    const kernels::CrossEntropy entropy{.type = type,
                                        .rows = rows.count,
                                        .classes = rows.columns,
                                        .logits = c.In(0),
                                        .labels = LabelsOf(c, 1, ignored),
                                        .lse = c.Out<float>(1),
                                        .losses = c.Work<float>(losses)};
    return kernels::Launch(entropy, c.stream);
  });
  plan.Launch([=](const Call& c) {
    return kernels::LaunchSum(c.Work<float>(losses), rows.count, c.Out<float>(0), c.stream);
  });
  return OkStatus();
}

Status CrossEntropyGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[1].shape);
  CheckLabels(r, plan, rows.columns);
  plan.Launch([=, type = TypeOf(r.inputs[1].dtype), ignored = Ignored(r)](const Call& c) {
    const kernels::CrossEntropyGrad entropy{.type = type,
                                            .rows = rows.count,
                                            .classes = rows.columns,
                                            .dloss = c.In<float>(0),
                                            .logits = c.In(1),
                                            .labels = LabelsOf(c, 2, ignored),
                                            .lse = c.In<float>(3),
                                            .dlogits = c.Out(0)};
    return kernels::Launch(entropy, c.stream);
  });
  return OkStatus();
}

// `logits` and `labels`: which inputs they are; no logits: -1.
Status AddCount(const OpRequest& r, OpPlan& plan, int64_t rows, int64_t classes, int logits,
                int labels) {
  const int64_t ones = ReserveRows(plan, rows);
  const kernels::Type type = logits >= 0 ? TypeOf(r.inputs[0].dtype) : kernels::Type::kF32;
  plan.Launch([=, ignored = Ignored(r)](const Call& c) {
    const kernels::CountRows count{.type = type,
                                   .rows = rows,
                                   .classes = classes,
                                   .logits = logits >= 0 ? c.In(logits) : nullptr,
                                   .labels = LabelsOf(c, labels, ignored),
                                   .ones = c.Work<float>(ones)};
    return kernels::Launch(count, c.stream);
  });
  plan.Launch([=](const Call& c) {
    return kernels::LaunchSum(c.Work<float>(ones), rows, c.Out<float>(0), c.stream);
  });
  return OkStatus();
}

Status CountValid(const OpRequest& r, const Traits&, OpPlan& plan) {
  return AddCount(r, plan, r.inputs[0].shape.num_elements(), 0, -1, 0);
}

Status CountCorrect(const OpRequest& r, const Traits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[0].shape);
  CheckLabels(r, plan, rows.columns);
  return AddCount(r, plan, rows.count, rows.columns, 0, 1);
}

}  // namespace

void RegisterSoftmax(PlanRegistry& registry) {
  registry["softmax"] = {Softmax};
  registry["softmax_grad"] = {Softmax};
  registry["cross_entropy"] = {CrossEntropy};
  registry["cross_entropy_grad"] = {CrossEntropyGrad};
  registry["count_valid"] = {CountValid};
  registry["count_correct"] = {CountCorrect};
}

}  // namespace oc::cuda
