#include "openclaw/devices/cpu/native/embedding_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

Status CheckIds(const int32_t* ids, int64_t n, int64_t vocabulary) {
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      return OutOfRange("id ", ids[i], " at position ", i, ": the table has ", vocabulary,
                        " rows (0 to ", vocabulary - 1, ")");
    }
  }
  return OkStatus();
}

Kernel MakeEmbedding(const OpRequest& request, int) {
  const TensorType& table = request.inputs[1];
  const int64_t n = request.inputs[0].shape.num_elements();
  const int64_t vocabulary = table.shape[0].size();
  const int64_t width = table.shape[1].size(), row_bytes = width * SizeInBytes(table.dtype);
  return MakeKernel([=](const KernelArgs& args) -> Status {
    const int32_t* ids = args.in<int32_t>(0);
    OC_RETURN_IF_ERROR(CheckIds(ids, n, vocabulary));
    if (row_bytes == 0) return OkStatus();
    Split(args.pool, n, width, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(args.outputs[0] + i * row_bytes, args.inputs[1] + ids[i] * row_bytes,
                    static_cast<size_t>(row_bytes));
      }
    });
    return OkStatus();
  });
}

// The columns are split, so that unlike numbers of positions an id cost no balance.
Kernel MakeEmbeddingGrad(const OpRequest& request, int) {
  const TensorType& table = request.outputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(request.inputs[0]));
  OC_ASSIGN_OR_RETURN(const FloatKind sum, FloatKindOf(table));
  if (sum != kind && sum != kFloat32) return NoKernel(table);
  const EmbeddingLoops& loops = GetEmbeddingLoops();
  const auto loop = (sum == kind ? loops.grad : loops.grad_f32)[kind];
  const int64_t n = request.inputs[1].shape.num_elements();
  const int64_t vocabulary = table.shape[0].size(), width = table.shape[1].size();
  const bool accumulate = request.accumulate != 0;
  const auto run = [=](const KernelArgs& args) -> Status {
    const int32_t* ids = args.in<int32_t>(1);
    OC_RETURN_IF_ERROR(CheckIds(ids, n, vocabulary));
    // The positions of each id as a list, in their order.
    int32_t* const head = reinterpret_cast<int32_t*>(args.workspace);
    int32_t* const next = head + vocabulary;
    std::fill_n(head, vocabulary, -1);
    for (int64_t i = n - 1; i >= 0; --i) {
      next[i] = head[ids[i]];
      head[ids[i]] = static_cast<int32_t>(i);
    }
    Split(args.pool, width, vocabulary + n, 32, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0], head, next, args.outputs[0], vocabulary, width, begin, end, accumulate);
    });
    return OkStatus();
  };
  return MakeKernel(run, (vocabulary + n) * static_cast<int64_t>(sizeof(int32_t)));
}

// cos and sin of t * base^(-2i/D) for t < length, i < half: f64 rounded to f32, so that late
// positions are exact too.
struct RopeTable {
  std::vector<float> cosine, sine;
  RopeTable(int64_t length, int64_t half, double base)
      : cosine(length * half), sine(length * half) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      for (int64_t t = 0; t < length; ++t) {
        cosine[t * half + i] = static_cast<float>(std::cos(static_cast<double>(t) * frequency));
        sine[t * half + i] = static_cast<float>(std::sin(static_cast<double>(t) * frequency));
      }
    }
  }
};

// The kernels of all layers share a table. Owned by the registry's entry. Thread-safe.
class RopeTables {
 public:
  std::shared_ptr<const RopeTable> Get(int64_t length, int64_t half, double base) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<const RopeTable>& entry = tables_[{length, half, base}];
    std::shared_ptr<const RopeTable> table = entry.lock();
    if (table == nullptr) entry = table = std::make_shared<const RopeTable>(length, half, base);
    return table;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int64_t, int64_t, double>, std::weak_ptr<const RopeTable>> tables_;
};

Kernel MakeRope(const OpRequest& request, RopeTables& tables) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetEmbeddingLoops().rope[kind];
  const int64_t heads = request.attrs.Int("heads", 1);
  int64_t kv_heads = request.attrs.Int("kv_heads", 0);
  if (kv_heads == 0) kv_heads = heads;
  const int64_t rows = RowsOf(x), length = x.shape[1].size(), packed = LastDim(x);
  const int64_t half = packed / (heads + 2 * kv_heads) / 2;
  const bool inverse = request.attrs.Bool("inverse", false);
  const int64_t size = SizeInBytes(x.dtype);
  const int64_t turned = (heads + kv_heads) * half * 2;
  auto table = tables.Get(length, half, request.attrs.Double("base", 10000.0));
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, rows, packed, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const std::byte* from = args.inputs[0] + r * packed * size;
        std::byte* to = args.outputs[0] + r * packed * size;
        const int64_t t = r % length;
        loop(from, to, table->cosine.data() + t * half, table->sine.data() + t * half,
             heads + kv_heads, half, inverse);
        if (from != to) {
          std::memcpy(to + turned * size, from + turned * size,
                      static_cast<size_t>((packed - turned) * size));
        }
      }
    });
  });
}

}  // namespace

void RegisterEmbedding(KernelRegistry& registry) {
  registry.Add("embedding", MakeEmbedding);
  registry.Add("embedding_grad", MakeEmbeddingGrad, 1, /*sum_types=*/true);
  registry.Add("rope", [tables = std::make_shared<RopeTables>()](const OpRequest& request, int) {
    return MakeRope(request, *tables);
  });
}

}  // namespace oc::cpu
