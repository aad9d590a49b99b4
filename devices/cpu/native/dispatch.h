// Which instruction set the loops of this folder run with. A family of loops is a table of function
// pointers, declared in x_loops.h, defined by x_loops.cc once for each instruction set, and called
// by x.cc, which knows requests and worker pools:
//
//   struct PoolLoops { void (*max)(const float* x, float* y, int64_t n); };    // pool_loops.h
//   OC_CPU_LOOPS(PoolLoops)
//
//   namespace oc::cpu::OC_CPU_ISA {                                           // pool_loops.cc
//   namespace { void Max(const float* x, float* y, int64_t n) { ... } }
//   const PoolLoops kPoolLoops = {Max};
//   }
//
//   GetPoolLoops().max(x, y, n);                                              // pool.cc
//
// x_loops.h and x_loops.cc include no standard header but <stdint.h>: an inline function compiled
// with AVX-512 there could be the copy that the linker keeps for everyone.
#pragma once

#include <stdint.h>

namespace oc::cpu {

enum class Isa {
  kNone,
  kV3,
  kV4
};  // x86-64-v3: AVX2, FMA and F16C; x86-64-v4: AVX-512 F, BW, DQ, VL, CD

// The best that this processor has; OPENCLAW_CPU_ISA=v3 or none in the environment lowers it.
// kNone: the loops may not be called.
Isa ActiveIsa();

}  // namespace oc::cpu

#define OC_CPU_LOOPS(Table)    \
  namespace v3 {               \
  extern const Table k##Table; \
  }                            \
  namespace v4 {               \
  extern const Table k##Table; \
  }                            \
  inline const Table& Get##Table() { return ActiveIsa() == Isa::kV4 ? v4::k##Table : v3::k##Table; }
