// What the emulated libraries refuse: call orders, threads, sizes, streams, executors, groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "declarations.h"

namespace oc::ascend {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Floats = std::vector<float>;

const int32_t kBeforeInit = aclrtSetDevice(0);  // before main, so before aclInit

aclTensor* Tensor(const std::vector<int64_t>& dims, void* data, int32_t dtype = kAclFloat) {
  return aclCreateTensor(dims.data(), dims.size(), dtype, nullptr, 0, kAclFormatNd, dims.data(),
                         dims.size(), data);
}

class EmulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int32_t status = aclInit(nullptr);
    ASSERT_TRUE(status == kAclSuccess || status == kAclRepeatInitialize);
    ASSERT_EQ(aclrtSetDevice(0), kAclSuccess);
    ASSERT_EQ(aclrtCreateStream(&stream_), kAclSuccess);
  }
  void TearDown() override {
    (void)aclrtSynchronizeStreamWithTimeout(stream_, 60000);
    EXPECT_EQ(aclrtDestroyStream(stream_), kAclSuccess);
  }
  static void* Malloc(size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, bytes, kMallocHugeFirst), kAclSuccess);
    return address;
  }
  static void Write(void* to, const Floats& values) {
    EXPECT_EQ(
        aclrtMemcpy(to, values.size() * 4, values.data(), values.size() * 4, kMemcpyHostToDevice),
        kAclSuccess);
  }
  Floats Read(const void* from, size_t count) {
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 60000), kAclSuccess);
    Floats values(count);
    EXPECT_EQ(aclrtMemcpy(values.data(), count * 4, from, count * 4, kMemcpyDeviceToHost),
              kAclSuccess);
    return values;
  }
  // An executor of y = exp(x), of two floats.
  aclOpExecutor* Exp(aclTensor* x, aclTensor* y) {
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(aclnnExpGetWorkspaceSize(x, y, &size_, &executor), kAclSuccess);
    return executor;
  }

  void* stream_ = nullptr;
  uint64_t size_ = 0;
};

TEST_F(EmulatorTest, NothingRunsBeforeInitOrWithoutADevice) {
  EXPECT_EQ(kBeforeInit, kAclUninitialized);
  EXPECT_EQ(aclInit(nullptr), kAclRepeatInitialize);
  EXPECT_EQ(aclrtSetDevice(2), kRtInvalidDeviceId);
  EXPECT_STREQ(aclGetRecentErrMsg(), "aclrtSetDevice: device 2");
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
  // Each thread sets its own.
  std::thread([&] {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, 64, kMallocHugeFirst), kRtContextNull);
    EXPECT_EQ(aclrtRecordEvent(nullptr, stream_), kRtContextNull);
    size_t free = 0, total = 0;
    EXPECT_EQ(aclrtGetMemInfo(kHbmMemory, &free, &total), kRtContextNull);
    // And a stream is used with its own device.
    EXPECT_EQ(aclrtSetDevice(1), kAclSuccess);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 1000), kRtStreamContext);
  }).join();
}

