#include "openclaw/optim/muon.h"

#include <algorithm>
#include <cmath>

namespace oc {
namespace {

// f32[], summed over fixed chunks.
Val SquaredNorm(GraphBuilder& b, Val x) { return b.Op("sum_partials", {b.Op("sum_squares", {x})}); }

// x of norm one, or as much less as eps asks for.
Val Normalized(GraphBuilder& b, Val x, double eps) {
  const Val norm = b.Op("sqrt", {SquaredNorm(b, x)});
  const Val least = b.Scale(b.Cast(b.Op("less", {norm, norm}), DType::kF32), 0.0, eps);
  const Val bounded = b.Op("where", {b.Op("greater", {norm, least}), norm, least});
  return b.Div(x, b.Cast(bounded, b.type(x).dtype));
}

// The iteration on a matrix; products of the shorter side.
Val Orthogonalized(GraphBuilder& b, Val x, const Muon& muon) {
  const double a1 = muon.ns_coefficients[0], a3 = muon.ns_coefficients[1],
               a5 = muon.ns_coefficients[2];
  const bool tall = b.shape(x)[0].size() > b.shape(x)[1].size();
  for (int64_t i = 0; i < muon.ns_steps; ++i) {
    const Val gram = b.Matmul(x, x, /*transpose_a=*/tall, /*transpose_b=*/!tall);
    const Val factor = b.Add(b.Scale(gram, a3), b.Scale(b.Matmul(gram, gram), a5));
    const Val product = tall ? b.Matmul(x, factor) : b.Matmul(factor, x);
    x = b.Add(b.Scale(x, a1), product);
  }
  return x;
}

double Adjustment(const Muon& muon, double rows, double columns) {
  if (muon.adjust_lr_fn == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// The parameters that a value is only another form of; empty where it is more.
std::set<int> ParametersOf(const Graph& graph, int value) {
  const Value& v = graph.value(value);
  if (v.kind == ValueKind::kParameter) return {value};
  if (v.producer == kNone) return {};
  std::set<int> all;
  for (int input : graph.node(v.producer).inputs) {
    const std::set<int> one = ParametersOf(graph, input);
    if (one.empty()) return {};
    all.insert(one.begin(), one.end());
  }
  return all;
}

bool IsMatrix(const Graph& graph, int value) { return graph.value(value).type.shape.rank() >= 2; }

// The matrices that are met first on the way back from the loss: those that make the output.
std::set<int> OutputMatrices(const Graph& graph) {
  std::set<int> found, seen;
  std::vector<int> open = {graph.loss_sum};
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (value == kNone || !seen.insert(value).second) continue;
    const int producer = graph.value(value).producer;
    if (producer == kNone) continue;
    std::set<int> matrices;
    for (int input : graph.node(producer).inputs) {
      for (int p : ParametersOf(graph, input)) {
        if (IsMatrix(graph, p)) matrices.insert(p);
      }
    }
    found.insert(matrices.begin(), matrices.end());
    if (!matrices.empty()) continue;
    const std::vector<int>& inputs = graph.node(producer).inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return found;
}

}  // namespace

std::set<int> HiddenMatrices(const Graph& joint) {
  std::set<int> hidden, other = OutputMatrices(joint);
  for (const Node& node : joint.nodes) {
    if (node.phase != Phase::kForward) continue;
    const std::string& op = node.def->name;
    const bool product = op == "linear" || op == "matmul" || op == "conv2d";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::set<int> parameters = ParametersOf(joint, node.inputs[i]);
      // A form of a weight, such as its transpose, is judged where it is used.
      const bool form = !parameters.empty() && !node.outputs.empty() &&
                        !ParametersOf(joint, node.outputs[0]).empty();
      if (form) continue;
      for (int p : parameters) (product ? hidden : other).insert(p);
    }
  }
  std::set<int> result;
  for (int p : hidden) {
    if (IsMatrix(joint, p) && other.count(p) == 0) result.insert(p);
  }
  return result;
}

Status Check(const Muon& muon) {
  OC_RETURN_IF_ERROR(CheckPositive("lr", muon.lr));  // adamw's is a multiple of it
  OC_RETURN_IF_ERROR(CheckRange("momentum", muon.momentum, 0, 1));
  OC_RETURN_IF_ERROR(CheckRange("weight_decay", muon.weight_decay, 0));
  OC_RETURN_IF_ERROR(CheckPositive("eps", muon.eps));
  if (muon.ns_steps < 1 || muon.ns_steps >= 100) {
    return InvalidArgument("optimizer: ns_steps is ", muon.ns_steps, ", wants 1 to 99");
  }
  if (muon.ns_coefficients.size() != 3) {
    return InvalidArgument("optimizer: ns_coefficients has ", muon.ns_coefficients.size(),
                           " values, wants 3");
  }
  if (muon.adjust_lr_fn != "original" && muon.adjust_lr_fn != "match_rms_adamw") {
    return InvalidArgument("optimizer: adjust_lr_fn is '", muon.adjust_lr_fn,
                           "'; there are original, match_rms_adamw");
  }
  OC_RETURN_IF_ERROR(CheckRange("adamw.lr", muon.adamw.lr, 0));
  return Annotate(Check(muon.adamw), "adamw");
}

std::string ToString(const Muon& muon) {
  return absl::StrCat("muon lr ", muon.lr, " momentum ", muon.momentum,
                      muon.nesterov ? " nesterov" : "", " weight_decay ", muon.weight_decay,
                      " adjust_lr_fn ", muon.adjust_lr_fn, " ns_steps ", muon.ns_steps, "; ",
                      ToString(muon.adamw));
}

Val AddUpdate(UpdateBuilder& b, const Muon& muon, const ParameterUpdate& u) {
  GraphBuilder& g = b.graph();
  if (!u.matrix) {
    ParameterUpdate other = u;
    other.lr_scale *= muon.adamw.lr / muon.lr;
    return AddUpdate(b, muon.adamw, other);
  }
  const Val m = b.State("muon.m", u);
  Attributes momentum = b.ClippedAttrs();
  momentum.Set("momentum", muon.momentum);
  momentum.Set("nesterov", muon.nesterov);
  const std::vector<Val> outputs = g.OpN("muon_momentum", {u.g, m, b.clip()}, std::move(momentum));
  if (outputs.empty()) return {};
  b.SetUpdated(m, outputs[1]);
  const Shape shape = g.shape(u.p);
  const int64_t rows = shape[0].size(), elements = shape.num_elements();
  Val x = outputs[0];
  double adjust = 1;
  if (elements > 0) {
    const Val matrix = g.Reshape(Normalized(g, x, muon.eps), {rows, elements / rows});
    x = g.Reshape(Orthogonalized(g, matrix, muon), shape);
    adjust = Adjustment(muon, static_cast<double>(rows), static_cast<double>(elements / rows));
  }
  Attributes step;
  step.Set("factor", adjust);
  step.Set("weight_decay", u.Decay(muon.weight_decay));
  b.SetRate(u, step);
  return b.Replace("decayed_step", {u.p, x, b.lr()}, {u.p}, std::move(step));
}

std::vector<std::string> ConfigKeys(const Muon&) {
  return {"momentum", "nesterov",        "weight_decay", "eps",
          "ns_steps", "ns_coefficients", "adjust_lr_fn", "adamw"};
}

Status FromConfig(const OptimizerConfig& config, Muon& muon) {
  muon.momentum = config.momentum;
  muon.nesterov = config.nesterov;
  muon.weight_decay = config.weight_decay;
  muon.eps = config.eps;
  muon.ns_steps = config.ns_steps;
  muon.ns_coefficients = config.ns_coefficients;
  muon.adjust_lr_fn = config.adjust_lr_fn;
  const AuxiliaryAdamWConfig& other = config.adamw;
  if (other.betas.size() != 2) {
    return InvalidArgument("optimizer.adamw.betas has ", other.betas.size(), " values, wants 2");
  }
  muon.adamw = {.lr = other.lr,
                .beta1 = other.betas[0],
                .beta2 = other.betas[1],
                .eps = other.eps,
                .weight_decay = other.weight_decay};
  return OkStatus();
}

void ToConfig(const Muon& muon, OptimizerConfig& config) {
  config.momentum = muon.momentum;
  config.nesterov = muon.nesterov;
  config.weight_decay = muon.weight_decay;
  config.eps = muon.eps;
  config.ns_steps = muon.ns_steps;
  config.ns_coefficients = muon.ns_coefficients;
  config.adjust_lr_fn = muon.adjust_lr_fn;
  config.adamw = {.lr = muon.adamw.lr,
                  .betas = {muon.adamw.beta1, muon.adamw.beta2},
                  .eps = muon.adamw.eps,
                  .weight_decay = muon.adamw.weight_decay};
}

}  // namespace oc
