// Optimizers: each alone, and as a list of tensors of unlike shapes.
#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

const std::vector<Shape> kShapes = {{0}, {1}, {7}, {33}, {3, 5}, {129, 517}};
const std::vector<Shape> kList = {{33}, {3, 5}, {0}, {70001}, {1}};
const std::vector<DType> kWide = {DType::kF32, DType::kF64};

Input Scalar(double value) { return Constant({}, value).As(DType::kF32); }

// What one tensor brings: p, g and states.
using Operands = std::function<std::vector<Input>(const Shape& shape)>;

constexpr size_t kNoGradient = 100;

// The op on tensors of each shape, on a list of tensors, and with a gradient (operand `gradient`)
// that is narrower than p. The shared scalars come last.
void AddCases(std::vector<OpCase>& cases, const std::string& op, const std::string& name,
              const Attributes& attrs, const Operands& operands, const std::vector<Input>& shared,
              size_t gradient = 1) {
  const auto add = [&](const std::string& what, std::vector<Input> inputs,
                       const std::vector<DType>& dtypes) {
    inputs.insert(inputs.end(), shared.begin(), shared.end());
    cases.push_back({.op = op,
                     .name = absl::StrCat(what, name.empty() ? "" : " ", name),
                     .inputs = std::move(inputs),
                     .attrs = attrs,
                     .dtypes = dtypes});
  };
  for (const Shape& shape : kShapes) add(shape.ToString(), operands(shape), kWide);
  std::vector<Input> list;
  for (const Shape& shape : kList) {
    const std::vector<Input> one = operands(shape);
    list.insert(list.end(), one.begin(), one.end());
  }
  add("list", std::move(list), kF32Only);
  if (gradient == kNoGradient) return;
  std::vector<Input> narrow = operands({129});
  narrow[gradient] = narrow[gradient].As(DType::kBF16);
  add("bf16 gradient", std::move(narrow), kF32Only);
}

void AddSgd(std::vector<OpCase>& cases) {
  for (double decay : {0.0, 0.1}) {
    const std::string name = absl::StrCat("decay ", decay);
    AddCases(cases, "sgd", name, {{"weight_decay", decay}},
             [](const Shape& s) {
               return std::vector<Input>{Normal(s), Normal(s)};
             },
             {Scalar(0.1), Scalar(0.5)});
    for (bool nesterov : {false, true}) {
      AddCases(cases, "sgd", absl::StrCat(name, nesterov ? " nesterov" : " momentum"),
               {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", decay}},
               [](const Shape& s) {
                 return std::vector<Input>{Normal(s), Normal(s), Normal(s)};
               },
               {Scalar(0.1), Scalar(0.5)});
    }
  }
  AddCases(cases, "sgd", "clipped", {{"clip_value", 0.2}, {"lr_scale", 0.5}},
           [](const Shape& s) {
             return std::vector<Input>{Normal(s), Normal(s)};
           },
           {Scalar(0.1), Scalar(0.5)});
}

std::vector<Input> WithMoments(const Shape& s) {
  return {Normal(s), Normal(s), Normal(s), Uniform(s, 0.1, 1)};
}

void AddAdam(std::vector<OpCase>& cases) {
  for (const char* op : {"adam", "adamw"}) {
    for (double step : {1.0, 100.0}) {
      AddCases(cases, op, absl::StrCat("step ", step),
               {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}}, WithMoments,
               {Scalar(1e-2), Scalar(step), Scalar(0.7)});
    }
    AddCases(cases, op, "clipped", {{"weight_decay", 0.1}, {"clip_value", 0.3}, {"lr_scale", 0.25}},
             WithMoments, {Scalar(1e-2), Scalar(3), Scalar(0.7)});
    cases.push_back({.op = op,
                     .name = "from nothing",
                     .inputs = {Normal({65}), Normal({65}), Constant({65}, 0), Constant({65}, 0),
                                Scalar(1e-2), Scalar(1), Scalar(1)},
                     .dtypes = kWide});
  }
}

void AddLion(std::vector<OpCase>& cases) {
  AddCases(cases, "lion", "", {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}},
           [](const Shape& s) {
             return std::vector<Input>{Normal(s), Normal(s), Normal(s)};
           },
           {Scalar(1e-2), Scalar(0.7)});
  AddCases(cases, "lion", "clipped", {{"clip_value", 0.3}, {"lr_scale", 3.0}},
           [](const Shape& s) {
             return std::vector<Input>{Normal(s), Normal(s), Normal(s)};
           },
           {Scalar(1e-2), Scalar(0.7)});
  // Where nothing pulls, nothing moves but the decay.
  cases.push_back(
      {.op = "lion",
       .name = "from nothing",
       .inputs = {Normal({65}), Constant({65}, 0), Constant({65}, 0), Scalar(1e-2), Scalar(1)},
       .attrs = {{"weight_decay", 0.1}},
       .dtypes = kWide});
}

