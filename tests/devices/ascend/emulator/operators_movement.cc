// Operators that move, fill and look up.
#include <vector>

#include "operators.h"

namespace ascend_emulator {

// op, aclnnInplaceCopy: `from` broadcasts to self and is cast.
EMULATOR_EXPORT int32_t aclnnInplaceCopyGetWorkspaceSize(aclTensor* self, const aclTensor* from,
                                                         uint64_t* size, aclOpExecutor** executor) {
  return Operator("InplaceCopy", size, executor)
      .In(self, kAllTypes)
      .In(from, kAllTypes)
      .Broadcast(self, {self, from})
      // op, aclnnInplaceCopy: of one to eight dimensions.
      .Require(self == nullptr || !self->dims.empty(), "a tensor without dimensions")
      .Done([](const std::vector<View>& v) {
        const bool whole = IsWhole(v[0].dtype) && IsWhole(v[1].dtype);
        Walk<2>(v[0].dims, {&v[0], &v[1]}, [&](const std::array<int64_t, 2>& at) {
          if (whole) {
            StoreWhole(v[0], at[0], LoadWhole(v[1], at[1]));
          } else {
            Store(v[0], at[0], Load(v[1], at[1]));
          }
        });
      });
}

namespace {

int32_t Fill(const char* name, aclTensor* self, double value, uint64_t* size,
             aclOpExecutor** executor) {
  return Operator(name, size, executor)
      .In(self, kAllTypes)
      .Done([value](const std::vector<View>& v) {
        Walk<1>(v[0].dims, {&v[0]},
                [&](const std::array<int64_t, 1>& at) { Store(v[0], at[0], value); });
      });
}

}  // namespace

EMULATOR_EXPORT int32_t aclnnInplaceZeroGetWorkspaceSize(aclTensor* self, uint64_t* size,
                                                         aclOpExecutor** executor) {
  return Fill("InplaceZero", self, 0, size, executor);
}

EMULATOR_EXPORT int32_t aclnnInplaceFillScalarGetWorkspaceSize(aclTensor* self,
                                                               const aclScalar* value,
                                                               uint64_t* size,
                                                               aclOpExecutor** executor) {
  if (value == nullptr) return Fail(kAclnnParamNullptr, "aclnnInplaceFillScalar: value is null");
  return Fill("InplaceFillScalar", self, value->value, size, executor);
}

// op, aclnnInplaceMaskedFillScalar: the mask broadcasts to self.
EMULATOR_EXPORT int32_t aclnnInplaceMaskedFillScalarGetWorkspaceSize(aclTensor* self,
                                                                     const aclTensor* mask,
                                                                     const aclScalar* value,
                                                                     uint64_t* size,
                                                                     aclOpExecutor** executor) {
  if (value == nullptr) return Fail(kAclnnParamNullptr, "aclnnInplaceMaskedFillScalar: value");
  return Operator("InplaceMaskedFillScalar", size, executor)
      .In(self, kFloats | kIndices | kBools)
      .In(mask, kBools)
      .Broadcast(self, {self, mask})
      .Done([number = value->value](const std::vector<View>& v) {
        Walk<2>(v[0].dims, {&v[0], &v[1]}, [&](const std::array<int64_t, 2>& at) {
          if (LoadWhole(v[1], at[1]) != 0) Store(v[0], at[0], number);
        });
      });
}

// op, aclnnGather: out[i][j] = self[i][index[i][j]] along dim; out has index's shape. An index
// beyond self is undefined: it poisons the output here.
EMULATOR_EXPORT int32_t aclnnGatherGetWorkspaceSize(const aclTensor* self, int64_t dim,
                                                    const aclTensor* index, aclTensor* out,
                                                    uint64_t* size, aclOpExecutor** executor) {
  Operator op("Gather", size, executor);
  op.In(self, kAllTypes).In(index, kIndices).Out(out, kAllTypes).SameType(self, out);
  op.SameShape(index, out);
  const bool ranks = self != nullptr && index != nullptr && self->dims.size() == index->dims.size();
  op.Require(ranks, "self and index have one rank");
  if (ranks && dim < 0) dim += static_cast<int64_t>(self->dims.size());
  op.Require(ranks && dim >= 0 && dim < static_cast<int64_t>(self->dims.size()), "dim");
  return op.Done([dim](const std::vector<View>& v) {
    const View &from = v[0], &index = v[1], &to = v[2];
    View start = from;  // walks all dimensions but the one that is looked up
    start.strides[static_cast<size_t>(dim)] = 0;
    for (size_t d = 0; d < index.dims.size(); ++d) start.dims[d] = index.dims[d];
    Walk<3>(to.dims, {&start, &index, &to}, [&](const std::array<int64_t, 3>& at) {
      const int64_t i = LoadWhole(index, at[1]);
      const auto d = static_cast<size_t>(dim);
      if (i < 0 || i >= from.dims[d]) return Store(to, at[2], NAN);
      const int64_t place = at[0] + i * from.strides[d];
      if (IsWhole(from.dtype)) return StoreWhole(to, at[2], LoadWhole(from, place));
      Store(to, at[2], Load(from, place));
    });
  });
}

// op, aclnnEmbedding: rows of a matrix. A row beyond it is undefined: it poisons the output here.
EMULATOR_EXPORT int32_t aclnnEmbeddingGetWorkspaceSize(const aclTensor* weight,
                                                       const aclTensor* indices, aclTensor* out,
                                                       uint64_t* size, aclOpExecutor** executor) {
  Operator op("Embedding", size, executor);
  op.In(weight, kAllTypes).In(indices, kIndices).Out(out, kAllTypes).SameType(weight, out);
  if (weight != nullptr && indices != nullptr && out != nullptr) {
    op.Require(weight->dims.size() == 2, "weight is a matrix");
    std::vector<int64_t> dims = indices->dims;
    dims.push_back(weight->dims.back());
    op.Require(dims == out->dims, "out is not indices' shape and a row");
  }
  return op.Done([](const std::vector<View>& v) {
    const View& table = v[0];
    std::vector<int64_t> ids;
    Walk<1>(v[1].dims, {&v[1]},
            [&](const std::array<int64_t, 1>& at) { ids.push_back(LoadWhole(v[1], at[0])); });
    size_t next = 0;
    WalkRows(v[2], [&](const View& row) {
      const int64_t id = ids[next++];
      for (int64_t c = 0; c < row.dims[0]; ++c) {
        const bool known = id >= 0 && id < table.dims[0];
        Store(row, c * row.strides[0],
              known ? Load(table, id * table.strides[0] + c * table.strides[1]) : NAN);
      }
    });
  });
}

// op, aclnnEmbeddingDenseBackward: rows of `gradient` added to the rows of out that indices name; a
// negative padding index is none.
EMULATOR_EXPORT int32_t aclnnEmbeddingDenseBackwardGetWorkspaceSize(
    const aclTensor* gradient, const aclTensor* indices, uint64_t num_weights,
    uint64_t padding_index, bool scale_by_frequency, aclTensor* out, uint64_t* size,
    aclOpExecutor** executor) {
  Operator op("EmbeddingDenseBackward", size, executor);
  op.In(gradient, kFloats).In(indices, kIndices).Out(out, kFloats).SameType(gradient, out);
  op.Require(!scale_by_frequency, "emulated without scaling");
  if (gradient != nullptr && indices != nullptr && out != nullptr) {
    op.Require(gradient->dims.size() >= 2, "gradient has two dimensions at least");
    const std::vector<int64_t> dims = {static_cast<int64_t>(num_weights), gradient->dims.back()};
    op.Require(out->dims == dims, "out is not [numWeights, a row]");
    op.Require(Elements(gradient->dims) == Elements(indices->dims) * gradient->dims.back(),
               "a row of gradient an index");
    op.Workspace(static_cast<uint64_t>(Elements(indices->dims)) * 8 + 512);
  }
  return op.Done([padding = static_cast<int64_t>(padding_index)](const std::vector<View>& v) {
    const View& to = v[2];
    std::vector<double> sums(static_cast<size_t>(Elements(to.dims)), 0.0);
    std::vector<int64_t> ids;
    Walk<1>(v[1].dims, {&v[1]},
            [&](const std::array<int64_t, 1>& at) { ids.push_back(LoadWhole(v[1], at[0])); });
    size_t next = 0;
    WalkRows(v[0], [&](const View& row) {
      const int64_t id = ids[next++];
      if (id < 0 || id >= to.dims[0] || id == padding) return;
      for (int64_t c = 0; c < row.dims[0]; ++c) {
        sums[static_cast<size_t>(id * row.dims[0] + c)] += Load(row, c * row.strides[0]);
      }
    });
    size_t i = 0;
    Walk<1>(to.dims, {&to}, [&](const std::array<int64_t, 1>& at) { Store(to, at[0], sums[i++]); });
  });
}

}  // namespace ascend_emulator
