// Checks that need graphs: finite differences and decompositions.
#include <algorithm>
#include <cmath>

#include "harness.h"
#include "openclaw/graph/autodiff.h"

namespace oc::parity {
namespace {

constexpr int64_t kProbes = 12;  // elements an input whose difference is taken

std::string InputName(size_t i) { return absl::StrCat("input", i); }

// The op under a loss: the sum of its outputs, weighted by the data "weight<output>". Float inputs
// are parameters. `value` becomes the loss in f64.
struct LossGraph {
  Graph graph;
  int value = kNone;
};

StatusOr<LossGraph> BuildLoss(const OpCase& c, const std::vector<Tensor>& inputs,
                              std::shared_ptr<const OpRegistry> ops) {
  GraphBuilder b("gradient", std::move(ops));
  std::vector<Val> vals;
  for (size_t i = 0; i < inputs.size(); ++i) {
    vals.push_back(WantsGradient(c, inputs[i].dtype(), static_cast<int>(i))
                       ? b.Parameter(InputName(i), inputs[i].type(), {})
                       : b.Data(InputName(i), inputs[i].type()));
  }
  const std::vector<Val> outputs = b.OpN(c.op, vals, c.attrs);
  OC_RETURN_IF_ERROR(b.status());
  Val loss;
  for (int o : c.gradient_outputs) {
    const Val weight = b.Data(absl::StrCat("weight", o), b.type(outputs[o]));
    const Val sum = b.Cast(b.ReduceSum(b.Mul(outputs[o], weight), {}), DType::kF64);
    loss = loss ? b.Add(loss, sum) : sum;
  }
  const Val count = b.Scale(b.Data("count", {DType::kF32, {}}), 1.0);
  b.Output("loss", loss);
  b.Loss(b.Cast(loss, DType::kF32), count);
  OC_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  return LossGraph{std::move(graph), loss.id};
}

Tensor RandomTensor(const TensorType& type, uint64_t seed) {
  Tensor t(type);
  const Philox rng(seed);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, oc::Normal(rng, 7, static_cast<uint64_t>(i)));
  }
  return t;
}

Tensor Copied(const Tensor& from) {
  Tensor to(from.type());
  std::copy(from.bytes().begin(), from.bytes().end(), to.bytes().begin());
  return to;
}

// Central differences of some elements of one input against the gradient.
StatusOr<std::string> Probe(const OpCase& c, const LossGraph& loss,
                            std::map<std::string, Tensor>& feeds, size_t input,
                            const Tensor& gradient, OpRunner& runner) {
  const std::string name = InputName(input);
  const Tensor original = feeds.at(name);
  const int64_t n = original.num_elements();
  const auto loss_at = [&](int64_t element, double offset) -> StatusOr<double> {
    Tensor moved = Copied(original);
    moved.set(element, original.at(element) + offset);
    feeds[name] = moved;
    OC_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                        Evaluate(loss.graph, feeds, {loss.value}, runner));
    feeds[name] = original;
    return values[0].at(0);
  };
  double error = 0, norm = 0;
  std::string worst;
  double worst_error = 0;
  const int64_t probes = std::min(n, kProbes);
  const Philox rng(11);
  for (int64_t k = 0; k < probes; ++k) {
    const int64_t i = probes == n
                          ? k
                          : static_cast<int64_t>(PermutedIndex(
                                static_cast<uint64_t>(k), static_cast<uint64_t>(n), 11, input));
    OC_ASSIGN_OR_RETURN(const double above, loss_at(i, c.step));
    OC_ASSIGN_OR_RETURN(const double below, loss_at(i, -c.step));
    const double numeric = (above - below) / (2 * c.step);
    const double difference = std::abs(numeric - gradient.at(i));
    error += difference * difference;
    norm += numeric * numeric;
    if (!(difference <= worst_error)) {
      worst_error = difference;
      worst = absl::StrCat("element ", i, ": gradient ", gradient.at(i), ", difference quotient ",
                           numeric);
    }
  }
  if (std::sqrt(error) <= c.gradient_tolerance * std::max(std::sqrt(norm), 1.0))
    return std::string();
  return absl::StrCat("gradient of input ", input, " is off by ", std::sqrt(error), " of ",
                      std::sqrt(norm), "; ", worst);
}

}  // namespace

