#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/modules.h"

namespace oc::models {

StatusOr<Graph> Mlp(const MlpOptions& options) {
  OC_RETURN_IF_ERROR(ExpectPositive("mlp", "classes", options.classes));
  for (int64_t width : options.hidden) OC_RETURN_IF_ERROR(ExpectPositive("mlp", "hidden", width));
  GraphBuilder b("mlp");
  Val x = nn::Flatten{}(b, Images(b, options.input));
  int layer = 0;
  const auto name = [&layer] { return absl::StrCat("layers.", layer++); };
  for (int64_t width : options.hidden) {
    x = nn::Relu{}(b, nn::Linear{name(), width}(b, x));
    x = nn::Dropout{options.dropout}(b, x);
  }
  ClassifierHead(b, nn::Linear{name(), options.classes}(b, x));
  return b.Finish();
}

}  // namespace oc::models
