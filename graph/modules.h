// Modules: the layers that models are built of. A module is a value with options; calling it adds
// its ops to a graph and declares its parameters under its name. Sizes of inputs are read off the
// input, so only outputs are given.
//
//   nn::Sequential mlp("mlp", {nn::Linear{"fc1", 512}, nn::Relu{}, nn::Dropout{0.1},
//                              nn::Checkpoint(nn::Linear{"fc2", 10})});
//   Val logits = mlp(b, b.Data("images", {DType::kF32, {Dim("B"), 784}}));
//
// Parameters: "mlp.fc1.weight" [512, 784], "mlp.fc1.bias" [512], ... Images are NHWC. Initial
// values are PyTorch's defaults unless given. A module with an empty name puts its parameters into
// the scope around it. After an error of the builder a module adds nothing and returns {}; the
// error comes with Finish.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/graph/builder.h"

namespace oc::nn {

// Anything callable so is a module, a lambda too.
using Module = std::function<Val(GraphBuilder&, Val)>;

// Pushes a scope for as long as it lives; none where the name is empty.
class ScopeGuard {
 public:
  ScopeGuard(GraphBuilder& b, const std::string& name) : b_(name.empty() ? nullptr : &b) {
    if (b_ != nullptr) b_->PushScope(name);
  }
  ~ScopeGuard() {
    if (b_ != nullptr) b_->PopScope();
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  GraphBuilder* b_;
};

// x[..., I] -> y[..., outputs]. weight [outputs, I] and bias: uniform within 1 / sqrt(I).
struct Linear {
  std::string name;
  int64_t outputs = 1;
  bool bias = true;
  std::optional<Initializer> weight_init = {};
  std::optional<Initializer> bias_init = {};
  Val operator()(GraphBuilder& b, Val x) const;
};

// x[B, H, W, I] -> y[B, H', W', channels]. weight [channels, I / groups, KH, KW] and bias: uniform
// within 1 / sqrt(I / groups * KH * KW).
struct Conv2d {
  std::string name;
  int64_t channels = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::optional<Initializer> weight_init = {};
  Val operator()(GraphBuilder& b, Val x) const;
};

// weight (1) and bias (0) [C]; states running_mean (0) and running_var (1), which take up the
// statistics of each step by running += momentum * (statistic - running), with the unbiased
// variance.
struct BatchNorm2d {
  std::string name;
  double eps = 1e-5;
  double momentum = 0.1;
  Val operator()(GraphBuilder& b, Val x) const;
};

// weight (1) and bias (0) [C].
struct LayerNorm {
  std::string name;
  double eps = 1e-5;
  Val operator()(GraphBuilder& b, Val x) const;
};

// weight (1) [C].
struct RmsNorm {
  std::string name;
  double eps = 1e-5;
  Val operator()(GraphBuilder& b, Val x) const;
};

// ids i32[...] -> [..., width]. weight [rows, width]: normal(0, 1).
struct Embedding {
  std::string name;
  int64_t rows = 1;
  int64_t width = 1;
  std::optional<Initializer> weight_init = {};
  Val operator()(GraphBuilder& b, Val ids) const;
  // The table, for a head that shares it.
  Val Weight(GraphBuilder& b) const;
};

// x[B, T, C] -> [B, T, C]: one Linear to queries, keys and values, rotary positions where rope_base
// is not 0, attention, and a Linear back, with dropout after it.
struct Attention {
  std::string name;
  int64_t heads = 1;
  int64_t kv_heads = 0;  // 0: as many as heads
  bool causal = true;
  double rope_base = 0;
  bool bias = true;
  double dropout = 0;
  std::optional<Initializer> weight_init = {};
  std::optional<Initializer> projection_init = {};
  std::optional<Initializer> bias_init = {};
  std::string qkv_name = "qkv";
  std::string projection_name = "proj";
  Val operator()(GraphBuilder& b, Val x) const;
};

enum class Activation { kRelu, kGelu, kGeluTanh, kSilu, kTanh, kSigmoid };
Val Activate(GraphBuilder& b, Val x, Activation activation);

// x[..., C] -> [..., C] by way of `hidden` columns, with dropout at the end. Gated: the activation
// of one Linear times another one (Shazeer, 2020; with silu it is SwiGLU).
struct Mlp {
  std::string name;
  int64_t hidden = 1;
  Activation activation = Activation::kGelu;
  bool gated = false;
  bool bias = true;
  double dropout = 0;
  std::optional<Initializer> weight_init = {};
  std::optional<Initializer> projection_init = {};
  std::optional<Initializer> bias_init = {};
  std::string up_name = "fc1";
  std::string gate_name = "gate";
  std::string down_name = "fc2";
  Val operator()(GraphBuilder& b, Val x) const;
};

// Keeps an element with probability 1 - p and scales it by 1 / (1 - p); the identity after
// training.
struct Dropout {
  double p = 0.5;
  Val operator()(GraphBuilder& b, Val x) const;
};

struct MaxPool2d {
  int64_t kernel = 2;
  int64_t stride = 0;  // 0: the kernel's
  int64_t padding = 0;
  Val operator()(GraphBuilder& b, Val x) const;
};

struct AvgPool2d {
  int64_t kernel = 2;
  int64_t stride = 0;  // 0: the kernel's
  int64_t padding = 0;
  bool count_include_pad = true;
  Val operator()(GraphBuilder& b, Val x) const;
};

// x[B, H, W, C] -> the mean over the image, [B, C].
struct GlobalAvgPool {
  Val operator()(GraphBuilder& b, Val x) const;
};

// x[B, ...] -> [B, the product of the rest].
struct Flatten {
  Val operator()(GraphBuilder& b, Val x) const;
};

struct Relu {
  Val operator()(GraphBuilder& b, Val x) const { return Activate(b, x, Activation::kRelu); }
};
struct Gelu {
  bool tanh = false;
  Val operator()(GraphBuilder& b, Val x) const {
    return Activate(b, x, tanh ? Activation::kGeluTanh : Activation::kGelu);
  }
};
struct Silu {
  Val operator()(GraphBuilder& b, Val x) const { return Activate(b, x, Activation::kSilu); }
};

// One after the other, in the scope `name`.
struct Sequential {
  std::string name;
  std::vector<Module> modules;
  Val operator()(GraphBuilder& b, Val x) const;
};

// x + module(x).
Module Residual(Module module);
// The module's activations may be computed again in backward instead of being kept
// (RecomputeMarked, passes.h). Regions do not nest: an inner mark has no effect.
Module Checkpoint(Module module);

}  // namespace oc::nn
