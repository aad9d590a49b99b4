#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {

std::vector<OpCase> AllCases() {
  std::vector<OpCase> all;
  for (const auto& family : {ElementwiseCases(), ShapeCases(), ReduceCases(), ProductCases(),
                             UpdateCases(), OptimizerCases(), ImageCases(), SequenceCases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace oc::parity
