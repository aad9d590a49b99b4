#include "harness.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oc::conformance {

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

std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (!(actual.type() == expected.type())) {
    return absl::StrCat("is ", actual.type().ToString(), ", not ", expected.type().ToString());
  }
  const int64_t n = expected.num_elements();
  const auto at = [&](int64_t i) {
    return absl::StrCat("element ", i, " of ", expected.type().ToString(), " is ", actual.at(i),
                        ", the reference ", expected.at(i));
  };
  double error = 0, norm = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double a = actual.at(i), e = expected.at(i);
    if (!std::isfinite(e) || !std::isfinite(a) || tolerance == 0) {
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      return at(i);
    }
    error += (a - e) * (a - e);
    norm += e * e;
    ++finite;
  }
  if (finite == 0) return "";
  const double tiny = std::numeric_limits<float>::min() * 16;
  if (std::sqrt(error) > tolerance * std::sqrt(norm) + tiny) {
    return absl::StrCat("relative error ", std::sqrt(error / std::max(norm, 1e-300)), " of ",
                        expected.type().ToString(), ", allowed ", tolerance);
  }
  const double rms = std::sqrt(norm / static_cast<double>(finite));
  for (int64_t i = 0; i < n; ++i) {
    const double a = actual.at(i), e = expected.at(i);
    if (!std::isfinite(e)) continue;
    if (std::abs(a - e) > 30 * tolerance * (std::abs(e) + rms) + tiny) {
      return absl::StrCat(at(i), " (root mean square ", rms, ")");
    }
  }
  return "";
}

}  // namespace oc::conformance
