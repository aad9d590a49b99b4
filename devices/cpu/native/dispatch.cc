#include "openclaw/devices/cpu/native/dispatch.h"

#include <cstdlib>
#include <string>

namespace oc::cpu {
namespace {

Isa Detect() {
  __builtin_cpu_init();
  Isa isa = Isa::kNone;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c")) {
    isa = Isa::kV3;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd")) {
      isa = Isa::kV4;
    }
  }
  const char* wish = std::getenv("OPENCLAW_CPU_ISA");
  if (wish != nullptr && std::string(wish) == "none") return Isa::kNone;
  if (wish != nullptr && std::string(wish) == "v3" && isa == Isa::kV4) return Isa::kV3;
  return isa;
}

}  // namespace

Isa ActiveIsa() {
  // Asked once and never changed: not state.
  static const Isa isa = Detect();
  return isa;
}

}  // namespace oc::cpu
