// The ascend leaf's collectives, at the table's level, on two emulated devices.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "openclaw/devices/openclaw_device.h"

namespace oc {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

// A slice of one device with a queue and a buffer of 256 bytes.
class Rank {
 public:
  Rank(const oc_device_api& api, int32_t index) : api_(api) {
    EXPECT_EQ(api.open(index, &device_, &error_), OC_OK) << error_.message;
    const oc_slice_options options = {.struct_size = sizeof(options), .compute_units = 1};
    EXPECT_EQ(api.create_slice(device_, &options, &slice_, &error_), OC_OK) << error_.message;
    EXPECT_EQ(api.allocate(slice_, 256, &buffer_, &error_), OC_OK) << error_.message;
    EXPECT_EQ(api.create_queue(slice_, "group", &queue_, &error_), OC_OK) << error_.message;
    EXPECT_EQ(api.create_event(slice_, &event_, &error_), OC_OK) << error_.message;
  }
  ~Rank() {
    api_.destroy_event(event_);
    api_.destroy_queue(queue_);
    api_.free(buffer_);
    api_.destroy_slice(slice_);
    api_.close(device_);
  }
  oc_slice* slice() const { return slice_; }
  oc_queue* queue() const { return queue_; }
  oc_range Range(int64_t offset, int64_t floats) const { return {buffer_, offset, floats * 4}; }
  void Write(int64_t offset, const Floats& values) {
    const oc_range to = Range(offset, static_cast<int64_t>(values.size()));
    EXPECT_EQ(
        api_.copy_from_host(queue_, &to, reinterpret_cast<const uint8_t*>(values.data()), &error_),
        OC_OK)
        << error_.message;
    Wait();
  }
  Floats Read(int64_t offset, size_t count) {
    Floats values(count, NAN);
    const oc_range from = Range(offset, static_cast<int64_t>(count));
    EXPECT_EQ(api_.copy_to_host(queue_, reinterpret_cast<uint8_t*>(values.data()), &from, &error_),
              OC_OK)
        << error_.message;
    Wait();
    return values;
  }

 private:
  void Wait() {
    EXPECT_EQ(api_.record(queue_, event_, &error_), OC_OK) << error_.message;
    EXPECT_EQ(api_.event_wait(event_, 60, &error_), OC_OK) << error_.message;
  }

  const oc_device_api& api_;
  oc_device* device_ = nullptr;
  oc_slice* slice_ = nullptr;
  oc_buffer* buffer_ = nullptr;
  oc_queue* queue_ = nullptr;
  oc_event* event_ = nullptr;
  oc_error error_ = {.struct_size = sizeof(oc_error)};
};

class AscendCollectivesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ASCEND_HOME_PATH", ASCEND_EMULATOR, 1);
    void* library = dlopen(ASCEND_MODULE, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* query =
        reinterpret_cast<oc_device_query_function>(dlsym(library, OC_DEVICE_QUERY_SYMBOL));
    ASSERT_NE(query, nullptr);
    api_ = query(OC_DEVICE_ABI_VERSION, nullptr);
    ASSERT_NE(api_, nullptr);
    group_ = api_->collectives;
    ASSERT_NE(group_, nullptr);
    int32_t devices = 0;
    ASSERT_EQ(api_->count(&devices, &error_), OC_OK) << error_.message;
    ASSERT_EQ(devices, 2);
  }
  std::vector<uint8_t> MakeId(const Rank& rank) {
    int64_t bytes = 0;
    EXPECT_EQ(group_->id_bytes(rank.slice(), &bytes, &error_), OC_OK);
    std::vector<uint8_t> id(static_cast<size_t>(bytes));
    EXPECT_EQ(group_->make_id(rank.slice(), id.data(), &error_), OC_OK) << error_.message;
    return id;
  }
  // Runs f on both ranks, a thread each, then `left` once the rank has left.
  using Body =
      std::function<void(int32_t rank, Rank& self, oc_communicator* comm, oc_error* error)>;
  void OnBoth(
      const Body& f, const std::function<void(int32_t rank)>& left = [](int32_t) {}) {
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int32_t i = 0; i < 2; ++i) ranks.push_back(std::make_unique<Rank>(*api_, i));
    const std::vector<uint8_t> id = MakeId(*ranks[0]);
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        oc_error error = {.struct_size = sizeof(oc_error)};
        oc_communicator* comm = nullptr;
        ASSERT_EQ(group_->join(ranks[i]->slice(), id.data(), i, 2, 30, &comm, &error), OC_OK)
            << error.message;
        f(i, *ranks[i], comm, &error);
        group_->leave(comm);
        left(i);
      });
    }
    for (std::thread& t : threads) t.join();
  }

  const oc_device_api* api_ = nullptr;
  const oc_collective_api* group_ = nullptr;
  oc_error error_ = {.struct_size = sizeof(oc_error)};
};