void AddLamb(std::vector<OpCase>& cases) {
  const auto sums = [](const Shape& s) {
    const int64_t chunks = (s.num_elements() + 65535) / 65536;
    return Uniform({chunks}, 0.5, 2).As(DType::kF32);
  };
  for (double decay : {0.0, 0.1}) {
    const std::string name = absl::StrCat("decay ", decay);
    AddCases(cases, "lamb_moments", name, {{"weight_decay", decay}, {"beta2", 0.95}}, WithMoments,
             {Scalar(3), Scalar(0.7)});
    AddCases(
        cases, "lamb_step", name, {{"weight_decay", decay}, {"lr_scale", 0.5}},
        [&](const Shape& s) {
          return std::vector<Input>{Normal(s), Normal(s), Uniform(s, 0.1, 1), sums(s), sums(s)};
        },
        {Scalar(1e-2), Scalar(3)}, kNoGradient);
  }
  AddCases(cases, "lamb_moments", "clipped", {{"clip_value", 0.3}}, WithMoments,
           {Scalar(1), Scalar(0.7)});
  for (const auto& [p, u] : {std::pair{0.0, 1.0}, {1.0, 0.0}, {0.0, 0.0}}) {
    cases.push_back({.op = "lamb_step",
                     .name = absl::StrCat("norms ", p, " ", u),
                     .inputs = {Normal({7}), Normal({7}), Uniform({7}, 0.1, 1),
                                Constant({1}, p).As(DType::kF32), Constant({1}, u).As(DType::kF32),
                                Scalar(1e-2), Scalar(1)},
                     .dtypes = kWide});
  }
}

void AddAdafactor(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, std::vector<Input> inputs, Attributes attrs,
                       double step, const std::vector<DType>& dtypes) {
    inputs.insert(inputs.end(), {Scalar(1e-2), Scalar(step), Scalar(0.7)});
    cases.push_back({.op = "adafactor",
                     .name = absl::StrCat(name, " step ", step),
                     .inputs = std::move(inputs),
                     .attrs = std::move(attrs),
                     .dtypes = dtypes});
  };
  const auto factored = [](const Shape& s) {
    Shape rows = s, columns = s;
    rows[-1] = Dim(1);
    columns[-2] = Dim(1);
    return std::vector<Input>{Normal(s), Normal(s), Uniform(rows, 0.1, 1),
                              Uniform(columns, 0.1, 1)};
  };
  const auto whole = [](const Shape& s) {
    return std::vector<Input>{Normal(s), Normal(s), Uniform(s, 0.1, 1)};
  };
  const Attributes decay = {{"weight_decay", 0.1}, {"d", 0.5}, {"lr_scale", 0.5}};
  for (double step : {1.0, 100.0}) {
    for (const Shape& s :
         {Shape{1, 1}, Shape{3, 5}, Shape{129, 517}, Shape{2, 70001}, Shape{5, 3, 4, 7}}) {
      add(s.ToString(), factored(s), decay, step, kWide);
    }
    for (const Shape& s : {Shape{}, Shape{1}, Shape{33}, Shape{70001}}) {
      Attributes attrs = decay;
      attrs.Set("factored", false);
      add("whole " + s.ToString(), whole(s), attrs, step, kWide);
    }
  }
  std::vector<Input> list = factored({3, 5});
  for (const Input& i : factored({33, 2})) list.push_back(i);
  add("list", list, {{"clip_value", 0.3}}, 2, kF32Only);
  std::vector<Input> narrow = factored({12, 40});
  narrow[1] = narrow[1].As(DType::kBF16);
  add("bf16 gradient", narrow, {}, 2, kF32Only);
}

void AddMuon(std::vector<OpCase>& cases) {
  for (bool nesterov : {false, true}) {
    AddCases(
        cases, "muon_momentum", nesterov ? "nesterov" : "",
        {{"momentum", 0.9}, {"nesterov", nesterov}},
        [](const Shape& s) {
          return std::vector<Input>{Normal(s), Normal(s)};
        },
        {Scalar(0.7)}, /*gradient=*/0);
  }
  AddCases(
      cases, "muon_momentum", "clipped", {{"clip_value", 0.3}},
      [](const Shape& s) {
        return std::vector<Input>{Normal(s), Normal(s)};
      },
      {Scalar(0.7)},
      /*gradient=*/0);
  AddCases(cases, "decayed_step", "", {{"factor", 1.5}, {"weight_decay", 0.1}, {"lr_scale", 0.5}},
           [](const Shape& s) {
             return std::vector<Input>{Normal(s), Normal(s)};
           },
           {Scalar(1e-2)});
}

}  // namespace

std::vector<OpCase> OptimizerCases() {
  std::vector<OpCase> cases;
  AddSgd(cases);
  AddAdam(cases);
  AddLion(cases);
  AddLamb(cases);
  AddAdafactor(cases);
  AddMuon(cases);
  return cases;
}

}  // namespace oc::parity
