#include "openclaw/runtime/data/dataset.h"

#include <utility>

namespace oc {

Dataset::Dataset(std::vector<Feature> features) : features_(std::move(features)) {
  for (const Feature& feature : features_) {
    OC_CHECK(feature.type.shape.bound(), "feature ", feature.name, " ", feature.type.ToString());
    OC_CHECK(&features_[FindFeature(feature.name)] == &feature, "two features ", feature.name);
    layouts_.push_back(
        {feature.type.dtype, feature.type.shape.num_elements(), feature.type.bytes()});
  }
}

int Dataset::FindFeature(const std::string& name) const {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (features_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace oc