TEST_F(AscendCollectivesTest, SaysWhatItCan) {
  Rank rank(*api_, 0);
  uint64_t collectives = 0, reductions = 0;
  EXPECT_EQ(group_->capabilities(rank.slice(), OC_F32, &collectives, &reductions, &error_), OC_OK);
  EXPECT_EQ(collectives, OC_COLLECTIVE_ALL_REDUCE | OC_COLLECTIVE_ALL_GATHER |
                             OC_COLLECTIVE_REDUCE_SCATTER | OC_COLLECTIVE_BROADCAST |
                             OC_COLLECTIVE_SEND_RECV);
  EXPECT_EQ(reductions, 1u << OC_REDUCE_SUM | 1u << OC_REDUCE_MAX | 1u << OC_REDUCE_AVERAGE);
  EXPECT_EQ(group_->capabilities(rank.slice(), OC_U8, &collectives, &reductions, &error_), OC_OK);
  EXPECT_EQ(collectives & OC_COLLECTIVE_ALL_REDUCE, 0u);
  EXPECT_EQ(reductions, 0u);
  EXPECT_EQ(group_->capabilities(rank.slice(), 99, &collectives, &reductions, &error_),
            OC_UNIMPLEMENTED);
}

TEST_F(AscendCollectivesTest, ReducesAveragesAndScatters) {
  OnBoth([&](int32_t rank, Rank& self, oc_communicator* comm, oc_error* error) {
    const float own = static_cast<float>(rank + 1);
    self.Write(0, {own, 10 * own});
    const oc_range from = self.Range(0, 2), to = self.Range(64, 2), half = self.Range(64, 1);
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &from, &to, OC_F32, OC_REDUCE_SUM, error),
              OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 2), ElementsAre(3, 30));
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &from, &to, OC_F32, OC_REDUCE_MAX, error),
              OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 2), ElementsAre(2, 20));
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &from, &to, OC_F32, OC_REDUCE_AVERAGE, error),
              OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 2), ElementsAre(1.5, 15));
    EXPECT_THAT(self.Read(0, 2), ElementsAre(own, 10 * own));  // what was sent stays
    EXPECT_EQ(
        group_->reduce_scatter(comm, self.queue(), &from, &half, OC_F32, OC_REDUCE_SUM, error),
        OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 1), ElementsAre(rank == 0 ? 3 : 30));
    EXPECT_EQ(
        group_->reduce_scatter(comm, self.queue(), &from, &half, OC_F32, OC_REDUCE_AVERAGE, error),
        OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 1), ElementsAre(rank == 0 ? 1.5 : 15));
    EXPECT_EQ(group_->async_error(comm, error), OC_OK) << error->message;
  });
}

TEST_F(AscendCollectivesTest, GathersBroadcastsAndSends) {
  OnBoth([&](int32_t rank, Rank& self, oc_communicator* comm, oc_error* error) {
    self.Write(0, {static_cast<float>(rank + 5)});
    const oc_range own = self.Range(0, 1), all = self.Range(64, 2), other = self.Range(128, 1);
    EXPECT_EQ(group_->all_gather(comm, self.queue(), &own, &all, OC_F32, error), OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(64, 2), ElementsAre(5, 6));
    if (rank == 0) {
      EXPECT_EQ(group_->send(comm, self.queue(), &own, OC_F32, 1, error), OC_OK) << error->message;
    } else {
      EXPECT_EQ(group_->recv(comm, self.queue(), &other, OC_F32, 0, error), OC_OK)
          << error->message;
      EXPECT_THAT(self.Read(128, 1), ElementsAre(5));
    }
    EXPECT_EQ(group_->broadcast(comm, self.queue(), &own, OC_F32, 1, error), OC_OK)
        << error->message;
    EXPECT_THAT(self.Read(0, 1), ElementsAre(6));
  });
}

TEST_F(AscendCollectivesTest, LeavingWaitsForWhatIsPending) {
  std::atomic<bool> second_called = false;
  OnBoth(
      [&](int32_t rank, Rank& self, oc_communicator* comm, oc_error* error) {
        const oc_range from = self.Range(0, 2), to = self.Range(64, 2);
        if (rank == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          second_called = true;
        }
        EXPECT_EQ(group_->all_reduce(comm, self.queue(), &from, &to, OC_F32, OC_REDUCE_SUM, error),
                  OC_OK)
            << error->message;
      },
      [&](int32_t) { EXPECT_TRUE(second_called); });
}

