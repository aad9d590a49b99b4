// How gradients and what belongs to them are put into buckets, and buckets divided over the members
// of a group. Internal to partitioner/program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/partitioner/program/program.h"

namespace oc {

struct BucketTensor {
  std::string name, sum;
  int64_t elements = 0;
  // Whether a piece may end inside it, at a whole chunk (graph/sum_chunks.h); else it is some
  // member's whole.
  bool may_cut = false;
};

struct BucketOptions {
  // A bucket ends before it would hold more than this, which a tensor alone may do. Where fewer
  // than kFewBuckets would come of it they are made smaller, down to kLeastBucketBytes: what is
  // reduced last is reduced beside nothing.
  int64_t bytes = int64_t{32} << 20;
  int element_bytes = 4;
  std::vector<double> weights;  // of the members' pieces against each other; one a member
};
inline constexpr int kFewBuckets = 8;
inline constexpr int64_t kLeastBucketBytes = int64_t{256} << 10;

// Whole tensors in their order, in as many buckets as it takes. Pieces follow the weights over all
// buckets so far: what one bucket's tensors do not allow is made up in the next.
std::vector<ProgramBucket> MakeBuckets(const std::vector<BucketTensor>& tensors,
                                       const BucketOptions& options);

// Elements [begin, end) of a flattened tensor.
struct TensorPart {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};
// What member `member` has of the bucket's tensor `index`; {0, 0} for nothing.
TensorPart PartOf(const ProgramBucket& bucket, int index, int member);

}  // namespace oc
