// Reductions, products and norms. Sums are carried in double.
#include <algorithm>
#include <limits>

#include "operators.h"

namespace ascend_emulator {
namespace {

using At1 = std::array<int64_t, 1>;

// Which dimensions go. op, aclnnReduceSum: none named is all; negative ones count from the end.
bool ReadDims(const aclTensor* self, const aclIntArray* dims, std::vector<bool>& away) {
  if (self == nullptr || dims == nullptr) return false;
  const auto rank = static_cast<int64_t>(self->dims.size());
  away.assign(self->dims.size(), dims->values.empty());
  for (int64_t d : dims->values) {
    if (d < -rank || d >= rank) return false;
    away[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  }
  return true;
}

std::vector<int64_t> Reduced(const std::vector<int64_t>& dims, const std::vector<bool>& away,
                             bool keep) {
  std::vector<int64_t> result;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!away[d]) {
      result.push_back(dims[d]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  return result;
}

// Results in the order of out's elements.
template <typename T, typename Get, typename F>
std::vector<T> Reduce(const View& x, const std::vector<bool>& away, T start, Get get, F f) {
  std::vector<int64_t> strides(x.dims.size(), 0);
  int64_t stride = 1;
  for (size_t d = x.dims.size(); d-- > 0;) {
    if (away[d]) continue;
    strides[d] = stride;
    stride *= x.dims[d];
  }
  std::vector<T> results(static_cast<size_t>(stride), start);
  View places = x;
  places.strides = strides;
  Walk<2>(x.dims, {&x, &places}, [&](const std::array<int64_t, 2>& at) {
    T& result = results[static_cast<size_t>(at[1])];
    result = f(result, get(x, at[0]));
  });
  return results;
}

template <typename T>
void StoreAll(const View& to, const std::vector<T>& values) {
  size_t i = 0;
  Walk<1>(to.dims, {&to}, [&](const At1& at) {
    if constexpr (std::is_same_v<T, int64_t>) {
      StoreWhole(to, at[0], values[i++]);
    } else {
      Store(to, at[0], values[i++]);
    }
  });
}

}  // namespace

EMULATOR_EXPORT int32_t aclnnReduceSumGetWorkspaceSize(const aclTensor* self,
                                                       const aclIntArray* dims, bool keep_dims,
                                                       int32_t dtype, aclTensor* out,
                                                       uint64_t* size, aclOpExecutor** executor) {
  std::vector<bool> away;
  Operator op("ReduceSum", size, executor);
  op.In(self, kAllTypes).NotNull(dims, "dims").Out(out, kAllTypes).Workspace(4096);
  op.Require(ReadDims(self, dims, away), "dims beyond self's");
  op.Require(out == nullptr || out->dtype == dtype, "dtype is not out's");
  op.Require(self == nullptr || out == nullptr || away.empty() ||
                 Reduced(self->dims, away, keep_dims) == out->dims,
             "out's shape is not what is left of self's");
  return op.Done([away](const std::vector<View>& v) {
    if (IsWhole(v[0].dtype)) {
      StoreAll(v[1], Reduce<int64_t>(v[0], away, 0, LoadWhole,
                                     [](int64_t a, int64_t b) { return a + b; }));
    } else {
      StoreAll(v[1], Reduce<double>(v[0], away, 0, Load, [](double a, double b) { return a + b; }));
    }
  });
}

EMULATOR_EXPORT int32_t aclnnAmaxGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims,
                                                  bool keep_dims, aclTensor* out, uint64_t* size,
                                                  aclOpExecutor** executor) {
  std::vector<bool> away;
  Operator op("Amax", size, executor);
  op.In(self, kAllTypes).NotNull(dims, "dims").Out(out, kAllTypes).SameType(self, out);
  op.Workspace(2048).Require(ReadDims(self, dims, away), "dims beyond self's");
  op.Require(self == nullptr || out == nullptr || away.empty() ||
                 Reduced(self->dims, away, keep_dims) == out->dims,
             "out's shape is not what is left of self's");
  return op.Done([away](const std::vector<View>& v) {
    if (IsWhole(v[0].dtype)) {
      StoreAll(v[1], Reduce<int64_t>(v[0], away, std::numeric_limits<int64_t>::min(), LoadWhole,
                                     [](int64_t a, int64_t b) { return std::max(a, b); }));
    } else {
      StoreAll(v[1], Reduce<double>(v[0], away, -INFINITY, Load,
                                    [](double a, double b) { return b > a || b != b ? b : a; }));
    }
  });
}

// op, aclnnArgMax: along one dimension; out is int32 or int64.
EMULATOR_EXPORT int32_t aclnnArgMaxGetWorkspaceSize(const aclTensor* self, int64_t dim,
                                                    bool keep_dims, aclTensor* out, uint64_t* size,
                                                    aclOpExecutor** executor) {
  Operator op("ArgMax", size, executor);
  op.In(self, kFloats | TypeBit(kAclDouble) | kWholes).Out(out, kIndices).Workspace(2048);
  if (self != nullptr && out != nullptr) {
    const auto rank = static_cast<int64_t>(self->dims.size());
    if (dim < 0) dim += rank;
    op.Require(dim == rank - 1, "emulated along the last dimension alone");
    std::vector<bool> away(self->dims.size(), false);
    if (!away.empty()) away.back() = true;
    op.Require(Reduced(self->dims, away, keep_dims) == out->dims, "out's shape");
  }
  return op.Done([](const std::vector<View>& v) {
    std::vector<int64_t> places;
    WalkRows(v[0], [&](const View& row) {
      int64_t best = 0;
      for (int64_t j = 1; j < row.dims[0]; ++j) {
        if (Load(row, j * row.strides[0]) > Load(row, best * row.strides[0])) best = j;
      }
      places.push_back(best);
    });
    StoreAll(v[1], places);
  });
}

EMULATOR_EXPORT int32_t aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim,
                                                     aclTensor* out, uint64_t* size,
                                                     aclOpExecutor** executor) {
  return Operator("Softmax", size, executor)
      .In(self, kFloats)
      .Out(out, kFloats)
      .SameType(self, out)
      .SameShape(self, out)
      .Require(self == nullptr || dim == -1 || dim == static_cast<int64_t>(self->dims.size()) - 1,
               "emulated along the last dimension alone")
      .Workspace(1024)
      .Done([](const std::vector<View>& v) {
        std::vector<View> to;
        WalkRows(v[1], [&](const View& row) { to.push_back(row); });
        size_t next = 0;
        WalkRows(v[0], [&](const View& row) {
          const View& y = to[next++];
          double largest = -INFINITY, sum = 0;
          std::vector<double> x;
          for (int64_t j = 0; j < row.dims[0]; ++j) x.push_back(Load(row, j * row.strides[0]));
          for (double value : x) largest = std::max(largest, value);
          for (double& value : x) sum += value = std::exp(value - largest);
          for (int64_t j = 0; j < row.dims[0]; ++j) {
            Store(y, j * y.strides[0], x[static_cast<size_t>(j)] / sum);
          }
        });
      });
}

namespace {

std::vector<float> ReadMatrix(const View& v, int64_t at) {
  const auto n = v.dims.size();
  const int64_t rows = v.dims[n - 2], columns = v.dims[n - 1];
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      values.push_back(
          static_cast<float>(Load(v, at + r * v.strides[n - 2] + c * v.strides[n - 1])));
    }
  }
  return values;
}

