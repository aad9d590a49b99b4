#include "openclaw/runtime/parity/op_case.h"

#include <algorithm>

namespace oc::parity {

Input Normal(const Shape& shape, double mean, double stddev) {
  return {shape,
          [=](const Philox& rng, uint64_t stream, uint64_t i) {
            return mean + stddev * oc::Normal(rng, stream, i);
          },
          {}};
}

Input Uniform(const Shape& shape, double low, double high) {
  return {shape,
          [=](const Philox& rng, uint64_t stream, uint64_t i) {
            return low + (high - low) * UniformFloat(rng.Word(stream, i));
          },
          {}};
}

Input Whole(const Shape& shape, int64_t low, int64_t high) {
  return {shape,
          [=](const Philox& rng, uint64_t stream, uint64_t i) {
            return static_cast<double>(
                low +
                static_cast<int64_t>(rng.Word(stream, i) % static_cast<uint64_t>(high - low + 1)));
          },
          {}};
}

Input Integers(const Shape& shape, int64_t low, int64_t high) {
  return Whole(shape, low, high).As(DType::kI32);
}

Input Bools(const Shape& shape) { return Whole(shape, 0, 1).As(DType::kBool); }

Input Constant(const Shape& shape, double value) {
  return {shape, [=](const Philox&, uint64_t, uint64_t) { return value; }, {}};
}

Input Values(const Shape& shape, std::vector<double> values) {
  return {
      shape, [=](const Philox&, uint64_t, uint64_t i) { return values[i % values.size()]; }, {}};
}

std::string CaseName(const OpCase& c, DType dtype) {
  return absl::StrCat(c.op, "/", c.name, "/", Name(dtype));
}

int64_t NumElements(const OpCase& c) {
  int64_t elements = 0;
  for (const Input& input : c.inputs) elements += input.shape.num_elements();
  return elements;
}

bool Compares(const OpCase& c, int output) {
  return c.compare.empty() || std::count(c.compare.begin(), c.compare.end(), output) != 0;
}

bool WantsGradient(const OpCase& c, DType dtype, int input) {
  if (!IsFloat(dtype)) return false;
  const std::vector<int>& wanted = c.gradient_inputs;
  return wanted.empty() || std::count(wanted.begin(), wanted.end(), input) != 0;
}

StatusOr<std::vector<Tensor>> MakeInputs(const OpCase& c, DType dtype, OpRunner& reference) {
  const std::string key = absl::StrCat(c.op, "/", c.name);
  const Philox rng(StreamOf(key.data(), key.size()));
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor t({c.inputs[i].dtype.value_or(dtype), c.inputs[i].shape});
    for (int64_t j = 0; j < t.num_elements(); ++j) {
      t.set(j, c.inputs[i].fill(rng, i, static_cast<uint64_t>(j)));
    }
    inputs.push_back(std::move(t));
  }
  if (c.prepare) OC_RETURN_IF_ERROR(c.prepare(reference, inputs));
  return inputs;
}

double Tolerance(DType dtype, DType activations) {
  const auto of = [](DType d) {
    switch (d) {
      case DType::kF64:
        return 1e-12;
      case DType::kF32:
        return 1e-5;
      case DType::kF16:
        return 2e-3;
      case DType::kBF16:
        return 1e-2;
      default:
        return 0.0;
    }
  };
  if (!IsFloat(dtype)) return 0;
  // A wide result of narrow activations: a kernel may round once on the way.
  const bool narrow = IsFloat(activations) && SizeInBits(activations) < SizeInBits(dtype);
  return narrow ? std::max(of(dtype), of(activations) / 4) : of(dtype);
}

}  // namespace oc::parity
