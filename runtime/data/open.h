// The data sets of an experiment, from its configuration.
//
//   OC_ASSIGN_OR_RETURN(DataSets data, OpenData(config.data, {.context = 256}));
//   model.vocabulary = data.classes;
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "openclaw/core/config.h"
#include "openclaw/core/status.h"
#include "openclaw/runtime/data/dataset.h"

namespace oc {

// What the model says about its data.
struct DataHints {
  int64_t context = 0;             // text and tokens: tokens in a sample
  std::optional<int64_t> classes;  // of labels, or the vocabulary; none: from the data
};

struct DataSets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null where none is configured
  int64_t classes = 0;                  // as hinted, or from the data
  // Text and tokens: nats a token, of the validation set where there is one.
  std::optional<double> unigram_entropy;
};

// Reads and checks the files at once, so that what is wrong with them is said before training. The
// validation images are normalised with the mean and deviation of the training images. Errors name
// the configuration key and are those of IdxDataset and TokenDataset; kInvalidArgument for an
// unknown format, files that a format needs, or validation images of another shape.
StatusOr<DataSets> OpenData(const DataConfig& config, const DataHints& hints);

}  // namespace oc
