#include "openclaw/core/config.h"

namespace oc {

const char* Name(AmpLevel level) {
  switch (level) {
    case AmpLevel::kO0:
      return "O0";
    case AmpLevel::kO1:
      return "O1";
    case AmpLevel::kO2:
      return "O2";
    case AmpLevel::kO3:
      return "O3";
    case AmpLevel::kO2Fp8:
      return "O2-fp8";
  }
  return "?";
}

const char* Name(AllReduce algorithm) {
  switch (algorithm) {
    case AllReduce::kAuto:
      return "auto";
    case AllReduce::kRing:
      return "ring";
    case AllReduce::kTree:
      return "tree";
    case AllReduce::kHybrid:
      return "hybrid";
  }
  return "?";
}

}  // namespace oc
