// Initial values of parameters and states. Element i is a function of (seed, name, i) alone, so
// that every plan, and every shard of it, begins with the same values.
//
//   Tensor w(type);
//   OC_RETURN_IF_ERROR(Initialize(variable.init, "fc1.weight", seed, type, w.bytes()));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// Fills `out` with the elements of the tensor `name` of the given type, from element `first` of it
// on, as many as fit. Normal: mean + deviation * Normal(Philox(seed), StreamOf(name), i); uniform:
// low + (high - low) * UniformFloat(word i of the stream); each computed as a double, then rounded
// to the dtype. kInvalidArgument: an unbound shape, random values of a dtype that is no float, or a
// range that the tensor does not have. One thread: GPT-2's 124M normal values take seconds, not
// minutes.
Status Initialize(const Initializer& init, const std::string& name, uint64_t seed,
                  const TensorType& type, std::span<std::byte> out, int64_t first = 0);

}  // namespace oc
