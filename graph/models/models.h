// The product's models, as forward graphs with a loss. The batch dimension is "B".
//
//   OC_ASSIGN_OR_RETURN(Graph model, models::Gpt2({.layers = 4, .width = 256, .heads = 4}));
//   OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(model));
//
// Classifiers read "images" f32[B, H, W, C] and "labels" i32[B], and report the metric "correct";
// language models read "tokens" i32[B, T] and "targets" i32[B, T], T the context. Labels of -1
// count nothing. The output "logits" is f32[B, classes] or f32[B, T, vocabulary].
//
// Every function: kInvalidArgument where the options do not fit together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "openclaw/core/config.h"
#include "openclaw/graph/graph.h"

namespace oc::models {

// Linear layers with relu between them: "layers.<i>.weight", "layers.<i>.bias".
struct MlpOptions {
  Shape input = {28, 28, 1};  // of a sample; flattened
  std::vector<int64_t> hidden = {512, 512};
  int64_t classes = 10;
  double dropout = 0;  // after every hidden layer
};
StatusOr<Graph> Mlp(const MlpOptions& options);

// LeNet-5 (LeCun et al., 1998) as it is trained today: relu and max pools. "conv1", "conv2", "fc1",
// "fc2", "fc3".
struct LeNetOptions {
  Shape input = {28, 28, 1};
  int64_t classes = 10;
};
StatusOr<Graph> LeNet(const LeNetOptions& options);

// ResNet (He et al., 2015), names as torchvision's: "conv1.weight", "bn1.running_mean",
// "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "fc.weight", ... Of 50 layers on,
// bottlenecks with the stride in the 3x3 convolution. Blocks are marked for recomputation.
struct ResNetOptions {
  Shape input = {224, 224, 3};
  int64_t depth = 18;  // 18, 34, 50, 101, 152
  int64_t classes = 1000;
  std::string stem = "imagenet";  // 7x7 with stride 2 and a max pool; "small": 3x3 alone
  int64_t width = 64;             // channels of the first stage
  bool checkpoint = true;         // mark the blocks
};
StatusOr<Graph> ResNet(const ResNetOptions& options);

// GPT-2 (Radford et al., 2019), names as Hugging Face's, with linear weights [outputs, inputs]:
// "transformer.wte.weight" (also the head), "transformer.wpe.weight",
// "transformer.h.0.ln_1.weight", "transformer.h.0.attn.c_attn.weight",
// "transformer.h.0.mlp.c_fc.weight", "transformer.ln_f.weight". Dropout acts on the embeddings and
// on what each block adds, not on attention's probabilities.
struct Gpt2Options {
  int64_t layers = 12;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t context = 1024;
  int64_t vocabulary = 50257;
  double dropout = 0;
  bool checkpoint = true;  // mark the blocks
};
StatusOr<Graph> Gpt2(const Gpt2Options& options);

// Llama (Touvron et al., 2023): RMS norm, rotary positions, SwiGLU, no biases, a head of its own.
// Names as Hugging Face's, but for queries, keys and values in one matrix (rows in this order):
// "model.embed_tokens.weight", "model.layers.0.self_attn.qkv_proj.weight",
// "model.layers.0.mlp.gate_proj.weight", "model.norm.weight", "lm_head.weight".
struct LlamaOptions {
  int64_t layers = 22;
  int64_t width = 2048;
  int64_t heads = 32;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t ffn = 0;       // 0: 8/3 of the width, rounded up to a multiple of 256
  int64_t context = 2048;
  int64_t vocabulary = 32000;
  double rope_base = 10000;
  bool checkpoint = true;  // mark the blocks
};
StatusOr<Graph> Llama(const LlamaOptions& options);

// What a data set tells a model.
struct DataFeatures {
  std::map<std::string, TensorType>
      inputs;           // of a sample: "images" f32[28, 28, 1], "tokens" i32[64]
  int64_t classes = 0;  // 0: it does not know
  int64_t vocabulary = 0;
};

// The model that an experiment names, by `name` or `preset` (whose options other keys change).
// Classes and vocabulary are the data's where they are not given, and so is the size of images.
// kInvalidArgument, with what exists and the nearest: unknown names, keys that the model does not
// take; data of another kind, or with more classes or tokens than the model. Precondition:
// config.graph is empty.
StatusOr<Graph> BuildModel(const ModelConfig& config, const DataFeatures& data);
// The context that BuildModel will give a language model, for data to be opened with; 0 for others.
int64_t ContextOf(const ModelConfig& config);
// "gpt2-124m", ...: all presets.
std::vector<std::string> PresetNames();

// The number of elements of all parameters. Precondition: their shapes are bound.
int64_t NumParameters(const Graph& graph);

}  // namespace oc::models
