#include <cmath>

#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/modules.h"

namespace oc::models {
namespace {

const Initializer kWeights = Initializer::Normal(0, 0.02);
const Initializer kBiases = Initializer::Constant(0);

Status Check(const Gpt2Options& o) {
  for (const auto& [what, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"layers", o.layers},
                                                              {"width", o.width},
                                                              {"heads", o.heads},
                                                              {"context", o.context},
                                                              {"vocabulary", o.vocabulary}}) {
    OC_RETURN_IF_ERROR(ExpectPositive("gpt2", what, value));
  }
  if (o.width % o.heads == 0) return OkStatus();
  return InvalidArgument("build gpt2: width ", o.width, " is no multiple of heads ", o.heads);
}

// Each block adds twice to the residual stream, whose variance would grow with the depth.
Initializer ResidualWeights(int64_t layers) {
  return Initializer::Normal(0, 0.02 / std::sqrt(2.0 * static_cast<double>(layers)));
}

nn::Module Block(const Gpt2Options& options) {
  const Initializer residual = ResidualWeights(options.layers);
  const nn::Attention attention = {.name = "attn",
                                   .heads = options.heads,
                                   .dropout = options.dropout,
                                   .weight_init = kWeights,
                                   .projection_init = residual,
                                   .bias_init = kBiases,
                                   .qkv_name = "c_attn",
                                   .projection_name = "c_proj"};
  const nn::Mlp mlp = {.name = "mlp",
                       .hidden = 4 * options.width,
                       .activation = nn::Activation::kGeluTanh,
                       .dropout = options.dropout,
                       .weight_init = kWeights,
                       .projection_init = residual,
                       .bias_init = kBiases,
                       .up_name = "c_fc",
                       .down_name = "c_proj"};
  return nn::Sequential{"",
                        {nn::Residual(nn::Sequential{"", {nn::LayerNorm{"ln_1"}, attention}}),
                         nn::Residual(nn::Sequential{"", {nn::LayerNorm{"ln_2"}, mlp}})}};
}

}  // namespace

StatusOr<Graph> Gpt2(const Gpt2Options& options) {
  OC_RETURN_IF_ERROR(Check(options));
  GraphBuilder b("gpt2");
  const nn::Embedding wte = {"transformer.wte", options.vocabulary, options.width, kWeights};
  Val x = wte(b, Tokens(b, options.context));
  {
    const nn::ScopeGuard scope(b, "transformer");
    const Val wpe =
        b.Parameter("wpe.weight", {DType::kF32, {options.context, options.width}}, kWeights);
    x = nn::Dropout{options.dropout}(b, b.Add(x, wpe));
    const nn::Module block = Block(options);
    for (int64_t layer = 0; layer < options.layers; ++layer) {
      const nn::ScopeGuard h(b, absl::StrCat("h.", layer));
      x = options.checkpoint ? nn::Checkpoint(block)(b, x) : block(b, x);
    }
    x = nn::LayerNorm{"ln_f"}(b, x);
  }
  const Val weight = wte.Weight(b);
  const nn::ScopeGuard scope(b, "lm_head");
  LanguageHead(b, b.Linear(x, weight));
  return b.Finish();
}

}  // namespace oc::models
