#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/modules.h"

namespace oc::models {

StatusOr<Graph> LeNet(const LeNetOptions& options) {
  OC_RETURN_IF_ERROR(ExpectPositive("lenet", "classes", options.classes));
  GraphBuilder b("lenet");
  const nn::Sequential net = {
      "",
      {nn::Conv2d{.name = "conv1", .channels = 6, .kernel = 5, .padding = 2}, nn::Relu{},
       nn::MaxPool2d{2}, nn::Conv2d{.name = "conv2", .channels = 16, .kernel = 5}, nn::Relu{},
       nn::MaxPool2d{2}, nn::Flatten{}, nn::Linear{"fc1", 120}, nn::Relu{}, nn::Linear{"fc2", 84},
       nn::Relu{}, nn::Linear{"fc3", options.classes}}};
  ClassifierHead(b, net(b, Images(b, options.input)));
  return b.Finish();
}

}  // namespace oc::models