View WithoutMatrix(const View& v) {
  View outer = v;
  for (int i = 0; i < 2; ++i) {
    outer.dims.pop_back();
    outer.strides.pop_back();
  }
  return outer;
}

void Product(const View& a, const View& b, const View& c) {
  const View stack_a = WithoutMatrix(a), stack_b = WithoutMatrix(b), stack_c = WithoutMatrix(c);
  const auto rank = c.dims.size();
  const int64_t m = c.dims[rank - 2], n = c.dims[rank - 1], k = a.dims.back();
  std::vector<double> sums(static_cast<size_t>(n));
  Walk<3>(stack_c.dims, {&stack_a, &stack_b, &stack_c}, [&](const std::array<int64_t, 3>& at) {
    const std::vector<float> left = ReadMatrix(a, at[0]), right = ReadMatrix(b, at[1]);
    for (int64_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t l = 0; l < k; ++l) {
        const double x = left[static_cast<size_t>(i * k + l)];
        const float* row = &right[static_cast<size_t>(l * n)];
        for (int64_t j = 0; j < n; ++j) sums[static_cast<size_t>(j)] += x * row[j];
      }
      for (int64_t j = 0; j < n; ++j) {
        Store(c, at[2] + i * c.strides[rank - 2] + j * c.strides[rank - 1],
              sums[static_cast<size_t>(j)]);
      }
    }
  });
}

bool Contiguous(const aclTensor& t) {
  int64_t stride = 1;
  for (size_t d = t.dims.size(); d-- > 0;) {
    if (t.dims[d] != 1 && t.strides[d] != stride) return false;
    stride *= t.dims[d];
  }
  return true;
}

}  // namespace

