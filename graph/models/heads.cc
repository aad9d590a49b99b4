#include "openclaw/graph/models/heads.h"

#include "openclaw/graph/models/models.h"

namespace oc::models {
namespace {

// Cross-entropy over the valid labels of the shape that the logits have but for the last axis.
Val LossOverLabels(GraphBuilder& b, Val logits, const std::string& name) {
  std::vector<Dim> dims = b.shape(logits).dims();
  dims.pop_back();
  const Val labels = b.Data(name, {DType::kI32, Shape(std::move(dims))});
  const Attributes attrs = {{"ignore_index", int64_t{-1}}};
  b.Output("logits", logits);
  b.Loss(b.Op("cross_entropy", {logits, labels}, attrs), b.Op("count_valid", {labels}, attrs));
  return labels;
}

}  // namespace

Status ExpectPositive(const char* model, const char* what, int64_t value) {
  if (value >= 1) return OkStatus();
  return InvalidArgument("build ", model, ": ", what, " is ", value, ", wants at least 1");
}

Val Images(GraphBuilder& b, const Shape& input) {
  std::vector<Dim> dims = {Dim("B")};
  dims.insert(dims.end(), input.dims().begin(), input.dims().end());
  return b.Data("images", {DType::kF32, Shape(std::move(dims))});
}

void ClassifierHead(GraphBuilder& b, Val logits) {
  if (!b.status().ok()) return;
  const Val labels = LossOverLabels(b, logits, "labels");
  b.Metric("correct", b.Op("count_correct", {logits, labels}, {{"ignore_index", int64_t{-1}}}));
}

Val Tokens(GraphBuilder& b, int64_t context) {
  return b.Data("tokens", {DType::kI32, {Dim("B"), context}});
}

void LanguageHead(GraphBuilder& b, Val logits) {
  if (!b.status().ok()) return;
  LossOverLabels(b, logits, "targets");
}

int64_t NumParameters(const Graph& graph) {
  int64_t sum = 0;
  for (const Variable& p : graph.parameters) sum += graph.value(p.value).type.shape.num_elements();
  return sum;
}

}  // namespace oc::models
