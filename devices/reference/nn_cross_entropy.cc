#include <algorithm>
#include <cmath>

#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"

namespace oc::reference {
namespace {

// Labels of `rows` rows of `classes` logits.
struct Labels {
  Labels(const Shape& logits, const int32_t* labels, const Attributes& attrs)
      : classes(logits[-1].size()),
        rows(logits.num_elements() / std::max<int64_t>(classes, 1)),
        values(labels),
        ignored(attrs.Int("ignore_index", -1)) {}

  bool valid(int64_t row) const { return values[row] != ignored; }
  Status Check() const {
    for (int64_t r = 0; r < rows; ++r) {
      if (valid(r) && (values[r] < 0 || values[r] >= classes)) {
        return OutOfRange("label ", values[r], " at position ", r, " is outside 0..", classes - 1,
                          " (and not ignore_index ", ignored, ")");
      }
    }
    return OkStatus();
  }

  int64_t classes, rows;
  const int32_t* values;
  int64_t ignored;
};

template <typename T>
double LogSumExp(const T* row, int64_t n) {
  double largest = -INFINITY;
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, Load(row, j));
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(Load(row, j) - largest);
  return largest + std::log(sum);
}

template <typename T>
Status CrossEntropy(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const Labels labels(request.inputs[0].shape, args.in<int32_t>(1), request.attrs);
  OC_RETURN_IF_ERROR(labels.Check());
  double loss = 0;
  for (int64_t r = 0; r < labels.rows; ++r) {
    const T* row = args.in<T>(0) + r * labels.classes;
    const double lse = LogSumExp(row, labels.classes);
    Store(args.out<S>(1), r, lse);
    if (labels.valid(r)) loss += lse - Load(row, labels.values[r]);
  }
  Store(args.out<S>(0), 0, loss);
  return OkStatus();
}

template <typename T>
Status CrossEntropyGrad(const OpRequest& request, const KernelArgs& args) {
  const Labels labels(request.inputs[1].shape, args.in<int32_t>(2), request.attrs);
  OC_RETURN_IF_ERROR(labels.Check());
  const double dloss = LoadElement(request.inputs[0].dtype, args.inputs[0], 0);
  for (int64_t r = 0; r < labels.rows; ++r) {
    const double lse = Load(args.in<StatisticsOf<T>>(3), r);
    for (int64_t j = 0; j < labels.classes; ++j) {
      const int64_t at = r * labels.classes + j;
      const double p = std::exp(Load(args.in<T>(1), at) - lse);
      const double target = j == labels.values[r] ? 1 : 0;
      Store(args.out<T>(0), at, labels.valid(r) ? dloss * (p - target) : 0);
    }
  }
  return OkStatus();
}

Status CountValid(const OpRequest& request, const KernelArgs& args) {
  const int64_t ignored = request.attrs.Int("ignore_index", -1);
  int64_t count = 0;
  for (int64_t r = 0; r < request.inputs[0].shape.num_elements(); ++r) {
    count += args.in<int32_t>(0)[r] != ignored;
  }
  *args.out<float>(0) = static_cast<float>(count);
  return OkStatus();
}

template <typename T>
Status CountCorrect(const OpRequest& request, const KernelArgs& args) {
  const Labels labels(request.inputs[0].shape, args.in<int32_t>(1), request.attrs);
  OC_RETURN_IF_ERROR(labels.Check());
  int64_t count = 0;
  for (int64_t r = 0; r < labels.rows; ++r) {
    const T* row = args.in<T>(0) + r * labels.classes;
    int64_t best = 0;
    for (int64_t j = 1; j < labels.classes; ++j) {
      if (Load(row, j) > Load(row, best)) best = j;
    }
    count += labels.valid(r) && best == labels.values[r];
  }
  *args.out<float>(0) = static_cast<float>(count);
  return OkStatus();
}

}  // namespace

void RegisterCrossEntropy(KernelRegistry& registry) {
  registry.Add("cross_entropy",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return CrossEntropy<T>(r, a);
               }));
  registry.Add("cross_entropy_grad", FloatKernel(
                                         []<typename T>(const OpRequest& r, const KernelArgs& a) {
                                           return CrossEntropyGrad<T>(r, a);
                                         },
                                         /*operand=*/1));
  registry.Add("count_valid", StatelessKernel(CountValid, "reference"));
  registry.Add("count_correct",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return CountCorrect<T>(r, a);
               }));
}

}  // namespace oc::reference