// op, aclnnMatmul: two to six dimensions here, leading ones broadcast; inputs may be views, the
// output is not one; cubeMathType 0 keeps the inputs' type.
EMULATOR_EXPORT int32_t aclnnMatmulGetWorkspaceSize(const aclTensor* self, const aclTensor* other,
                                                    aclTensor* out, int8_t cube_math,
                                                    uint64_t* size, aclOpExecutor** executor) {
  Operator op("Matmul", size, executor);
  op.In(self, kFloats).In(other, kFloats).Out(out, kFloats).SameType(self, other);
  op.SameType(self, out).Require(cube_math >= 0 && cube_math <= 4, "cubeMathType");
  if (self != nullptr && other != nullptr && out != nullptr) {
    const auto ra = self->dims.size(), rb = other->dims.size(), rc = out->dims.size();
    const bool ranks = ra >= 2 && rb >= 2 && rc == std::max(ra, rb) && rc <= 6;
    op.Require(ranks, "two to six dimensions").Require(Contiguous(*out), "out is a view");
    if (ranks) {
      op.Require(self->dims[ra - 1] == other->dims[rb - 2] &&
                     out->dims[rc - 2] == self->dims[ra - 2] &&
                     out->dims[rc - 1] == other->dims[rb - 1],
                 "matrices that do not fit");
      for (size_t d = 0; d + 2 < rc; ++d) {
        const int64_t a = d + ra < rc ? 1 : self->dims[d + ra - rc];
        const int64_t b = d + rb < rc ? 1 : other->dims[d + rb - rc];
        op.Require((a == b || a == 1 || b == 1) && out->dims[d] == std::max(a, b),
                   "leading dimensions that do not broadcast");
      }
    }
    op.Workspace(16384);
  }
  return op.Done([](const std::vector<View>& v) { Product(v[0], v[1], v[2]); });
}

namespace {

// The rows that are normalised lie together at the end: [rows, columns].
struct Rows {
  int64_t count = 0, columns = 0;
};

bool ReadRows(const aclTensor* input, const aclIntArray* shape, Rows& rows) {
  if (input == nullptr || shape == nullptr || shape->values.empty()) return false;
  const auto& dims = input->dims;
  const auto n = shape->values.size();
  if (n > dims.size() || !std::equal(shape->values.rbegin(), shape->values.rend(), dims.rbegin())) {
    return false;
  }
  rows.columns = Elements(shape->values);
  rows.count = rows.columns == 0 ? 0 : Elements(dims) / rows.columns;
  return true;
}

std::vector<double> ReadAll(const View& v) {
  std::vector<double> values;
  Walk<1>(v.dims, {&v}, [&](const At1& at) { values.push_back(Load(v, at[0])); });
  return values;
}

}  // namespace

// op, aclnnLayerNorm: mean and rstd have a 1 for every dimension that goes. Without a weight or a
// bias it makes one.
EMULATOR_EXPORT int32_t aclnnLayerNormGetWorkspaceSize(
    const aclTensor* input, const aclIntArray* shape, const aclTensor* weight,
    const aclTensor* bias, double eps, aclTensor* out, aclTensor* mean, aclTensor* rstd,
    uint64_t* size, aclOpExecutor** executor) {
  Rows rows;
  Operator op("LayerNorm", size, executor);
  op.In(input, kFloats).Optional(weight, kFloats).Optional(bias, kFloats).Out(out, kFloats);
  op.OptionalOut(mean, kFloats)
      .OptionalOut(rstd, kFloats)
      .SameShape(input, out)
      .SameType(input, out);
  op.NotNull(shape, "normalizedShape");
  op.Require(ReadRows(input, shape, rows), "normalizedShape is not input's end").Workspace(4096);
  for (const aclTensor* t : {weight, bias}) {
    if (t == nullptr) {
      op.MakesTensors();
    } else {
      op.Require(shape == nullptr || t->dims == shape->values, "weight or bias of another shape");
    }
  }
  for (const aclTensor* t : {mean, rstd}) {
    op.Require(t == nullptr || (input != nullptr && t->dims.size() == input->dims.size() &&
                                Elements(t->dims) == rows.count),
               "mean or rstd of another shape");
  }
  const bool has_weight = weight != nullptr, has_bias = bias != nullptr;
  const bool has_mean = mean != nullptr, has_rstd = rstd != nullptr;
  return op.Done([=](const std::vector<View>& v) {
    size_t next = 1;
    const std::vector<double> x = ReadAll(v[0]);
    const auto w = has_weight ? ReadAll(v[next++]) : std::vector<double>();
    const auto b = has_bias ? ReadAll(v[next++]) : std::vector<double>();
    const View& to = v[next++];
    std::vector<double> y, means, rstds;
    for (int64_t r = 0; r < rows.count; ++r) {
      const double* row = &x[static_cast<size_t>(r * rows.columns)];
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < rows.columns; ++c) sum += row[c];
      const double m = sum / static_cast<double>(rows.columns);
      for (int64_t c = 0; c < rows.columns; ++c) squares += (row[c] - m) * (row[c] - m);
      const double s = 1 / std::sqrt(squares / static_cast<double>(rows.columns) + eps);
      for (int64_t c = 0; c < rows.columns; ++c) {
        const auto i = static_cast<size_t>(c);
        y.push_back((row[c] - m) * s * (has_weight ? w[i] : 1) + (has_bias ? b[i] : 0));
      }
      means.push_back(m);
      rstds.push_back(s);
    }
    StoreAll(to, y);
    if (has_mean) StoreAll(v[next++], means);
    if (has_rstd) StoreAll(v[next++], rstds);
  });
}

