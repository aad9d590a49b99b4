#include "openclaw/core/nearest_name.h"

#include <gtest/gtest.h>

namespace oc {
namespace {

TEST(NearestName, InsertedMissingAndChangedLetters) {
  const std::vector<std::string> known = {"gelu", "softmax", "weight_decay", "relu"};
  EXPECT_EQ(NearestName("reluu", known), "relu");
  EXPECT_EQ(NearestName("sofmax", known), "softmax");
  EXPECT_EQ(NearestName("aoftmax", known), "softmax");
  EXPECT_EQ(NearestName("weight_decya", known), "weight_decay");
  EXPECT_EQ(NearestName("relu", known), "relu");
}

TEST(NearestName, TheNearestAndTheFirstOfEquals) {
  EXPECT_EQ(NearestName("layer", {"laser", "layers", "player"}), "laser");
  EXPECT_EQ(NearestName("layer", {"lair", "player", "laser"}), "player");
}

TEST(NearestName, NoneWhereMoreThanAThirdDiffers) {
  EXPECT_EQ(NearestName("relu", {"softmax"}), "");
  EXPECT_EQ(NearestName("relu", {}), "");
  // Two letters may always differ; three only of nine.
  EXPECT_EQ(NearestName("abcdefgh", {"abcdefxy"}), "abcdefxy");
  EXPECT_EQ(NearestName("abcdefgh", {"abcdexyz"}), "");
  EXPECT_EQ(NearestName("abcdefghi", {"abcdefxyz"}), "abcdefxyz");
}

TEST(NearestName, EmptyNames) {
  EXPECT_EQ(NearestName("", {"relu", "id"}), "id");
  EXPECT_EQ(NearestName("relu", {""}), "");
}

}  // namespace
}  // namespace oc
