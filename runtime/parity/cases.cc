#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {
namespace {

// The cases of ops whose sums may be wider than their operands (WithSumType) again, halves summed
// into f32.
void AddSumTypes(std::vector<OpCase>& all) {
  const auto ops = BuiltinOps();
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i) {
    if (all[i].error || !TakesSumType(*ops->Find(all[i].op))) continue;
    OpCase wide = all[i];
    std::erase_if(wide.dtypes, [](DType d) { return d != DType::kBF16 && d != DType::kF16; });
    if (wide.dtypes.empty()) continue;
    wide.name += " into f32";
    wide.attrs.Set("dtype", DType::kF32);
    wide.gradient = false;  // made after differentiation
    all.push_back(std::move(wide));
  }
}

}  // namespace

std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  for (const auto& family : {ElementwiseCases(), ShapeCases(), ReduceCases(), ProductCases(),
                             UpdateCases(), OptimizerCases(), ImageCases(), SequenceCases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  AddSumTypes(all);
  return all;
}

}  // namespace oc::parity