// op, aclnnLayerNormBackward: outputMask says which of the three gradients are wanted. Without a
// weight it makes one.
EMULATOR_EXPORT int32_t aclnnLayerNormBackwardGetWorkspaceSize(
    const aclTensor* gradient, const aclTensor* input, const aclIntArray* shape,
    const aclTensor* mean, const aclTensor* rstd, const aclTensor* weight, const aclTensor* bias,
    const aclBoolArray* wanted, aclTensor* input_gradient, aclTensor* weight_gradient,
    aclTensor* bias_gradient, uint64_t* size, aclOpExecutor** executor) {
  Rows rows;
  Operator op("LayerNormBackward", size, executor);
  op.In(gradient, kFloats).In(input, kFloats).In(mean, kFloats).In(rstd, kFloats);
  op.Optional(weight, kFloats).Optional(bias, kFloats).NotNull(wanted, "outputMask");
  op.OptionalOut(input_gradient, kFloats).OptionalOut(weight_gradient, kFloats);
  op.OptionalOut(bias_gradient, kFloats).SameShape(gradient, input).Workspace(8192);
  op.Require(ReadRows(input, shape, rows), "normalizedShape is not input's end");
  if (weight == nullptr) op.MakesTensors();
  const bool mask_fits = wanted != nullptr && wanted->values.size() == 3;
  op.Require(mask_fits, "outputMask has three values");
  const aclTensor* outputs[] = {input_gradient, weight_gradient, bias_gradient};
  bool give[3] = {false, false, false};
  for (size_t i = 0; i < 3 && mask_fits; ++i) {
    give[i] = wanted->values[i];
    if (give[i]) op.NotNull(outputs[i], "a gradient that is wanted");
  }
  const bool has[] = {input_gradient != nullptr, weight_gradient != nullptr,
                      bias_gradient != nullptr};
  const bool has_weight = weight != nullptr, has_bias = bias != nullptr;
  const std::array<bool, 3> wants = {give[0], give[1], give[2]}, there = {has[0], has[1], has[2]};
  return op.Done([=](const std::vector<View>& v) {
    const auto dy = ReadAll(v[0]), x = ReadAll(v[1]), means = ReadAll(v[2]), rstds = ReadAll(v[3]);
    size_t next = 4;
    const auto w = has_weight ? ReadAll(v[next++]) : std::vector<double>();
    if (has_bias) ++next;
    const auto columns = static_cast<size_t>(rows.columns);
    std::vector<double> dx(dy.size()), dw(columns, 0.0), db(columns, 0.0);
    for (size_t r = 0; r < static_cast<size_t>(rows.count); ++r) {
      double sum_g = 0, sum_gx = 0;
      for (size_t c = 0; c < columns; ++c) {
        const size_t i = r * columns + c;
        const double xhat = (x[i] - means[r]) * rstds[r], g = dy[i] * (has_weight ? w[c] : 1);
        sum_g += g;
        sum_gx += g * xhat;
        dw[c] += dy[i] * xhat;
        db[c] += dy[i];
      }
      const auto n = static_cast<double>(columns);
      for (size_t c = 0; c < columns; ++c) {
        const size_t i = r * columns + c;
        const double xhat = (x[i] - means[r]) * rstds[r], g = dy[i] * (has_weight ? w[c] : 1);
        dx[i] = rstds[r] * (g - sum_g / n - xhat * sum_gx / n);
      }
    }
    const std::vector<double>* results[] = {&dx, &dw, &db};
    for (size_t i = 0; i < 3; ++i) {
      if (!there[i]) continue;
      if (wants[i]) StoreAll(v[next], *results[i]);
      ++next;
    }
  });
}

}  // namespace ascend_emulator
