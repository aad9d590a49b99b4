#include "openclaw/graph/modules.h"

#include <cmath>

namespace oc::nn {
namespace {

// Kaiming's uniform distribution with slope sqrt(5), PyTorch's default: within 1 / sqrt(fan_in).
Initializer WithinFanIn(int64_t fan_in) {
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
  return Initializer::Uniform(-bound, bound);
}

// The size of the last axis, which parameters depend on; an error where it is not known.
int64_t Width(GraphBuilder& b, Val x, const char* module) {
  const Shape& shape = b.shape(x);
  if (shape.rank() < 1 || !shape[-1].bound()) {
    b.Fail(InvalidArgument(module, " ", b.Qualified("weight"), " is given ", b.type(x).ToString(),
                           ": its last dimension must be a known number"));
    return 0;
  }
  return shape[-1].size();
}

Shape WithoutLast(const Shape& shape) {
  std::vector<Dim> dims = shape.dims();
  dims.pop_back();
  return Shape(std::move(dims));
}

std::vector<int64_t> Twice(int64_t v) { return {v, v}; }
std::vector<int64_t> FourTimes(int64_t v) { return {v, v, v, v}; }

}  // namespace

Val Linear::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const int64_t inputs = Width(b, x, "linear");
  if (!b.status().ok()) return {};
  const DType dtype = b.type(x).dtype;
  const Initializer init = WithinFanIn(inputs);
  const Val weight = b.Parameter("weight", {dtype, {outputs, inputs}}, weight_init.value_or(init));
  Val offset;
  if (bias) {
    offset = b.Parameter("bias", {dtype, {outputs}}, bias_init.value_or(init), /*decay=*/false);
  }
  return b.Linear(x, weight, offset);
}

Val Conv2d::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const int64_t inputs = Width(b, x, "conv2d");
  if (!b.status().ok()) return {};
  if (groups < 1 || inputs % groups != 0) {
    b.Fail(InvalidArgument("conv2d ", b.Qualified("weight"), ": ", inputs,
                           " input channels are no multiple of ", groups, " groups"));
    return {};
  }
  const DType dtype = b.type(x).dtype;
  const Initializer init = WithinFanIn(inputs / groups * kernel * kernel);
  std::vector<Val> operands = {
      x, b.Parameter("weight", {dtype, {channels, inputs / groups, kernel, kernel}},
                     weight_init.value_or(init))};
  if (bias) operands.push_back(b.Parameter("bias", {dtype, {channels}}, init, /*decay=*/false));
  return b.Op("conv2d", operands,
              {{"stride", Twice(stride)},
               {"padding", FourTimes(padding)},
               {"dilation", Twice(dilation)},
               {"groups", groups}});
}

Val BatchNorm2d::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const int64_t channels = Width(b, x, "batch norm");
  if (!b.status().ok()) return {};
  const DType dtype = b.type(x).dtype;
  const TensorType statistics = {dtype == DType::kF64 ? DType::kF64 : DType::kF32, {channels}};
  const Shape rows = WithoutLast(b.shape(x));
  const Val gamma = b.Parameter("weight", {dtype, {channels}}, Initializer::Constant(1), false);
  const Val beta = b.Parameter("bias", {dtype, {channels}}, Initializer::Constant(0), false);
  const Val running_mean = b.State("running_mean", statistics, Initializer::Constant(0));
  const Val running_var = b.State("running_var", statistics, Initializer::Constant(1));
  const std::vector<Val> y = b.OpN("batch_norm", {x, gamma, beta, running_mean, running_var},
                                   {{"eps", eps}, {"training", true}});
  if (!b.status().ok()) return {};
  b.MeanIntoState(running_mean, y[1], momentum);
  b.MeanIntoState(running_var, b.Op("unbiased_var", {y[2]}, {{"rows", rows}}), momentum);
  return y[0];
}

Val LayerNorm::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const TensorType type = {b.type(x).dtype, {Width(b, x, "layer norm")}};
  if (!b.status().ok()) return {};
  const Val gamma = b.Parameter("weight", type, Initializer::Constant(1), /*decay=*/false);
  const Val beta = b.Parameter("bias", type, Initializer::Constant(0), /*decay=*/false);
  return b.Op("layer_norm", {x, gamma, beta}, {{"eps", eps}});
}

Val RmsNorm::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const TensorType type = {b.type(x).dtype, {Width(b, x, "rms norm")}};
  if (!b.status().ok()) return {};
  const Val gamma = b.Parameter("weight", type, Initializer::Constant(1), /*decay=*/false);
  return b.Op("rms_norm", {x, gamma}, {{"eps", eps}});
}

Val Embedding::Weight(GraphBuilder& b) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  return b.Parameter("weight", {DType::kF32, {rows, width}},
                     weight_init.value_or(Initializer::Normal(0, 1)));
}

