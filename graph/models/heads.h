// How the models here begin and end: the checks, inputs and losses that they share.
#pragma once

#include "openclaw/graph/builder.h"

namespace oc::models {

// kInvalidArgument "build MODEL: what is ..., wants at least 1".
Status ExpectPositive(const char* model, const char* what, int64_t value);
// "images" f32[B, ...input].
Val Images(GraphBuilder& b, const Shape& input);
// Output, loss and metric of logits[B, classes] against "labels".
void ClassifierHead(GraphBuilder& b, Val logits);
// "tokens" i32[B, context].
Val Tokens(GraphBuilder& b, int64_t context);
// Output and loss of logits[B, T, vocabulary] against "targets".
void LanguageHead(GraphBuilder& b, Val logits);

}  // namespace oc::models