TEST_F(EmulatorTest, DeviceMemoryIsNotTheHosts) {
  void* address = Malloc(64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
  EXPECT_DEATH(std::memset(address, 0, 1), "");
  void* empty = nullptr;
  EXPECT_EQ(aclrtMalloc(&empty, 0, kMallocHugeFirst), kRtParamInvalid);
  EXPECT_EQ(aclrtMalloc(&empty, size_t{3} << 30, kMallocHugeFirst), kRtMemoryAllocation);
  EXPECT_EQ(aclrtFree(address), kAclSuccess);
  EXPECT_EQ(aclrtFree(address), kRtParamInvalid);
  EXPECT_EQ(aclrtFree(nullptr), kRtParamInvalid);
}

TEST_F(EmulatorTest, CopiesKeepToTheirKindAndSize) {
  void* device = Malloc(64);
  Floats host(16, 1.0f);
  EXPECT_EQ(aclrtMemcpy(device, 64, host.data(), 64, kMemcpyDeviceToHost), kRtParamInvalid);
  EXPECT_EQ(aclrtMemcpy(device, 60, host.data(), 64, kMemcpyHostToDevice), kRtParamInvalid);
  EXPECT_EQ(aclrtMemcpy(device, 128, host.data(), 65, kMemcpyHostToDevice), kRtParamInvalid);
  EXPECT_EQ(aclrtMemcpyAsync(host.data(), 32, host.data() + 8, 32, kMemcpyHostToHost, stream_),
            kRtFeatureNotSupport);
  EXPECT_EQ(aclrtMemset(device, 64, 0, 64), kAclSuccess);
  EXPECT_THAT(Read(device, 16), Each(0.0f));
  void* pinned = nullptr;
  EXPECT_EQ(aclrtMallocHost(&pinned, 64), kAclSuccess);
  EXPECT_EQ(aclrtFreeHost(pinned), kAclSuccess);
  EXPECT_EQ(aclrtFreeHost(pinned), kRtParamInvalid);
  EXPECT_EQ(aclrtFree(device), kAclSuccess);
}

// A stream that stands still for a while: it waits for another, which copies.
class Gate {
 public:
  explicit Gate(void* stream) {
    EXPECT_EQ(aclrtCreateStream(&holder_), kAclSuccess);
    EXPECT_EQ(aclrtCreateEventExWithFlag(&event_, kEventSync), kAclSuccess);
    EXPECT_EQ(aclrtMalloc(&to_, kBytes, kMallocHugeFirst), kAclSuccess);
    EXPECT_EQ(aclrtMallocHost(&pinned_, kBytes), kAclSuccess);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(aclrtMemcpyAsync(to_, kBytes, pinned_, kBytes, kMemcpyHostToDevice, holder_),
                kAclSuccess);
    }
    EXPECT_EQ(aclrtRecordEvent(event_, holder_), kAclSuccess);
    EXPECT_EQ(aclrtStreamWaitEvent(stream, event_), kAclSuccess);
  }
  ~Gate() {
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(holder_, 60000), kAclSuccess);
    EXPECT_EQ(aclrtDestroyEvent(event_), kAclSuccess);
    EXPECT_EQ(aclrtDestroyStream(holder_), kAclSuccess);
    EXPECT_EQ(aclrtFree(to_), kAclSuccess);
    EXPECT_EQ(aclrtFreeHost(pinned_), kAclSuccess);
  }

 private:
  static constexpr size_t kBytes = size_t{128} << 20;
  void *holder_ = nullptr, *event_ = nullptr, *to_ = nullptr, *pinned_ = nullptr;
};

TEST_F(EmulatorTest, MemoryFreedUnderPendingWorkFailsTheWork) {
  void* stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), kAclSuccess);
  void* memory = Malloc(64);
  aclTensor *x = Tensor({2}, memory), *y = Tensor({2}, static_cast<char*>(memory) + 32);
  {
    Gate gate(stream);
    EXPECT_EQ(aclnnExp(nullptr, 0, Exp(x, y), stream), kAclSuccess);
    EXPECT_EQ(aclrtDestroyStream(stream), 507004);  // work is pending
    EXPECT_EQ(aclrtFree(memory), kAclSuccess);
  }
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), kRtAicoreException);
  EXPECT_EQ(aclrtDestroyStream(stream), kAclSuccess);
  EXPECT_EQ(aclrtDestroyStream(stream), kRtInvalidHandle);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
}

TEST_F(EmulatorTest, EventsAreMadeForWhatTheyDo) {
  void *sync = nullptr, *progress = nullptr;
  ASSERT_EQ(aclrtCreateEventExWithFlag(&sync, kEventSync), kAclSuccess);
  ASSERT_EQ(aclrtCreateEventExWithFlag(&progress, 2), kAclSuccess);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, sync), kRtParamInvalid);  // not recorded
  EXPECT_EQ(aclrtRecordEvent(sync, stream_), kAclSuccess);
  EXPECT_EQ(aclrtRecordEvent(progress, stream_), kAclSuccess);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, sync), kAclSuccess);
  EXPECT_EQ(aclrtStreamWaitEvent(stream_, progress), kRtParamInvalid);  // without ACL_EVENT_SYNC
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(sync, 0), kRtParamInvalid);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(sync, 60000), kAclSuccess);
  {
    void* stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), kAclSuccess);
    {
      Gate gate(stream);
      EXPECT_EQ(aclrtRecordEvent(sync, stream), kAclSuccess);  // again: a newer point
      EXPECT_EQ(aclrtSynchronizeEventWithTimeout(sync, 1), kRtEventSyncTimeout);
      EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 1), kRtStreamSyncTimeout);
    }
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), kAclSuccess);
    EXPECT_EQ(aclrtDestroyStream(stream), kAclSuccess);
  }
  EXPECT_EQ(aclrtDestroyEvent(sync), kAclSuccess);
  EXPECT_EQ(aclrtDestroyEvent(progress), kAclSuccess);
  EXPECT_EQ(aclrtRecordEvent(sync, stream_), kRtInvalidHandle);
}

