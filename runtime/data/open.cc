#include "openclaw/runtime/data/open.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/runtime/data/idx.h"
#include "openclaw/runtime/data/tokens.h"

namespace oc {
namespace {

template <typename T>
StatusOr<T> At(const char* key, StatusOr<T> result) {
  if (result.ok()) return result;
  return Annotate(result.status(), key);
}

StatusOr<DataSets> OpenIdx(const DataConfig& config, const DataHints& hints) {
  if (config.train_images.empty() || config.train_labels.empty()) {
    return InvalidArgument(
        "data.train: format idx needs two files: train: {images: FILE, labels: FILE}");
  }
  if (config.validation_images.empty() != config.validation_labels.empty()) {
    return InvalidArgument(
        "data.validation: format idx needs two files: validation: {images: FILE, labels: FILE}");
  }
  DataSets data;
  OC_ASSIGN_OR_RETURN(auto train,
                      At("data.train", IdxDataset::Open(config.train_images, config.train_labels,
                                                        {.classes = hints.classes})));
  data.classes = train->classes();
  if (!config.validation_images.empty()) {
    OC_ASSIGN_OR_RETURN(
        auto validation,
        At("data.validation",
           IdxDataset::Open(config.validation_images, config.validation_labels,
                            {.classes = data.classes, .normalisation = train->normalisation()})));
    const TensorType& expected = train->features()[0].type;
    const TensorType& found = validation->features()[0].type;
    if (found != expected) {
      return InvalidArgument("data.validation: images of ", config.validation_images, " are ",
                             found.ToString(), ", those of ", config.train_images, " are ",
                             expected.ToString());
    }
    data.validation = std::move(validation);
  }
  data.train = std::move(train);
  return data;
}

StatusOr<DataSets> OpenTokens(const DataConfig& config, const DataHints& hints) {
  const auto open = config.format == "text" ? TokenDataset::OpenText : TokenDataset::OpenBin;
  if (config.train.empty()) {
    return InvalidArgument("data.train: format ", config.format, " needs at least one file");
  }
  const TokenOptions options{.context = hints.context, .vocabulary = hints.classes};
  DataSets data;
  OC_ASSIGN_OR_RETURN(auto train, At("data.train", open(config.train, options)));
  data.classes = train->vocabulary();
  data.unigram_entropy = UnigramEntropy(train->counts());
  if (!config.validation.empty()) {
    OC_ASSIGN_OR_RETURN(auto validation, At("data.validation", open(config.validation, options)));
    data.classes = std::max(data.classes, validation->vocabulary());
    data.unigram_entropy = UnigramEntropy(validation->counts());
    data.validation = std::move(validation);
  }
  data.train = std::move(train);
  return data;
}

}  // namespace

StatusOr<DataSets> OpenData(const DataConfig& config, const DataHints& hints) {
  if (config.format == "idx") return OpenIdx(config, hints);
  if (config.format == "text" || config.format == "tokens") return OpenTokens(config, hints);
  return InvalidArgument("data.format: '", config.format,
                         "' is unknown; known are idx, text and tokens");
}

}  // namespace oc
