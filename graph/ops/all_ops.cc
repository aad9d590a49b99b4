// The list of the product's ops. To add one: a file here, a line in the list, a line in
// docs/ops.md, a kernel a device.
#include "openclaw/graph/ops/ops.h"

namespace oc {
namespace ops {

// Each is defined in the file of its family.
// clang-format off
#define OC_OPS(X) \
  X(Add) \
  X(Sub) \
  X(Mul) \
  X(Div) \
  X(Equal) \
  X(Less) \
  X(Greater) \
  X(Where) \
  X(Scale) \
  X(Relu) \
  X(ReluGrad) \
  X(Silu) \
  X(SiluGrad) \
  X(Tanh) \
  X(TanhGrad) \
  X(Sigmoid) \
  X(SigmoidGrad) \
  X(Exp) \
  X(Log) \
  X(Sqrt) \
  X(SqrtGrad) \
  X(Reciprocal) \
  X(Gelu) \
  X(GeluGrad) \
  X(Cast) \
  X(Matmul) \
  X(Linear) \
  X(LinearGradInput) \
  X(LinearGradWeight) \
  X(LinearGradInputGelu) \
  X(LinearGelu) \
  X(Softmax) \
  X(SoftmaxGrad) \
  X(Transpose) \
  X(Reshape) \
  X(BroadcastTo) \
  X(Slice) \
  X(Pad) \
  X(Concat) \
  X(Copy) \
  X(ReduceSum) \
  X(ReduceMean) \
  X(ReduceMax) \
  X(Accumulate) \
  X(Lerp) \
  X(Ema) \
  X(SumSquares) \
  X(SumPartials) \
  X(ClipFactor) \
  X(Sgd) \
  X(Adam) \
  X(AdamW) \
  X(Lion) \
  X(LambMoments) \
  X(LambStep) \
  X(Adafactor) \
  X(MuonMomentum) \
  X(DecayedStep) \
  X(Dropout) \
  X(Conv2d) \
  X(Conv2dGradInput) \
  X(Conv2dGradWeight) \
  X(BatchNorm) \
  X(BatchNormGrad) \
  X(UnbiasedVar) \
  X(LayerNorm) \
  X(LayerNormGradInput) \
  X(LayerNormGradWeight) \
  X(AddLayerNorm) \
  X(LayerNormGrad) \
  X(RmsNorm) \
  X(RmsNormGradInput) \
  X(RmsNormGradWeight) \
  X(MaxPool2d) \
  X(MaxPool2dGrad) \
  X(AvgPool2d) \
  X(AvgPool2dGrad) \
  X(CrossEntropy) \
  X(CrossEntropyGrad) \
  X(CountValid) \
  X(CountCorrect) \
  X(Embedding) \
  X(EmbeddingGrad) \
  X(Rope) \
  X(Attention) \
  X(AttentionGrad)
// clang-format on

#define OC_DECLARE(function) OpDef function();
OC_OPS(OC_DECLARE)
#undef OC_DECLARE

std::vector<OpDef> All() {
  std::vector<OpDef> all;
#define OC_LIST(function) all.push_back(function());
  OC_OPS(OC_LIST)
#undef OC_LIST
  return all;
}

}  // namespace ops

std::unique_ptr<OpRegistry> NewRegistryWithBuiltinOps() {
  auto registry = std::make_unique<OpRegistry>();
  for (OpDef& def : ops::All()) {
    const std::string name = def.name;
    const Status status = registry->Add(std::move(def));
    OC_CHECK(status.ok(), name, ": ", status.ToString());
  }
  return registry;
}

std::shared_ptr<const OpRegistry> BuiltinOps() {
  // Built once and never changed: not state.
  static const std::shared_ptr<const OpRegistry> registry = NewRegistryWithBuiltinOps();
  return registry;
}

}  // namespace oc