TEST_F(EmulatorTest, AnExecutorRunsOnceUnlessMadeRepeatable) {
  void* memory = Malloc(128);
  Write(memory, {0, 1, 2, 3});
  aclTensor *x = Tensor({2}, memory), *y = Tensor({2}, static_cast<char*>(memory) + 64);
  aclOpExecutor* once = Exp(x, y);
  EXPECT_EQ(aclSetTensorAddr(once, 0, x, memory), kAclnnInner);  // not repeatable
  EXPECT_EQ(aclnnExp(nullptr, 0, once, stream_), kAclSuccess);
  EXPECT_EQ(aclnnExp(nullptr, 0, once, stream_), kAclnnInner);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(once), kAclnnInner);
  aclOpExecutor* again = Exp(x, y);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(again), kAclSuccess);
  EXPECT_EQ(aclnnLog(nullptr, 0, again, stream_), kAclnnInner);  // another operator's
  EXPECT_EQ(aclnnExp(nullptr, 0, again, stream_), kAclSuccess);
  EXPECT_EQ(aclSetTensorAddr(again, 2, y, memory), kAclnnParamInvalid);
  EXPECT_EQ(aclSetTensorAddr(again, 0, y, memory), kAclnnParamInvalid);
  EXPECT_EQ(aclSetTensorAddr(again, 1, y, static_cast<char*>(memory) + 8), kAclnnParamInvalid);
  EXPECT_EQ(aclSetTensorAddr(again, 1, y, static_cast<char*>(memory) + 96), kAclSuccess);
  EXPECT_EQ(aclnnExp(nullptr, 0, again, stream_), kAclSuccess);
  EXPECT_EQ(aclDestroyAclOpExecutor(again), kAclSuccess);
  EXPECT_EQ(aclDestroyAclOpExecutor(again), kAclnnInnerNullptr);
  EXPECT_THAT(Read(static_cast<char*>(memory) + 96, 2), ElementsAre(1.0f, std::exp(1.0f)));
  EXPECT_EQ(aclDestroyTensor(x), kAclSuccess);
  EXPECT_NE(aclDestroyTensor(x), kAclSuccess);
  aclDestroyTensor(y);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

TEST_F(EmulatorTest, AnOperatorThatMakesTensorsIsNotRepeatable) {
  void* memory = Malloc(256);
  aclTensor *x = Tensor({2, 4}, memory), *y = Tensor({2, 4}, static_cast<char*>(memory) + 64);
  const int64_t columns = 4;
  aclIntArray* shape = aclCreateIntArray(&columns, 1);
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnLayerNormGetWorkspaceSize(x, shape, nullptr, nullptr, 1e-5, y, nullptr, nullptr,
                                           &size_, &executor),
            kAclSuccess);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), kAclnnInner);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), kAclSuccess);
  aclDestroyIntArray(shape);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

TEST_F(EmulatorTest, AWorkspaceIsAsLargeAsItWasAskedFor) {
  void* memory = Malloc(1 << 16);
  const int64_t dims[] = {2, 2}, strides[] = {1, 2};  // a transposed view is gathered first
  aclTensor* x = aclCreateTensor(dims, 2, kAclFloat, strides, 0, kAclFormatNd, dims, 2, memory);
  aclTensor* y = Tensor({2, 2}, static_cast<char*>(memory) + 64);
  Write(memory, {1, 2, 3, 4});
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnInplaceCopyGetWorkspaceSize(y, x, &size_, &executor), kAclSuccess);
  ASSERT_GT(size_, 0u);
  void* workspace = static_cast<char*>(memory) + 4096;
  EXPECT_EQ(aclnnInplaceCopy(workspace, size_ - 1, executor, stream_), kAclnnParamInvalid);
  EXPECT_EQ(aclnnInplaceCopy(nullptr, size_, executor, stream_), kAclnnParamInvalid);
  Floats host(4096);
  EXPECT_EQ(aclnnInplaceCopy(host.data(), size_, executor, stream_), kAclnnParamInvalid);
  EXPECT_EQ(aclnnInplaceCopy(workspace, size_, executor, stream_), kAclSuccess);
  EXPECT_THAT(Read(static_cast<char*>(memory) + 64, 4), ElementsAre(1, 3, 2, 4));
  aclDestroyTensor(x);
  aclDestroyTensor(y);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

