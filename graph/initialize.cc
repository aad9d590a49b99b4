#include "openclaw/graph/initialize.h"

#include <algorithm>

#include "openclaw/core/rng.h"

namespace oc {
namespace {

// Random numbers come in blocks of four words; a range may begin and end inside one.
template <typename T, typename BlockFn>
void FillBlocks(int64_t first, int64_t count, std::span<std::byte> out, BlockFn block_fn) {
  T* values = reinterpret_cast<T*>(out.data());
  int64_t i = first;
  const int64_t end = first + count;
  while (i < end) {
    const int64_t block = i / 4;
    const auto four = block_fn(static_cast<uint64_t>(block));
    const int64_t stop = std::min(end, block * 4 + 4);
    for (; i < stop; ++i) {
      const double value = four[i % 4];
      if constexpr (std::is_same_v<T, double>) {
        values[i - first] = value;
      } else {
        values[i - first] = static_cast<T>(static_cast<float>(value));
      }
    }
  }
}

template <typename T>
void FillRandom(const Initializer& init, const std::string& name, uint64_t seed, int64_t first,
                int64_t count, std::span<std::byte> out) {
  const Philox rng(seed);
  const uint64_t stream = StreamOf(name.data(), name.size());
  if (init.kind == Initializer::Kind::kNormal) {
    FillBlocks<T>(first, count, out, [&](uint64_t block) {
      std::array<double, 4> four = NormalBlock(rng, stream, block);
      for (double& value : four) value = init.a + init.b * value;
      return four;
    });
    return;
  }
  FillBlocks<T>(first, count, out, [&](uint64_t block) {
    const Philox::Words words = rng.Block(stream, block);
    std::array<double, 4> four;
    for (int k = 0; k < 4; ++k) {
      four[k] = init.a + (init.b - init.a) * double{UniformFloat(words[k])};
    }
    return four;
  });
}

}  // namespace

Status Initialize(const Initializer& init, const std::string& name, uint64_t seed,
                  const TensorType& type, std::span<std::byte> out, int64_t first) {
  const auto where = [&] { return absl::StrCat("initialise ", name, " ", type.ToString()); };
  if (!type.shape.bound()) return InvalidArgument(where(), ": a dimension is not bound");
  const int64_t size = SizeInBytes(type.dtype);
  const int64_t count = static_cast<int64_t>(out.size()) / size;
  if (count * size != static_cast<int64_t>(out.size()) || first < 0 ||
      count > type.shape.num_elements() - first) {
    return InvalidArgument(where(), ": ", out.size(), " bytes from element ", first,
                           " on are no part of it");
  }
  if (count == 0) return OkStatus();
  if (init.kind == Initializer::Kind::kConstant) {
    StoreElement(type.dtype, out.data(), 0, init.a);
    for (int64_t done = size, all = count * size; done < all; done *= 2) {
      std::copy_n(out.data(), std::min(done, all - done), out.data() + done);
    }
    return OkStatus();
  }
  switch (type.dtype) {
    case DType::kF32:
      FillRandom<float>(init, name, seed, first, count, out);
      return OkStatus();
    case DType::kBF16:
      FillRandom<BF16>(init, name, seed, first, count, out);
      return OkStatus();
    case DType::kF16:
      FillRandom<F16>(init, name, seed, first, count, out);
      return OkStatus();
    case DType::kF64:
      FillRandom<double>(init, name, seed, first, count, out);
      return OkStatus();
    default:
      return InvalidArgument(where(), ": random values of a dtype that is no float");
  }
}

}  // namespace oc
