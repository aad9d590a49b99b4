// Norms of rows, cross-entropy, embeddings, rotary positions and attention.
#include <cmath>

#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

// Replaces inputs[to + i] by output `first + i` of `op` on the inputs named.
std::function<Status(OpRunner&, std::vector<Tensor>&)> SavedBy(const std::string& op,
                                                               const Attributes& attrs,
                                                               std::vector<size_t> from,
                                                               size_t first, size_t to) {
  return [=](OpRunner& reference, std::vector<Tensor>& inputs) -> Status {
    std::vector<Tensor> arguments;
    for (size_t i : from) arguments.push_back(inputs[i]);
    OC_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, reference.Run(op, attrs, arguments));
    for (size_t i = first; i < outputs.size(); ++i) inputs[to + i - first] = outputs[i];
    return OkStatus();
  };
}

Shape WithoutLast(const Shape& shape) {
  std::vector<Dim> dims = shape.dims();
  dims.pop_back();
  return Shape(std::move(dims));
}

const std::vector<Shape> kRows = {{4},        {1, 1},    {3, 5},      {2, 3, 17},
                                  {7, 8, 33}, {65, 257}, {2, 5, 768}, {1, 1000},
                                  {3, 2048},  {2, 5120}, {4500, 32}};

void AddLayerNorm(std::vector<OpCase>& cases) {
  for (const Shape& shape : kRows) {
    const std::string name = shape.ToString();
    const Shape c = {shape[-1]}, rows = WithoutLast(shape);
    const Attributes attrs = {{"eps", 1e-3}};
    const Input x = Normal(shape, 0.5, 2), gamma = Uniform(c, 0.5, 1.5), beta = Normal(c);
    cases.push_back({.op = "layer_norm", .name = name, .inputs = {x, gamma, beta}, .attrs = attrs});
    cases.push_back(
        {.op = "layer_norm", .name = name + " without beta", .inputs = {x, gamma}, .attrs = attrs});
    cases.push_back({.op = "layer_norm", .name = name + " plain", .inputs = {x}, .attrs = attrs});
    const Input dy = Normal(shape), mean = Normal(rows), rstd = Normal(rows);
    cases.push_back({.op = "layer_norm_grad_input",
                     .name = name,
                     .inputs = {dy, x, gamma, mean, rstd},
                     .prepare = SavedBy("layer_norm", attrs, {1, 2}, 1, 3)});
    cases.push_back({.op = "layer_norm_grad_input",
                     .name = name + " plain",
                     .inputs = {dy, x, mean, rstd},
                     .prepare = SavedBy("layer_norm", attrs, {1}, 1, 2)});
    cases.push_back({.op = "layer_norm_grad_weight",
                     .name = name,
                     .inputs = {dy, x, mean, rstd},
                     .prepare = SavedBy("layer_norm", attrs, {1}, 1, 2)});
    cases.push_back({.op = "add_layer_norm",
                     .name = name,
                     .inputs = {x, Normal(shape), gamma, beta},
                     .attrs = attrs,
                     .gradient = false});
    cases.push_back({.op = "layer_norm_grad",
                     .name = name,
                     .inputs = {dy, x, gamma, mean, rstd},
                     .prepare = SavedBy("layer_norm", attrs, {1, 2}, 1, 3)});
    cases.push_back({.op = "layer_norm_grad",
                     .name = name + " and another gradient",
                     .inputs = {dy, x, gamma, mean, rstd, Normal(shape)},
                     .prepare = SavedBy("layer_norm", attrs, {1, 2}, 1, 3)});
  }
  // A mean far from zero: a variance taken as E[x^2] - E[x]^2 would be lost.
  cases.push_back({.op = "layer_norm",
                   .name = "far from zero",
                   .inputs = {Normal({5, 64}, 1000, 1)},
                   .dtypes = {DType::kF32, DType::kF64},
                   .tolerance = 20,
                   .gradient = false});
}