TEST_F(EmulatorTest, OperandsFitTheOperator) {
  void* memory = Malloc(1024);
  aclTensor *f = Tensor({2, 3}, memory), *i = Tensor({2, 3}, memory, kAclInt32);
  aclTensor *g = Tensor({4, 3}, memory), *host = Tensor({2, 3}, &size_);
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnExpGetWorkspaceSize(nullptr, f, &size_, &executor), kAclnnParamNullptr);
  EXPECT_EQ(aclnnExpGetWorkspaceSize(i, i, &size_, &executor), kAclnnParamInvalid);
  EXPECT_EQ(aclnnMulGetWorkspaceSize(f, i, f, &size_, &executor), kAclnnParamInvalid);
  EXPECT_EQ(aclnnMulGetWorkspaceSize(f, g, f, &size_, &executor), kAclnnParamInvalid);
  EXPECT_EQ(aclnnMatmulGetWorkspaceSize(f, g, f, kKeepDtype, &size_, &executor),
            kAclnnParamInvalid);
  EXPECT_EQ(aclnnExpGetWorkspaceSize(host, f, &size_, &executor), kAclSuccess);
  EXPECT_EQ(aclnnExp(nullptr, 0, executor, stream_), kAclnnParamInvalid);  // the host's memory
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), kAclSuccess);
  // A view reaches no further than its storage.
  const int64_t dims[] = {2, 3}, strides[] = {4, 1};
  EXPECT_EQ(aclCreateTensor(dims, 2, kAclFloat, strides, 0, kAclFormatNd, dims, 2, memory),
            nullptr);
  for (aclTensor* t : {f, i, g, host}) aclDestroyTensor(t);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

struct RootInfo {
  char bytes[kHcclRootInfoBytes];
};
HcclRootInfoDef* Raw(RootInfo& info) { return reinterpret_cast<HcclRootInfoDef*>(&info); }

// Runs f(rank, communicator, stream) on two devices.
void OnTwoRanks(const std::function<void(uint32_t, void*, void*)>& f) {
  RootInfo info;
  ASSERT_EQ(HcclGetRootInfo(Raw(info)), kHcclSuccess);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      void *comm = nullptr, *stream = nullptr;
      ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), kAclSuccess);
      ASSERT_EQ(aclrtCreateStream(&stream), kAclSuccess);
      ASSERT_EQ(HcclCommInitRootInfo(2, Raw(info), rank, &comm), kHcclSuccess);
      f(rank, comm, stream);
      EXPECT_EQ(HcclCommDestroy(comm), kHcclSuccess);
      EXPECT_EQ(aclrtDestroyStream(stream), kAclSuccess);
    });
  }
  for (std::thread& t : ranks) t.join();
}

TEST_F(EmulatorTest, GroupsSumButDoNotAverage) {
  OnTwoRanks([](uint32_t rank, void* comm, void* stream) {
    void* memory = Malloc(128);
    const float own = static_cast<float>(rank + 1);
    Write(memory, {own, 10 * own});
    void* to = static_cast<char*>(memory) + 64;
    EXPECT_EQ(HcclAllReduce(memory, to, 2, kHcclFp32, 4, comm, stream), kHcclParameter);
    EXPECT_EQ(HcclAllReduce(memory, to, 2, kHcclUint8, kHcclSum, comm, stream), kHcclNotSupported);
    EXPECT_EQ(HcclAllReduce(memory, to, 2, 255, kHcclSum, comm, stream), kHcclNotSupported);
    EXPECT_EQ(HcclAllReduce(memory, to, 2, kHcclFp32, kHcclSum, comm, stream), kHcclSuccess);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), kAclSuccess);
    Floats sums(2);
    EXPECT_EQ(aclrtMemcpy(sums.data(), 8, to, 8, kMemcpyDeviceToHost), kAclSuccess);
    EXPECT_THAT(sums, ElementsAre(3, 30));
    int32_t error = -1;
    EXPECT_EQ(HcclGetCommAsyncError(comm, &error), kHcclSuccess);
    EXPECT_EQ(error, kHcclSuccess);
    EXPECT_EQ(aclrtFree(memory), kAclSuccess);
  });
}

