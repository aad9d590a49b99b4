// The examination of a machine: what is well, and plugins that are not. A program of its own: it
// forks before anything computes.
#include "openclaw/runtime/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Finding> About(const Diagnosis& diagnosis, const std::string& subject) {
  std::vector<Finding> found;
  for (const Finding& f : diagnosis.findings) {
    if (f.subject.find(subject) != std::string::npos) found.push_back(f);
  }
  return found;
}

TEST(Doctor, DevicesTrainAndAPluginThatLacksOpsSaysSo) {
  const Diagnosis diagnosis = Diagnose({.plugins = {PLAIN_PLUGIN}});
  EXPECT_TRUE(diagnosis.ok()) << ToText(diagnosis);
  for (const char* subject : {"memory", "library", "cpu:0", "reference:0"}) {
    const auto found = About(diagnosis, subject);
    ASSERT_EQ(found.size(), 1u) << subject;
    EXPECT_EQ(found[0].level, Finding::Level::kOk) << found[0].what;
  }
  EXPECT_THAT(About(diagnosis, "cpu:0")[0].what,
              AllOf(HasSubstr("trains mlp: loss"), HasSubstr("trains gpt: loss")));
  const auto plain = About(diagnosis, "plain:0");
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].level, Finding::Level::kNote);
  EXPECT_THAT(plain[0].what, AllOf(HasSubstr("trains mlp"), HasSubstr("trains gpt"),
                                   HasSubstr("without kernels of"), HasSubstr("layer_norm")));
  EXPECT_NE(plain[0].remedy, "");
  EXPECT_TRUE(About(diagnosis, "sim").empty());
  EXPECT_TRUE(nlohmann::json::parse(ToJson(diagnosis))["ok"].get<bool>());
}

TEST(Doctor, APluginThatDoesNotLoadIsAFaultWithARemedy) {
  const std::string crashes = std::string(FAULTY_DIR) + "/libfaulty_crash.so";
  const Diagnosis diagnosis = Diagnose({.plugins = {crashes, "nowhere.so"}, .devices = {"cpu"}});
  EXPECT_FALSE(diagnosis.ok());
  for (const std::string& file : {crashes, std::string("nowhere.so")}) {
    const auto found = About(diagnosis, file);
    ASSERT_EQ(found.size(), 1u) << file;
    EXPECT_EQ(found[0].level, Finding::Level::kFault);
    EXPECT_NE(found[0].remedy, "");
  }
  EXPECT_THAT(About(diagnosis, crashes)[0].what, HasSubstr("crashed"));
  EXPECT_EQ(About(diagnosis, "cpu:0").size(), 1u);  // the others are examined all the same
  EXPECT_THAT(ToText(diagnosis), HasSubstr("faults: 2"));
}

TEST(Doctor, ADeviceThatHangsOrCrashesIsAFault) {
  const auto examine = [](const std::string& fault) {
    return Diagnose({.plugins = {std::string(FAULTY_DIR) + "/libfaulty_" + fault + ".so"},
                     .devices = {"reference"},
                     .timeout_seconds = 6});
  };
  Diagnosis diagnosis = examine("hang_enqueue");
  EXPECT_FALSE(diagnosis.ok());
  const auto found = About(diagnosis, "plain:0");
  ASSERT_EQ(found.size(), 1u) << ToText(diagnosis);
  EXPECT_EQ(found[0].level, Finding::Level::kFault);
  EXPECT_THAT(found[0].what, AllOf(HasSubstr("libfaulty_hang_enqueue.so, enqueue"),
                                   HasSubstr("has not returned for")));
  diagnosis = examine("crash_enqueue");
  EXPECT_FALSE(diagnosis.ok());
  EXPECT_THAT(ToText(diagnosis),
              HasSubstr("while a model was trained on plain:0: it crashed (signal 11"));
}

TEST(Doctor, WhatIsAskedForMustBeThere) {
  const Diagnosis diagnosis = Diagnose({.devices = {"cpu", "gpux", "sim"}});
  EXPECT_FALSE(diagnosis.ok());
  const auto found = About(diagnosis, "gpux");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].level, Finding::Level::kFault);
  EXPECT_THAT(About(diagnosis, "sim:0")[0].what, HasSubstr("trains mlp"));
}

}  // namespace
}  // namespace oc
