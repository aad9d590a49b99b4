#include <cmath>

#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/modules.h"

namespace oc::models {
namespace {

// Blocks a stage, and whether they are bottlenecks.
struct Depth {
  std::vector<int64_t> blocks;
  bool bottleneck = false;
};

StatusOr<Depth> FindDepth(int64_t depth) {
  switch (depth) {
    case 18:
      return Depth{{2, 2, 2, 2}, false};
    case 34:
      return Depth{{3, 4, 6, 3}, false};
    case 50:
      return Depth{{3, 4, 6, 3}, true};
    case 101:
      return Depth{{3, 4, 23, 3}, true};
    case 152:
      return Depth{{3, 8, 36, 3}, true};
    default:
      return InvalidArgument("build resnet: depth is ", depth, ", wants 18, 34, 50, 101 or 152");
  }
}

// Without bias, and normal with variance 2 / fan_out (He et al., 2015), as torchvision begins.
nn::Conv2d Conv(const std::string& name, int64_t channels, int64_t kernel, int64_t stride) {
  const double fan_out = static_cast<double>(channels * kernel * kernel);
  return {.name = name,
          .channels = channels,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false,
          .weight_init = Initializer::Normal(0, std::sqrt(2 / fan_out))};
}

struct Block {
  int64_t width = 64;
  int64_t stride = 1;
  bool bottleneck = false;

  Val operator()(GraphBuilder& b, Val x) const {
    const int64_t channels = bottleneck ? 4 * width : width;
    Val y;
    if (bottleneck) {
      y = nn::Relu{}(b, nn::BatchNorm2d{"bn1"}(b, Conv("conv1", width, 1, 1)(b, x)));
      y = nn::Relu{}(b, nn::BatchNorm2d{"bn2"}(b, Conv("conv2", width, 3, stride)(b, y)));
      y = nn::BatchNorm2d{"bn3"}(b, Conv("conv3", channels, 1, 1)(b, y));
    } else {
      y = nn::Relu{}(b, nn::BatchNorm2d{"bn1"}(b, Conv("conv1", width, 3, stride)(b, x)));
      y = nn::BatchNorm2d{"bn2"}(b, Conv("conv2", channels, 3, 1)(b, y));
    }
    if (!b.status().ok()) return {};
    if (stride != 1 || !(b.shape(x)[-1] == Dim(channels))) {
      const nn::Sequential downsample = {"downsample",
                                         {Conv("0", channels, 1, stride), nn::BatchNorm2d{"1"}}};
      x = downsample(b, x);
    }
    return nn::Relu{}(b, b.Add(y, x));
  }
};

Val Stem(GraphBuilder& b, Val x, const ResNetOptions& options) {
  const bool small = options.stem == "small";
  x = Conv("conv1", options.width, small ? 3 : 7, small ? 1 : 2)(b, x);
  x = nn::Relu{}(b, nn::BatchNorm2d{"bn1"}(b, x));
  return small ? x : nn::MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}(b, x);
}

}  // namespace

StatusOr<Graph> ResNet(const ResNetOptions& options) {
  OC_ASSIGN_OR_RETURN(const Depth depth, FindDepth(options.depth));
  OC_RETURN_IF_ERROR(ExpectPositive("resnet", "classes", options.classes));
  OC_RETURN_IF_ERROR(ExpectPositive("resnet", "width", options.width));
  if (options.stem != "small" && options.stem != "imagenet") {
    return InvalidArgument("build resnet: stem is '", options.stem, "', wants small or imagenet");
  }
  GraphBuilder b(absl::StrCat("resnet", options.depth));
  Val x = Stem(b, Images(b, options.input), options);
  for (size_t stage = 0; stage < depth.blocks.size(); ++stage) {
    for (int64_t i = 0; i < depth.blocks[stage]; ++i) {
      const nn::ScopeGuard scope(b, absl::StrCat("layer", stage + 1, ".", i));
      const nn::Module block = Block{.width = options.width << stage,
                                     .stride = stage > 0 && i == 0 ? 2 : 1,
                                     .bottleneck = depth.bottleneck};
      x = options.checkpoint ? nn::Checkpoint(block)(b, x) : block(b, x);
    }
  }
  x = nn::GlobalAvgPool{}(b, x);
  ClassifierHead(b, nn::Linear{"fc", options.classes}(b, x));
  return b.Finish();
}

}  // namespace oc::models