Val Embedding::operator()(GraphBuilder& b, Val ids) const {
  const Val weight = Weight(b);
  const ScopeGuard scope(b, name);
  return b.Op("embedding", {ids, weight});
}

Val Attention::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const int64_t width = Width(b, x, "attention");
  if (!b.status().ok()) return {};
  const int64_t shared = kv_heads == 0 ? heads : kv_heads;
  if (heads < 1 || shared < 1 || width % heads != 0 || heads % shared != 0) {
    b.Fail(InvalidArgument("attention ", b.Qualified(qkv_name), ": width ", width,
                           " must be a multiple of heads ", heads, ", and heads of kv_heads ",
                           shared));
    return {};
  }
  const int64_t packed = (heads + 2 * shared) * (width / heads);
  Val qkv = Linear{qkv_name, packed, bias, weight_init, bias_init}(b, x);
  if (rope_base != 0) {
    qkv = b.Op("rope", {qkv}, {{"heads", heads}, {"kv_heads", shared}, {"base", rope_base}});
  }
  const Val y =
      b.Op("attention", {qkv}, {{"heads", heads}, {"kv_heads", shared}, {"causal", causal}});
  const Linear projection = {projection_name, width, bias,
                             projection_init ? projection_init : weight_init, bias_init};
  return Dropout{dropout}(b, projection(b, y));
}

Val Activate(GraphBuilder& b, Val x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return b.Relu(x);
    case Activation::kGelu:
      return b.Op("gelu", {x}, {{"approximate", std::string("none")}});
    case Activation::kGeluTanh:
      return b.Op("gelu", {x}, {{"approximate", std::string("tanh")}});
    case Activation::kSilu:
      return b.Op("silu", {x});
    case Activation::kTanh:
      return b.Op("tanh", {x});
    case Activation::kSigmoid:
      return b.Op("sigmoid", {x});
  }
  return {};
}

Val Mlp::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const ScopeGuard scope(b, name);
  const int64_t width = Width(b, x, "mlp");
  if (!b.status().ok()) return {};
  const Linear up = {up_name, hidden, bias, weight_init, bias_init};
  Val h;
  if (gated) {
    const Linear gate = {gate_name, hidden, bias, weight_init, bias_init};
    h = Activate(b, gate(b, x), activation);
    h = b.Mul(h, up(b, x));
  } else {
    h = Activate(b, up(b, x), activation);
  }
  const Linear down = {down_name, width, bias, projection_init ? projection_init : weight_init,
                       bias_init};
  return Dropout{dropout}(b, down(b, h));
}

Val Dropout::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  if (p == 0) return x;
  return b.Op("dropout", {x, b.Rng()}, {{"p", p}, {"stream", b.NextStream()}, {"training", true}});
}

Val MaxPool2d::operator()(GraphBuilder& b, Val x) const {
  return b.Op("max_pool2d", {x},
              {{"kernel", Twice(kernel)},
               {"stride", Twice(stride == 0 ? kernel : stride)},
               {"padding", FourTimes(padding)}});
}

Val AvgPool2d::operator()(GraphBuilder& b, Val x) const {
  return b.Op("avg_pool2d", {x},
              {{"kernel", Twice(kernel)},
               {"stride", Twice(stride == 0 ? kernel : stride)},
               {"padding", FourTimes(padding)},
               {"count_include_pad", count_include_pad}});
}

Val GlobalAvgPool::operator()(GraphBuilder& b, Val x) const {
  return b.Op("reduce_mean", {x}, {{"axes", std::vector<int64_t>{1, 2}}, {"keep_dims", false}});
}

Val Flatten::operator()(GraphBuilder& b, Val x) const {
  if (!b.status().ok()) return {};
  const Shape& shape = b.shape(x);
  if (shape.rank() < 1) {
    b.Fail(InvalidArgument("flatten is given ", b.type(x).ToString(), ", wants a batch dimension"));
    return {};
  }
  Dim rest(1);
  for (int i = 1; i < shape.rank(); ++i) rest = rest * shape[i];
  return b.Reshape(x, {shape[0], rest});
}

Val Sequential::operator()(GraphBuilder& b, Val x) const {
  const ScopeGuard scope(b, name);
  for (const Module& module : modules) {
    if (!b.status().ok()) return {};
    x = module(b, x);
  }
  return x;
}

Module Residual(Module module) {
  return [module = std::move(module)](GraphBuilder& b, Val x) { return b.Add(x, module(b, x)); };
}

Module Checkpoint(Module module) {
  return [module = std::move(module)](GraphBuilder& b, Val x) -> Val {
    if (!b.status().ok()) return {};
    if (b.in_checkpoint()) return module(b, x);
    b.BeginCheckpoint();
    const Val y = module(b, x);
    b.EndCheckpoint();
    return y;
  };
}

}  // namespace oc::nn
