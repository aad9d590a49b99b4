#include "openclaw/comm/tag.h"

#include <gtest/gtest.h>

#include <set>

namespace oc {
namespace {

TEST(Tag, GroupTagsAreNegativeAndDistinct) {
  std::set<int64_t> seen;
  for (const int64_t epoch : {int64_t{0}, int64_t{1}, kMaxGroupEpoch}) {
    for (const int64_t id : {int64_t{0}, int64_t{1}, kMaxGroupId}) {
      for (const int64_t step : {int64_t{0}, int64_t{1}, kMaxGroupStep}) {
        const int64_t tag = GroupTag(epoch, id, step);
        EXPECT_LT(tag, 0);
        EXPECT_TRUE(seen.insert(tag).second);
      }
    }
  }
}

TEST(Tag, NamesSayWhatATagIs) {
  EXPECT_EQ(TagName(7), "tag 7");
  EXPECT_EQ(TagName(GroupTag(2, 7, 3)), "group 7, epoch 2, step 3");
  EXPECT_EQ(TagName(GroupTag(kMaxGroupEpoch, kMaxGroupId, 0)),
            "group 16777215, epoch 32767, step 0");
}

}  // namespace
}  // namespace oc