void AddRmsNorm(std::vector<OpCase>& cases) {
  for (const Shape& shape : kRows) {
    const std::string name = shape.ToString();
    const Shape c = {shape[-1]};
    const Attributes attrs = {{"eps", 1e-3}};
    const Input x = Normal(shape, 0.5, 2), gamma = Uniform(c, 0.5, 1.5), dy = Normal(shape);
    const Input rstd = Normal(WithoutLast(shape));
    // A row of one is its sign, but for eps: what the gradient cancels to.
    const double backward_tolerance = c[0].size() == 1 ? 100 : 1;
    cases.push_back({.op = "rms_norm",
                     .name = name,
                     .inputs = {x, gamma},
                     .attrs = attrs,
                     .backward_tolerance = backward_tolerance});
    cases.push_back({.op = "rms_norm_grad_input",
                     .name = name,
                     .inputs = {dy, x, gamma, rstd},
                     .prepare = SavedBy("rms_norm", attrs, {1, 2}, 1, 3)});
    cases.push_back(
        {.op = "rms_norm_grad_weight",
         .name = name,
         .inputs = {dy, x, rstd},
         .prepare = [attrs](OpRunner& reference, std::vector<Tensor>& inputs) -> Status {
           Tensor gamma({inputs[1].dtype(), {inputs[1].shape()[-1]}});
           OC_ASSIGN_OR_RETURN(std::vector<Tensor> y,
                               reference.Run("rms_norm", attrs, {inputs[1], gamma}));
           inputs[2] = y[1];
           return OkStatus();
         }});
  }
}

struct Classes {
  std::string name;
  Shape logits;
  Input labels;
  int64_t ignore_index = -1;
};

std::vector<Classes> ClassCases() {
  const auto labels = [](const Shape& logits, int64_t low) {
    return Integers(WithoutLast(logits), low, logits[-1].size() - 1);
  };
  std::vector<Classes> list;
  for (const Shape& s : {Shape{3}, Shape{1, 1}, Shape{5, 10}, Shape{2, 3, 17}, Shape{33, 257},
                         Shape{2, 5, 1000}, Shape{7, 50257}}) {
    list.push_back({s.ToString(), s, labels(s, 0)});
    list.push_back({s.ToString() + " some ignored", s, labels(s, -1)});
  }
  list.push_back({"all ignored", {4, 9}, Constant({4}, -1).As(DType::kI32)});
  list.push_back({"another index ignored", {32, 5}, labels({32, 5}, 0), 2});
  list.push_back({"ignored index beyond the classes",
                  {3, 5},
                  Values({3}, {4, -100, 0}).As(DType::kI32),
                  -100});
  return list;
}

void AddCrossEntropy(std::vector<OpCase>& cases) {
  for (const Classes& c : ClassCases()) {
    const Attributes attrs = {{"ignore_index", c.ignore_index}};
    const Input logits = Normal(c.logits, 0, 3), rows = Normal(WithoutLast(c.logits));
    cases.push_back(
        {.op = "cross_entropy", .name = c.name, .inputs = {logits, c.labels}, .attrs = attrs});
    cases.push_back({.op = "cross_entropy_grad",
                     .name = c.name,
                     .inputs = {Uniform({}, 0.1, 0.9).As(DType::kF32), logits, c.labels, rows},
                     .attrs = attrs,
                     .prepare = SavedBy("cross_entropy", attrs, {1, 2}, 1, 3)});
    cases.push_back({.op = "count_correct",
                     .name = c.name,
                     .inputs = {Whole(c.logits, 0, 4), c.labels},
                     .attrs = attrs});
    cases.push_back({.op = "count_valid",
                     .name = c.name,
                     .inputs = {c.labels},
                     .attrs = attrs,
                     .dtypes = kF32Only});
  }
  cases.push_back({.op = "cross_entropy",
                   .name = "large logits",
                   .inputs = {Values({2, 4}, {3e4, 3e4, -3e4, 0, -3e4, -3e4, -3e4, -3e4}),
                              Values({2}, {2, 0}).As(DType::kI32)},
                   .gradient = false});
  for (int32_t bad : {5, 17, -2}) {
    const Input labels = Values({3}, {4, static_cast<double>(bad), -1}).As(DType::kI32);
    const std::string name = absl::StrCat("label ", bad);
    cases.push_back({.op = "cross_entropy",
                     .name = name,
                     .inputs = {Normal({3, 5}), labels},
                     .error = absl::StatusCode::kOutOfRange});
    cases.push_back(
        {.op = "cross_entropy_grad",
         .name = name,
         .inputs = {Constant({}, 1).As(DType::kF32), Normal({3, 5}), labels, Normal({3})},
         .dtypes = kF32Only,
         .error = absl::StatusCode::kOutOfRange});
    cases.push_back({.op = "count_correct",
                     .name = name,
                     .inputs = {Normal({3, 5}), labels},
                     .error = absl::StatusCode::kOutOfRange});
  }
}

