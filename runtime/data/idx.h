// Images and labels in the IDX format of MNIST and Fashion-MNIST, plain or gzipped (told by
// content).
//
//   OC_ASSIGN_OR_RETURN(auto train, IdxDataset::Open("train-images.gz", "train-labels.gz", {}));
//   OC_ASSIGN_OR_RETURN(auto test, IdxDataset::Open("t10k-images.gz", "t10k-labels.gz",
//       {.classes = train->classes(), .normalisation = train->normalisation()}));
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/runtime/data/dataset.h"

namespace oc {

// Bytes with dimensions, as the file has them.
struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;
};

// Reads an IDX file of unsigned bytes. kInvalidArgument: missing, not IDX, another element type.
// kDataLoss: cut off, longer than its header says, or a damaged gzip stream. Names file and byte.
StatusOr<IdxArray> ReadIdx(const std::string& path);

// Of pixels scaled to [0, 1].
struct Normalisation {
  double mean = 0;
  double stddev = 1;
};

struct IdxOptions {
  std::optional<int64_t> classes;              // none: the largest label and one
  std::optional<Normalisation> normalisation;  // none: that of these images
};

// Features "images" f32[H, W, C], a pixel x as (x/255 - mean) / stddev with one mean and one
// standard deviation over all pixels of the training set (give those to the validation set), and
// "labels" i32[]. Held in memory as bytes.
class IdxDataset : public Dataset {
 public:
  // Images are [N, H, W] (C is then 1) or [N, H, W, C], labels [N]. Errors as ReadIdx, and
  // kInvalidArgument for other ranks (naming files that look swapped), unlike counts, no samples,
  // or a label that is not below `classes` (naming its position).
  static StatusOr<std::unique_ptr<IdxDataset>> Open(const std::string& images,
                                                    const std::string& labels,
                                                    const IdxOptions& options);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Status Read(int64_t index, Sample& sample) const override;

  int64_t classes() const { return classes_; }
  const Normalisation& normalisation() const { return normalisation_; }

 private:
  IdxDataset(Shape image, IdxArray images, IdxArray labels, int64_t classes,
             const Normalisation& normalisation);

  std::vector<uint8_t> pixels_, labels_;
  int64_t classes_;
  Normalisation normalisation_;
  std::array<float, 256> values_;  // of each byte
};

}  // namespace oc
