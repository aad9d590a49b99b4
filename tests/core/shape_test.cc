#include "openclaw/core/shape.h"

#include <gtest/gtest.h>

namespace oc {
namespace {

TEST(Dim, Algebra) {
  const Dim b("B"), t("T");
  EXPECT_EQ((b * t).ToString(), "B*T");
  EXPECT_EQ(t * b, b * t);
  EXPECT_EQ((Dim(4) * t * b).ToString(), "4*B*T");
  EXPECT_EQ(*(Dim(12) * b * t).DividedBy(Dim(4) * b), Dim(3) * t);
  EXPECT_EQ(*(b * b).DividedBy(b), b);
  EXPECT_FALSE(b.DividedBy(t).ok());
  EXPECT_FALSE((Dim(3) * b).DividedBy(Dim(2)).ok());
  EXPECT_FALSE(Dim(3).DividedBy(Dim(int64_t{0})).ok());
  EXPECT_EQ(*Dim(6).DividedBy(Dim(3)), Dim(2));
  EXPECT_FALSE(b.bound());
  EXPECT_EQ((Dim(4) * b * t).Bind({{"B", 5}}).ToString(), "20*T");
  EXPECT_EQ((Dim(4) * b * t).Bind({{"B", 5}, {"T", 2}}).size(), 40);
}

TEST(Dim, ProductsDoNotOverflow) {
  const Dim large(int64_t{1} << 62);
  EXPECT_EQ((large * large).size(), INT64_MAX);
  EXPECT_EQ((Dim("B") * large).Bind({{"B", 1000}}).size(), INT64_MAX);
  EXPECT_EQ(Dim::Parse("9000000000000000000*9000000000000000000")->size(), INT64_MAX);
}

TEST(Dim, TextRoundTrip) {
  for (const char* text : {"0", "1", "28", "B", "B*T", "4*B*B*T", "seq_len2", "_x"}) {
    const auto dim = Dim::Parse(text);
    ASSERT_TRUE(dim.ok()) << text;
    EXPECT_EQ(dim->ToString(), text);
  }
  EXPECT_EQ(Dim::Parse("T*2*B*3")->ToString(), "6*B*T");
  for (const char* bad : {"", "-1", "+1", " 1", "B*", "*B", "B C", "2B", "B-1", "\xc3\xa4",
                          "99999999999999999999", "1e3", "B**T"}) {
    EXPECT_FALSE(Dim::Parse(bad).ok()) << bad;
  }
}

TEST(Shape, IndexingBindingElements) {
  Shape s = {Dim("B"), 28, 28, 3};
  EXPECT_EQ(s.rank(), 4);
  EXPECT_EQ(s[-1], Dim(3));
  EXPECT_EQ(s[0], Dim("B"));
  EXPECT_EQ(s.elements(), Dim(2352) * Dim("B"));
  EXPECT_FALSE(s.bound());
  const Shape bound = s.Bind({{"B", 2}, {"unused", 9}});
  EXPECT_EQ(bound.sizes(), (std::vector<int64_t>{2, 28, 28, 3}));
  EXPECT_EQ(bound.num_elements(), 4704);
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape::Of({0, 5}).num_elements(), 0);
  s[-1] = Dim("C");
  EXPECT_EQ(s.ToString(), "[B, 28, 28, C]");
}

TEST(Shape, TextRoundTrip) {
  for (const char* text : {"[]", "[4]", "[B, 4*T, 3]", "[0]"}) {
    const auto shape = Shape::Parse(text);
    ASSERT_TRUE(shape.ok()) << text;
    EXPECT_EQ(shape->ToString(), text);
  }
  EXPECT_EQ(Shape::Parse("[ B ,4 ]")->ToString(), "[B, 4]");
  for (const char* bad : {"", "[", "]", "4", "[4", "4]", "[4,]", "[,4]", "[4;5]", "[-4]"}) {
    EXPECT_FALSE(Shape::Parse(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace oc