// More than is divided at once, on two queues.
TEST_F(AscendCollectivesTest, AveragesOfManyElements) {
  OnBoth([&](int32_t rank, Rank& self, oc_communicator* comm, oc_error* error) {
    constexpr int64_t kCount = (int64_t{1} << 20) + 3;
    const std::vector<uint16_t> own(kCount, rank == 0 ? 0x4000 : 0x4080);  // bf16: 2, 4
    for (int queue_number = 0; queue_number < 2; ++queue_number) {
      oc_queue* queue = nullptr;
      oc_buffer* buffer = nullptr;
      oc_event* event = nullptr;
      ASSERT_EQ(api_->create_queue(self.slice(), "averages", &queue, error), OC_OK);
      ASSERT_EQ(api_->allocate(self.slice(), kCount * 2, &buffer, error), OC_OK);
      ASSERT_EQ(api_->create_event(self.slice(), &event, error), OC_OK);
      const oc_range all = {buffer, 0, kCount * 2};
      std::vector<uint16_t> result(own.size());
      EXPECT_EQ(
          api_->copy_from_host(queue, &all, reinterpret_cast<const uint8_t*>(own.data()), error),
          OC_OK);
      EXPECT_EQ(group_->all_reduce(comm, queue, &all, &all, OC_BF16, OC_REDUCE_AVERAGE, error),
                OC_OK)
          << error->message;
      EXPECT_EQ(api_->copy_to_host(queue, reinterpret_cast<uint8_t*>(result.data()), &all, error),
                OC_OK);
      EXPECT_EQ(api_->record(queue, event, error), OC_OK);
      EXPECT_EQ(api_->event_wait(event, 60, error), OC_OK) << error->message;
      EXPECT_THAT(result, Each(uint16_t{0x4040}));  // 3
      api_->destroy_event(event);
      api_->destroy_queue(queue);
      api_->free(buffer);
    }
  });
}

TEST_F(AscendCollectivesTest, WhatAFaultIs) {
  OnBoth([&](int32_t rank, Rank& self, oc_communicator* comm, oc_error*) {
    if (rank != 0) return;
    const oc_range from = self.Range(0, 2), to = self.Range(64, 2);
    for (const auto& [result, code] : {std::pair("3", OC_RESOURCE_EXHAUSTED),
                                       {"24", OC_RESOURCE_EXHAUSTED},
                                       {"19", OC_ABORTED},
                                       {"21", OC_ABORTED},
                                       {"9", OC_DEADLINE_EXCEEDED}}) {
      oc_error error = {.struct_size = sizeof(oc_error)};
      setenv("ASCEND_EMULATOR_HCCL_FAULT", result, 1);
      EXPECT_EQ(group_->all_reduce(comm, self.queue(), &from, &to, OC_F32, OC_REDUCE_SUM, &error),
                code)
          << error.message;
      unsetenv("ASCEND_EMULATOR_HCCL_FAULT");
    }
  });
}

TEST_F(AscendCollectivesTest, WhatDoesNotFitIsRefused) {
  OnBoth([&](int32_t, Rank& self, oc_communicator* comm, oc_error* error) {
    const oc_range two = self.Range(0, 2), three = self.Range(64, 3);
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &two, &three, OC_F32, OC_REDUCE_SUM, error),
              OC_INVALID_ARGUMENT);
    EXPECT_THAT(error->message, HasSubstr("all-reduce of 8 bytes to 12"));
    EXPECT_EQ(group_->all_gather(comm, self.queue(), &two, &three, OC_F32, error),
              OC_INVALID_ARGUMENT);
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &two, &two, OC_U8, OC_REDUCE_SUM, error),
              OC_UNIMPLEMENTED);
    EXPECT_THAT(error->message, HasSubstr("u8"));
    EXPECT_EQ(group_->all_reduce(comm, self.queue(), &two, &two, OC_F32, 9, error),
              OC_INVALID_ARGUMENT);
  });
}

TEST_F(AscendCollectivesTest, JoiningEndsAtItsTimeout) {
  Rank alone(*api_, 0);
  const std::vector<uint8_t> id = MakeId(alone);
  oc_communicator* comm = nullptr;
  EXPECT_EQ(group_->join(alone.slice(), id.data(), 0, 2, 0.1, &comm, &error_),
            OC_DEADLINE_EXCEEDED);
  EXPECT_THAT(error_.message, HasSubstr("rank 0 of 2"));
  EXPECT_EQ(group_->join(alone.slice(), id.data(), 2, 2, 0.1, &comm, &error_), OC_INVALID_ARGUMENT);
  // A group of one needs nobody.
  const std::vector<uint8_t> own = MakeId(alone);
  ASSERT_EQ(group_->join(alone.slice(), own.data(), 0, 1, 10, &comm, &error_), OC_OK)
      << error_.message;
  group_->leave(comm);
}

}  // namespace
}  // namespace oc
