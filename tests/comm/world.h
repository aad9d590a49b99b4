// One suite over several transports: a world runs a body on every rank, each on a thread of its
// own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "openclaw/comm/transport.h"

namespace oc {

class TestWorld {
 public:
  virtual ~TestWorld() = default;
  // Whether ranks are in several processes: messages may then be buffered by MPI.
  virtual bool across_processes() const = 0;
  // Runs `body` on the ranks 0..ranks-1 that this process holds and returns when they are done.
  // Every process of the job calls it.
  virtual void Run(int ranks, const std::function<void(Transport&)>& body) = 0;
};

// Defined by each program of the suite.
TestWorld& World();

// The ranks of `ends`, one thread each.
void RunOnThreads(std::span<const std::unique_ptr<Transport>> ends,
                  const std::function<void(Transport&)>& body);
// In this process, whatever World is.
void RunInproc(int ranks, const std::function<void(Transport&)>& body);

}  // namespace oc

#define EXPECT_OK(expression)                           \
  do {                                                  \
    const ::oc::Status oc_test_status = (expression);   \
    EXPECT_TRUE(oc_test_status.ok()) << oc_test_status; \
  } while (false)