TEST_F(EmulatorTest, UnlikeCallsOfAGroupAreAnError) {
  OnTwoRanks([](uint32_t rank, void* comm, void* stream) {
    void* memory = Malloc(128);
    EXPECT_EQ(HcclBroadcast(memory, rank + 1, kHcclFp32, 0, comm, stream), kHcclSuccess);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), kRtDrvInternalError);
    int32_t error = 0;
    EXPECT_EQ(HcclGetCommAsyncError(comm, &error), kHcclSuccess);
    EXPECT_EQ(error, kHcclParameter);
    EXPECT_EQ(aclrtFree(memory), kAclSuccess);
  });
}

TEST_F(EmulatorTest, AGroupInUseIsNotDestroyed) {
  OnTwoRanks([](uint32_t, void* comm, void* stream) {
    void* memory = Malloc(128);
    {
      Gate gate(stream);
      EXPECT_EQ(HcclBroadcast(memory, 2, kHcclFp32, 0, comm, stream), kHcclSuccess);
      EXPECT_EQ(HcclCommDestroy(comm), kHcclAgain);
    }
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), kAclSuccess);
    EXPECT_EQ(aclrtFree(memory), kAclSuccess);
  });
}

TEST_F(EmulatorTest, WholeNumbersAddAsSuch) {
  void* memory = Malloc(128);
  const int64_t values[2] = {(int64_t{1} << 53) + 1, 0}, two[2] = {2, 0};
  EXPECT_EQ(aclrtMemcpy(memory, 16, values, 16, kMemcpyHostToDevice), kAclSuccess);
  EXPECT_EQ(aclrtMemcpy(static_cast<char*>(memory) + 64, 16, two, 16, kMemcpyHostToDevice),
            kAclSuccess);
  aclTensor* self = Tensor({2}, memory, kAclInt64);
  aclTensor* other = Tensor({2}, static_cast<char*>(memory) + 64, kAclInt64);
  int64_t one = 1, sum[2] = {0, 0};
  aclScalar* alpha = aclCreateScalar(&one, kAclInt64);
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnInplaceAddGetWorkspaceSize(self, other, alpha, &size_, &executor), kAclSuccess);
  EXPECT_EQ(aclnnInplaceAdd(nullptr, 0, executor, stream_), kAclSuccess);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 60000), kAclSuccess);
  EXPECT_EQ(aclrtMemcpy(sum, 16, memory, 16, kMemcpyDeviceToHost), kAclSuccess);
  EXPECT_EQ(sum[0], (int64_t{1} << 53) + 3);
  aclDestroyScalar(alpha);
  aclDestroyTensor(self);
  aclDestroyTensor(other);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

TEST_F(EmulatorTest, OnlyOperatorsOfElementsWriteOverWhatTheyRead) {
  void* memory = Malloc(128);
  aclTensor *x = Tensor({2}, memory), *over = Tensor({2}, memory);
  aclOpExecutor* executor = Exp(x, over);
  EXPECT_EQ(aclnnExp(nullptr, 0, executor, stream_), kAclSuccess);
  EXPECT_EQ(aclnnSoftmaxGetWorkspaceSize(x, -1, over, &size_, &executor), kAclSuccess);
  void* workspace = Malloc(size_ + 32);
  EXPECT_EQ(aclnnSoftmax(workspace, size_, executor, stream_), kAclnnInner);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), kAclSuccess);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 60000), kAclSuccess);
  aclDestroyTensor(x);
  aclDestroyTensor(over);
  EXPECT_EQ(aclrtFree(workspace), kAclSuccess);
  EXPECT_EQ(aclrtFree(memory), kAclSuccess);
}

TEST_F(EmulatorTest, ARankHasADeviceOfItsOwn) {
  RootInfo info;
  ASSERT_EQ(HcclGetRootInfo(Raw(info)), kHcclSuccess);
  RootInfo cut = info;
  cut.bytes[kHcclRootInfoBytes - 8] ^= 1;
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(1, Raw(cut), 0, &first), kHcclParameter);
  EXPECT_EQ(HcclCommInitRootInfo(1, Raw(info), 0, &first), kHcclSuccess);
  EXPECT_EQ(HcclCommInitRootInfo(1, Raw(info), 0, &second), kHcclParameter);
  EXPECT_EQ(HcclCommInitRootInfo(2, Raw(info), 1, &second), kHcclParameter);
  EXPECT_EQ(HcclCommDestroy(first), kHcclSuccess);
  EXPECT_EQ(HcclCommDestroy(first), kHcclPointer);
}

}  // namespace
}  // namespace oc::ascend
