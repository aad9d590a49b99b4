// Softmax cross-entropy, summed: loss = sum over valid rows of (lse - logits[label]); and the
// counts that belong to it. A row whose label is ignore_index is not valid.
#include "openclaw/graph/ops/norm.h"

namespace oc::ops {
namespace {

Status CheckLabels(const TensorType& logits, const TensorType& labels) {
  OC_RETURN_IF_ERROR(ExpectRows(logits, "logits"));
  return ExpectSame(labels, RowType(logits, DType::kI32), "labels, wanted labels");
}

// The loss is f32, or f64 where the logits are.
StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& logits = args.inputs[0];
  OC_RETURN_IF_ERROR(CheckLabels(logits, args.inputs[1]));
  const DType statistics = StatisticsType(logits.dtype);
  return std::vector<TensorType>{{statistics, {}}, RowType(logits, statistics)};
}

StatusOr<std::vector<TensorType>> InferGrad(const InferArgs& args) {
  const TensorType& dloss = args.inputs[0];
  const TensorType& logits = args.inputs[1];
  OC_RETURN_IF_ERROR(CheckLabels(logits, args.inputs[2]));
  const DType statistics = StatisticsType(logits.dtype);
  if (!(dloss == TensorType{DType::kF32, {}}) && !(dloss == TensorType{statistics, {}})) {
    return InvalidArgument("dloss is ", dloss.ToString(), ", wants f32[]");
  }
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], RowType(logits, statistics), "lse, wanted lse"));
  return std::vector<TensorType>{logits};
}

StatusOr<std::vector<TensorType>> InferCountValid(const InferArgs& args) {
  const TensorType& labels = args.inputs[0];
  if (labels.dtype != DType::kI32) {
    return InvalidArgument("labels are ", labels.ToString(), ", want i32");
  }
  return std::vector<TensorType>{{DType::kF32, {}}};
}

StatusOr<std::vector<TensorType>> InferCountCorrect(const InferArgs& args) {
  OC_RETURN_IF_ERROR(CheckLabels(args.inputs[0], args.inputs[1]));
  return std::vector<TensorType>{{DType::kF32, {}}};
}

Status Gradient(GradContext& c) {
  OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 2));
  c.Set(0, c.b.Op("cross_entropy_grad", {c.grad(), c.input(0), c.input(1), c.output(1)},
                  {{"ignore_index", c.attrs().Int("ignore_index", -1)}}));
  return OkStatus();
}

OpCost LogitCost(const InferArgs& args, const std::vector<TensorType>& outputs, int logits) {
  return CostWithFlops(4.0 * static_cast<double>(args.inputs[logits].shape.num_elements()), args,
                       outputs);
}

const AttrSpec kIgnoreIndex = {"ignore_index", int64_t{-1}};

}  // namespace

OpDef CrossEntropy() {
  OpDef def;
  def.name = "cross_entropy";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {kIgnoreIndex};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return LogitCost(args, outputs, 0);
  };
  return def;
}

OpDef CrossEntropyGrad() {
  OpDef def;
  def.name = "cross_entropy_grad";
  def.min_inputs = def.max_inputs = 4;
  def.attrs = {kIgnoreIndex};
  def.infer = InferGrad;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return LogitCost(args, outputs, 1);
  };
  def.reuse = {1};
  return def;
}

OpDef CountValid() {
  OpDef def;
  def.name = "count_valid";
  def.attrs = {kIgnoreIndex};
  def.infer = InferCountValid;
  return def;
}

OpDef CountCorrect() {
  OpDef def;
  def.name = "count_correct";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {kIgnoreIndex};
  def.infer = InferCountCorrect;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return LogitCost(args, outputs, 0);
  };
  return def;
}

}  // namespace oc::ops