void AddEmbedding(std::vector<OpCase>& cases) {
  struct Table {
    Shape ids, table;
  };
  for (const auto& [ids, table] :
       {Table{{}, {1, 1}}, Table{{1}, {3, 5}}, Table{{2, 3}, {7, 5}}, Table{{40}, {3, 33}},
        Table{{4, 17}, {257, 64}}, Table{{2, 3, 4}, {11, 1}}, Table{{0}, {3, 4}},
        Table{{5, 9}, {1000, 7}}, Table{{3000}, {300, 8}}, Table{{500}, {2, 16}}}) {
    const std::string name = absl::StrCat(ids.ToString(), " of ", table.ToString());
    const int64_t vocabulary = table[0].size();
    std::vector<Dim> rows = ids.dims();
    rows.push_back(table[1]);
    const Input tokens = Integers(ids, 0, vocabulary - 1);
    cases.push_back({.op = "embedding", .name = name, .inputs = {tokens, Normal(table)}});
    cases.push_back({.op = "embedding_grad",
                     .name = name,
                     .inputs = {Normal(Shape(rows)), tokens},
                     .attrs = {{"vocabulary", vocabulary}}});
  }
  for (int32_t bad : {-1, 7, 100000}) {
    const Input ids = Values({3}, {6, static_cast<double>(bad), 0}).As(DType::kI32);
    const std::string name = absl::StrCat("id ", bad);
    cases.push_back({.op = "embedding",
                     .name = name,
                     .inputs = {ids, Normal({7, 4})},
                     .error = absl::StatusCode::kOutOfRange});
    cases.push_back({.op = "embedding_grad",
                     .name = name,
                     .inputs = {Normal({3, 4}), ids},
                     .attrs = {{"vocabulary", int64_t{7}}},
                     .error = absl::StatusCode::kOutOfRange});
  }
}

struct Heads {
  int64_t batch, time, heads, kv_heads, width;

  Shape packed() const { return {batch, time, (heads + 2 * kv_heads) * width}; }
  std::string name() const {
    return absl::StrCat(batch, "x", time, " ", heads, "/", kv_heads, " heads of ", width);
  }
};

const std::vector<Heads> kHeads = {
    {1, 1, 1, 1, 2},    {2, 1, 3, 3, 4},     {1, 2, 1, 1, 8},   {2, 5, 2, 2, 6},  {1, 7, 4, 2, 10},
    {2, 9, 6, 1, 16},   {1, 17, 8, 4, 32},   {1, 33, 2, 2, 64}, {2, 65, 1, 1, 8}, {1, 70, 3, 1, 34},
    {1, 200, 4, 2, 64}, {1, 150, 1, 1, 128}, {1, 70, 1, 1, 256}};

void AddRope(std::vector<OpCase>& cases) {
  for (const Heads& h : kHeads) {
    for (bool inverse : {false, true}) {
      cases.push_back(
          {.op = "rope",
           .name = absl::StrCat(h.name(), inverse ? " inverse" : ""),
           .inputs = {Normal(h.packed())},
           .attrs = {{"heads", h.heads}, {"kv_heads", h.kv_heads}, {"inverse", inverse}}});
    }
  }
  cases.push_back({.op = "rope",
                   .name = "another base",
                   .inputs = {Normal({2, 9, 24})},
                   .attrs = {{"heads", int64_t{4}}, {"kv_heads", int64_t{1}}, {"base", 500.0}}});
}

void AddAttention(std::vector<OpCase>& cases) {
  for (const Heads& h : kHeads) {
    for (bool causal : {true, false}) {
      for (double scale : {0.0, 0.7}) {
        const Attributes attrs = {
            {"heads", h.heads}, {"kv_heads", h.kv_heads}, {"causal", causal}, {"scale", scale}};
        const std::string name =
            absl::StrCat(h.name(), causal ? "" : " both ways", scale != 0 ? " scaled" : "");
        const Input qkv = Normal(h.packed());
        const Shape y = {h.batch, h.time, h.heads * h.width}, lse = {h.batch, h.heads, h.time};
        cases.push_back({.op = "attention", .name = name, .inputs = {qkv}, .attrs = attrs});
        cases.push_back({.op = "attention_grad",
                         .name = name,
                         .inputs = {Normal(y), qkv, Normal(y), Normal(lse)},
                         .attrs = attrs,
                         .prepare = SavedBy("attention", attrs, {1}, 0, 2)});
      }
    }
  }
  // Scores far apart: without the largest subtracted, their exponentials are infinite.
  cases.push_back({.op = "attention",
                   .name = "large scores",
                   .inputs = {Normal({1, 9, 24}, 0, 12)},
                   .attrs = {{"heads", int64_t{2}}},
                   .tolerance = 20,
                   .gradient = false});
}

}  // namespace

std::vector<OpCase> SequenceCases() {
  std::vector<OpCase> cases;
  AddLayerNorm(cases);
  AddRmsNorm(cases);
  AddCrossEntropy(cases);
  AddEmbedding(cases);
  AddRope(cases);
  AddAttention(cases);
  return cases;
}

}  // namespace oc::parity