std::string GradientError(const OpCase& c, OpRunner& reference) {
  auto inputs = MakeInputs(c, DType::kF64, reference);
  if (!inputs.ok()) return inputs.status().ToString();
  auto loss = BuildLoss(c, *inputs, reference.shared_ops());
  if (!loss.ok()) return loss.status().ToString();
  auto joint = Differentiate(loss->graph);
  if (!joint.ok()) return joint.status().ToString();

  std::map<std::string, Tensor> feeds;
  for (size_t i = 0; i < inputs->size(); ++i) feeds[InputName(i)] = (*inputs)[i];
  for (const Value& v : loss->graph.values) {
    if (v.name.rfind("weight", 0) == 0) feeds[v.name] = RandomTensor(v.type, 5);
  }
  const Tensor one = Tensor::Of<float>({}, {1.0f});
  feeds["count"] = one;
  for (const Value& v : joint->values) {
    if (v.kind == ValueKind::kReduced) feeds[v.name] = one;  // the count of the global batch
  }
  for (const Accumulator& a : joint->accumulators) {
    if (a.kind != Accumulator::Kind::kGradient) continue;
    auto parts = Evaluate(*joint, feeds, a.contributions, reference);
    if (!parts.ok()) return parts.status().ToString();
    Tensor gradient(joint->value(a.target).type);
    for (const Tensor& part : *parts) {
      for (int64_t i = 0; i < gradient.num_elements(); ++i) {
        gradient.set(i, gradient.at(i) + part.at(i));
      }
    }
    const auto input = static_cast<size_t>(std::stoul(joint->value(a.target).name.substr(5)));
    auto error = Probe(c, *loss, feeds, input, gradient, reference);
    if (!error.ok()) return error.status().ToString();
    if (!error->empty()) return *error;
  }
  return "";
}

std::string DecompositionError(const OpCase& c, DType dtype, OpRunner& runner) {
  const OpDef* def = runner.ops().Find(c.op);
  auto inputs = MakeInputs(c, dtype, runner);
  if (!inputs.ok()) return inputs.status().ToString();
  GraphBuilder b("decomposition", runner.shared_ops());
  std::vector<int> ids;
  std::map<std::string, Tensor> feeds;
  for (size_t i = 0; i < inputs->size(); ++i) {
    ids.push_back(b.Data(InputName(i), (*inputs)[i].type()).id);
    feeds[InputName(i)] = (*inputs)[i];
  }
  auto results = def->decompose(b, ids, c.attrs);
  if (absl::IsUnimplemented(results.status())) return "";  // this variant has no simpler ops
  if (!results.ok()) return results.status().ToString();
  auto graph = b.Finish();
  if (!graph.ok()) return graph.status().ToString();
  auto actual = Evaluate(*graph, feeds, *results, runner);
  if (!actual.ok()) return actual.status().ToString();
  auto expected = runner.Run(c.op, c.attrs, *inputs);
  if (!expected.ok()) return expected.status().ToString();
  if (actual->size() != expected->size()) {
    return absl::StrCat("the decomposition has ", actual->size(), " outputs, the op ",
                        expected->size());
  }
  for (size_t i = 0; i < expected->size(); ++i) {
    // Every step of the decomposition rounds.
    const double tolerance = 4 * c.tolerance * Tolerance((*expected)[i].dtype(), dtype);
    const std::string difference = Difference((*actual)[i], (*expected)[i], tolerance);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  return "";
}

}  // namespace oc::parity
