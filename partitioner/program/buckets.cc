#include "openclaw/partitioner/program/buckets.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "openclaw/graph/sum_chunks.h"

namespace oc {
namespace {

int64_t AlignElements(int64_t n) {
  return (n + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
}

// Where pieces of the bucket may end, ascending.
std::vector<int64_t> PlacesToCut(const ProgramBucket& bucket, const std::vector<bool>& may_cut) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < bucket.names.size(); ++i) {
    places.push_back(bucket.offsets[i]);
    for (int64_t at = kSumChunk; may_cut[i] && at < bucket.sizes[i]; at += kSumChunk) {
      places.push_back(bucket.offsets[i] + at);
    }
  }
  places.push_back(bucket.elements);
  return places;
}

// The nearest place that is not before `least`.
int64_t Nearest(const std::vector<int64_t>& places, double wanted, int64_t least) {
  int64_t best = places.back();
  for (int64_t place : places) {
    if (place < least) continue;
    if (std::fabs(place - wanted) < std::fabs(best - wanted)) best = place;
  }
  return best;
}

// Divides buckets one after the other.
class Divider {
 public:
  explicit Divider(const std::vector<double>& weights)
      : weights_(weights), held_(weights.size(), 0) {
    const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    for (double& weight : weights_) weight /= sum;
  }

  void Divide(ProgramBucket& bucket, const std::vector<bool>& may_cut) {
    const std::vector<int64_t> places = PlacesToCut(bucket, may_cut);
    const size_t n = weights_.size();
    total_ += bucket.elements;
    std::vector<double> missing(n);
    for (size_t i = 0; i < n; ++i) {
      missing[i] = std::max(0.0, weights_[i] * static_cast<double>(total_) - held_[i]);
    }
    const double sum = std::accumulate(missing.begin(), missing.end(), 0.0);
    bucket.pieces = {0};
    double wanted = 0;
    for (size_t i = 0; i + 1 < n; ++i) {
      wanted += sum > 0 ? missing[i] / sum * static_cast<double>(bucket.elements) : 0;
      bucket.pieces.push_back(Nearest(places, wanted, bucket.pieces.back()));
    }
    bucket.pieces.push_back(bucket.elements);
    for (size_t i = 0; i < n; ++i) {
      held_[i] += static_cast<double>(bucket.pieces[i + 1] - bucket.pieces[i]);
    }
  }

 private:
  std::vector<double> weights_;  // sum 1
  std::vector<double> held_;     // elements so far
  int64_t total_ = 0;
};

}  // namespace

std::vector<ProgramBucket> MakeBuckets(const std::vector<BucketTensor>& tensors,
                                       const BucketOptions& options) {
  int64_t total = 0;
  for (const BucketTensor& t : tensors) total += t.elements * options.element_bytes;
  const int64_t limit = std::min(options.bytes, std::max(kLeastBucketBytes, total / kFewBuckets));
  std::vector<ProgramBucket> buckets;
  std::vector<std::vector<bool>> may_cut;
  for (const BucketTensor& t : tensors) {
    const bool full =
        buckets.empty() ||
        (AlignElements(buckets.back().elements) + t.elements) * options.element_bytes > limit;
    if (full) {
      buckets.emplace_back();
      may_cut.emplace_back();
    }
    ProgramBucket& bucket = buckets.back();
    bucket.names.push_back(t.name);
    bucket.sums.push_back(t.sum);
    bucket.offsets.push_back(AlignElements(bucket.elements));
    bucket.sizes.push_back(t.elements);
    bucket.elements = bucket.offsets.back() + t.elements;
    may_cut.back().push_back(t.may_cut);
  }
  Divider divider(options.weights);
  for (size_t b = 0; b < buckets.size(); ++b) divider.Divide(buckets[b], may_cut[b]);
  return buckets;
}

TensorPart PartOf(const ProgramBucket& bucket, int index, int member) {
  const int64_t offset = bucket.offsets[index], size = bucket.sizes[index];
  const int64_t begin = std::clamp<int64_t>(bucket.pieces[member] - offset, 0, size);
  const int64_t end = std::clamp<int64_t>(bucket.pieces[member + 1] - offset, 0, size);
  return begin < end ? TensorPart{begin, end} : TensorPart{};
}

}  // namespace oc
