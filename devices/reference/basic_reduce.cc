#include <limits>

#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {
namespace {

// The walks over what stays and what is summed away.
struct Axes {
  explicit Axes(const OpRequest& request) {
    const Shape& x = request.inputs[0].shape;
    const std::vector<int64_t> strides = Strides(x);
    const std::vector<int64_t> axes = request.attrs.Ints("axes");
    std::vector<bool> away(static_cast<size_t>(x.rank()), axes.empty());
    for (int64_t a : axes) away[static_cast<size_t>(a < 0 ? a + x.rank() : a)] = true;
    for (size_t d = 0; d < strides.size(); ++d) {
      Walk& walk = away[d] ? reduced : kept;
      walk.sizes.push_back(x[static_cast<int>(d)].size());
      walk.strides.push_back(strides[d]);
    }
  }
  Walk kept, reduced;
};

// start, combined with each element, finished by (value, number of elements).
template <typename Start, typename Combine, typename Finish>
Status Reduce(const OpRequest& request, const KernelArgs& args, Start start, Combine combine,
              Finish finish) {
  return ForNumber(request.inputs[0].dtype, [&]<typename T>() {
    const Axes axes(request);
    const int64_t outer = axes.kept.elements(), inner = axes.reduced.elements();
    for (int64_t o = 0; o < outer; ++o) {
      const T* x = args.in<T>(0) + axes.kept.Offset(o);
      auto value = start(WideOf<T>{});
      for (int64_t i = 0; i < inner; ++i)
        value = combine(value, LoadWide(x, axes.reduced.Offset(i)));
      value = finish(value, inner);
      if constexpr (!std::is_integral_v<T>) {
        StoreSum(request, args, 0, o, value);
      } else {
        if ((request.accumulate & 1) != 0) value += LoadWide(args.out<T>(0), o);
        StoreWide(args.out<T>(0), o, value);
      }
    }
    return OkStatus();
  });
}

Status ReduceSum(const OpRequest& request, const KernelArgs& args) {
  return Reduce(
      request, args, [](auto zero) { return zero; }, [](auto a, auto x) { return a + x; },
      [](auto sum, int64_t) { return sum; });
}

Status ReduceMean(const OpRequest& request, const KernelArgs& args) {
  return Reduce(
      request, args, [](auto zero) { return zero; }, [](auto a, auto x) { return a + x; },
      [](auto sum, int64_t n) { return sum / static_cast<decltype(sum)>(n); });
}

Status ReduceMax(const OpRequest& request, const KernelArgs& args) {
  return Reduce(
      request, args,
      [](auto zero) {
        using Limits = std::numeric_limits<decltype(zero)>;
        return Limits::has_infinity ? -Limits::infinity() : Limits::min();
      },
      [](auto a, auto x) { return x > a || x != x ? x : a; },
      [](auto max, int64_t) { return max; });
}

}  // namespace

void RegisterReduce(KernelRegistry& registry) {
  registry.Add("reduce_sum", StatelessKernel(ReduceSum, "reference"), /*accumulable=*/1,
               /*sum_types=*/true);
  registry.Add("reduce_mean", StatelessKernel(ReduceMean, "reference"));
  registry.Add("reduce_max", StatelessKernel(ReduceMax, "reference"));
}

}  // namespace oc::reference
