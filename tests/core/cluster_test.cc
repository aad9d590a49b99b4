#include "openclaw/core/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oc {
namespace {

using ::testing::HasSubstr;

TEST(LinkCurve, LatencyAndBandwidth) {
  const LinkCurve curve = LinkCurve::Of(1e-5, 1e9);
  EXPECT_NEAR(curve.Seconds(0), 1e-5, 1e-12);
  EXPECT_NEAR(curve.Seconds(1000), 1e-5 + 1e-6, 1e-12);
  EXPECT_NEAR(curve.Seconds(1 << 30), 1e-5 + (1 << 30) / 1e9, 1e-9);
}

TEST(LinkCurve, InterpolatesBetweenAndGoesOnAboveTheMeasuredSizes) {
  const LinkCurve curve = {{{100, 1.0}, {200, 3.0}, {400, 4.0}}};
  EXPECT_DOUBLE_EQ(curve.Seconds(1), 1.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(100), 1.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(150), 2.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(200), 3.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(300), 3.5);
  EXPECT_DOUBLE_EQ(curve.Seconds(400), 4.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(800), 6.0);
}

TEST(LinkCurve, FewPoints) {
  EXPECT_EQ(LinkCurve{}.Seconds(100), 0);
  const LinkCurve one = {{{100, 2.0}}};
  EXPECT_DOUBLE_EQ(one.Seconds(10), 2.0);
  EXPECT_DOUBLE_EQ(one.Seconds(300), 6.0);
  const LinkCurve twice = {{{100, 2.0}, {100, 2.0}}};
  EXPECT_DOUBLE_EQ(twice.Seconds(150), 2.0);
}

// Measuring noise may make a larger message look faster; a prediction never falls.
TEST(LinkCurve, NeverFalls) {
  const LinkCurve curve = {{{100, 5.0}, {200, 3.0}}};
  EXPECT_DOUBLE_EQ(curve.Seconds(200), 5.0);
  EXPECT_DOUBLE_EQ(curve.Seconds(1000), 5.0);
}

ClusterSpec TwoVcus() {
  ClusterSpec spec;
  for (const char* name : {"cpu:0", "cpu:1"}) {
    VcuSpec vcu;
    vcu.name = name;
    vcu.memory_bytes = 1 << 20;
    spec.vcus.push_back(vcu);
  }
  spec.links.assign(4, LinkCurve::Of(1e-6, 1e9));
  return spec;
}

TEST(ClusterSpec, Validate) {
  EXPECT_TRUE(TwoVcus().Validate().ok());
  EXPECT_THAT(ClusterSpec{}.Validate().ToString(), HasSubstr("no VCU"));
  ClusterSpec spec = TwoVcus();
  spec.vcus[1].name = "cpu:0";
  EXPECT_THAT(spec.Validate().ToString(), HasSubstr("two VCUs named cpu:0"));
  spec = TwoVcus();
  spec.vcus[1].memory_bytes = 0;
  EXPECT_THAT(spec.Validate().ToString(), HasSubstr("cpu:1 has no memory budget"));
  spec = TwoVcus();
  spec.links.pop_back();
  EXPECT_THAT(spec.Validate().ToString(), HasSubstr("3 links for 2 VCUs"));
  EXPECT_EQ(TwoVcus().Validate().code(), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace oc
