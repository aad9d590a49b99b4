#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/modules.h"

namespace oc::models {
namespace {

const Initializer kWeights = Initializer::Normal(0, 0.02);

Status Check(const LlamaOptions& o) {
  for (const auto& [what, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"layers", o.layers},
                                                              {"width", o.width},
                                                              {"heads", o.heads},
                                                              {"kv_heads", o.kv_heads},
                                                              {"ffn", o.ffn},
                                                              {"context", o.context},
                                                              {"vocabulary", o.vocabulary}}) {
    OC_RETURN_IF_ERROR(ExpectPositive("llama", what, value));
  }
  if (o.width % o.heads != 0 || o.width / o.heads % 2 != 0) {
    return InvalidArgument("build llama: width ", o.width, " in ", o.heads,
                           " heads must give each an even number of elements");
  }
  if (o.heads % o.kv_heads != 0) {
    return InvalidArgument("build llama: heads ", o.heads, " is no multiple of kv_heads ",
                           o.kv_heads);
  }
  if (o.rope_base > 0) return OkStatus();
  return InvalidArgument("build llama: rope_base is ", o.rope_base, ", wants a positive number");
}

nn::Module Block(const LlamaOptions& options) {
  const nn::Attention attention = {.name = "self_attn",
                                   .heads = options.heads,
                                   .kv_heads = options.kv_heads,
                                   .rope_base = options.rope_base,
                                   .bias = false,
                                   .weight_init = kWeights,
                                   .qkv_name = "qkv_proj",
                                   .projection_name = "o_proj"};
  const nn::Mlp mlp = {.name = "mlp",
                       .hidden = options.ffn,
                       .activation = nn::Activation::kSilu,
                       .gated = true,
                       .bias = false,
                       .weight_init = kWeights,
                       .up_name = "up_proj",
                       .gate_name = "gate_proj",
                       .down_name = "down_proj"};
  return nn::Sequential{
      "",
      {nn::Residual(nn::Sequential{"", {nn::RmsNorm{"input_layernorm"}, attention}}),
       nn::Residual(nn::Sequential{"", {nn::RmsNorm{"post_attention_layernorm"}, mlp}})}};
}

}  // namespace

StatusOr<Graph> Llama(const LlamaOptions& given) {
  LlamaOptions options = given;
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.ffn == 0) options.ffn = (options.width * 8 / 3 + 255) / 256 * 256;
  OC_RETURN_IF_ERROR(Check(options));
  GraphBuilder b("llama");
  Val x = nn::Embedding{"model.embed_tokens", options.vocabulary, options.width, kWeights}(
      b, Tokens(b, options.context));
  const nn::Module block = Block(options);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const nn::ScopeGuard scope(b, absl::StrCat("model.layers.", layer));
    x = options.checkpoint ? nn::Checkpoint(block)(b, x) : block(b, x);
  }
  x = nn::RmsNorm{"model.norm"}(b, x);
  const nn::Linear head = {"lm_head", options.vocabulary, /*bias=*/false, kWeights};
  LanguageHead(b, head(b, x));
  return b.Finish();
}

}  // namespace oc::models
