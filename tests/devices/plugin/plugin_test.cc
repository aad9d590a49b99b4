// Plugins: one in plain C that is built as a user would build it, old and new tables, and those
// that misbehave.
#include "openclaw/devices/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StatusOr<std::unique_ptr<Slice>> SliceOf(const DeviceLeaf& leaf, SliceOptions options = {}) {
  static std::vector<std::unique_ptr<Device>> kept;
  OC_ASSIGN_OR_RETURN(auto devices, leaf.discover());
  if (devices.empty()) return absl::NotFoundError("no device");
  kept.push_back(std::move(devices[0]));
  return kept.back()->CreateSlice(options);
}

OpRequest Request(const OpRegistry& ops, const std::string& op, std::vector<TensorType> inputs,
                  Attributes attrs = {}) {
  OpRequest r{.def = ops.Find(op), .attrs = std::move(attrs), .inputs = std::move(inputs)};
  auto outputs = r.def->infer({r.inputs, r.attrs});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) r.outputs = *std::move(outputs);
  return r;
}

// y = x w^T + bias on the slice, all through queues and buffers.
void ExpectLinearWorks(Slice& slice) {
  const auto ops = BuiltinOps();
  const OpRequest request =
      Request(*ops, "linear", {{DType::kF32, {2, 3}}, {DType::kF32, {2, 3}}, {DType::kF32, {2}}},
              {{"activation", std::string("relu")}});
  auto op = slice.Prepare(request);
  ASSERT_TRUE(op.ok()) << op.status();
  auto buffer = slice.Allocate(1024);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  auto queue = slice.CreateQueue("test");
  auto event = slice.CreateEvent();
  ASSERT_TRUE(queue.ok() && event.ok());
  const float x[] = {1, 2, 3, -1, 0, 1}, w[] = {1, 0, 1, -1, 1, 0}, bias[] = {0.5f, -4};
  const std::vector<BufferRange> in = {
      {buffer->get(), 0, 24}, {buffer->get(), 64, 24}, {buffer->get(), 128, 8}};
  const std::vector<BufferRange> out = {{buffer->get(), 192, 16}};
  Queue& q = **queue;
  EXPECT_EQ(q.CopyFromHost(in[0], std::as_bytes(std::span(x))), OkStatus());
  EXPECT_EQ(q.CopyFromHost(in[1], std::as_bytes(std::span(w))), OkStatus());
  EXPECT_EQ(q.CopyFromHost(in[2], std::as_bytes(std::span(bias))), OkStatus());
  EXPECT_EQ(q.Enqueue(**op, in, out, {buffer->get(), 512, (*op)->workspace_bytes()}), OkStatus());
  float y[4] = {};
  EXPECT_EQ(q.CopyToHost(std::as_writable_bytes(std::span(y)), out[0]), OkStatus());
  EXPECT_EQ(q.Record(**event), OkStatus());
  EXPECT_EQ((*event)->Wait(5), OkStatus());
  EXPECT_TRUE((*event)->Ready());
  EXPECT_THAT(y, ::testing::ElementsAre(4.5f, 0, 0.5f, 0));
}

TEST(Plugin, APluginInPlainCComputes) {
  auto leaf = LoadPlugin(PLAIN_PLUGIN);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ(leaf->name, "plain");
  auto slice = SliceOf(*leaf, {.memory_bytes = 4096});
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ((*slice)->kind(), "plain/c99/1t");
  EXPECT_EQ((*slice)->enforcement(), Enforcement::kNone);
  ExpectLinearWorks(**slice);
  const auto op = (*slice)->Prepare(Request(*BuiltinOps(), "relu", {{DType::kF32, {2, 3}}}));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_TRUE((*op)->deterministic());
  // Its memory is not the host's to touch, its budget holds, and it tells what it touched.
  auto buffer = (*slice)->Allocate(2048);
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE((*slice)->HostView({buffer->get(), 0, 64}).empty());
  EXPECT_EQ((*slice)->HighWater(**buffer), 0);
  EXPECT_EQ((*slice)->Allocate(4096).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Plugin, SaysWhatItCannotRunAndWhy) {
  auto leaf = LoadPlugin(PLAIN_PLUGIN);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  auto slice = SliceOf(*leaf);
  ASSERT_TRUE(slice.ok()) << slice.status();
  const auto ops = BuiltinOps();
  OpRequest request = Request(*ops, "softmax", {{DType::kF32, {2, 3}}});
  auto support = (*slice)->Support(request);
  ASSERT_TRUE(support.ok()) << support.status();
  EXPECT_FALSE(support->supported);
  EXPECT_THAT(support->reason, HasSubstr("no kernel of that name"));
  const Status prepared = (*slice)->Prepare(request).status();
  EXPECT_EQ(prepared.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(prepared.message()), AllOf(HasSubstr("softmax"), HasSubstr("plain")));
  request = Request(*ops, "relu", {{DType::kF32, {2, 3}}});
  EXPECT_TRUE((*slice)->Support(request)->supported);
  request.accumulate = 1;
  EXPECT_FALSE((*slice)->Support(request)->supported);
}

TEST(Plugin, AnErrorOfTheWorkComesWithTheEvent) {
  auto leaf = LoadPlugin(PLAIN_PLUGIN);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  auto slice = SliceOf(*leaf);
  ASSERT_TRUE(slice.ok()) << slice.status();
  const auto ops = BuiltinOps();
  auto op = (*slice)->Prepare(
      Request(*ops, "cross_entropy", {{DType::kF32, {1, 4}}, {DType::kI32, {1}}}));
  ASSERT_TRUE(op.ok()) << op.status();
  auto buffer = (*slice)->Allocate(256);
  auto queue = (*slice)->CreateQueue("test");
  auto event = (*slice)->CreateEvent();
  ASSERT_TRUE(buffer.ok() && queue.ok() && event.ok());
  const int32_t label = 7;
  const BufferRange labels = {buffer->get(), 64, 4};
  EXPECT_EQ((*queue)->CopyFromHost(labels, std::as_bytes(std::span(&label, 1))), OkStatus());
  const std::vector<BufferRange> in = {{buffer->get(), 0, 16}, labels};
  const std::vector<BufferRange> out = {{buffer->get(), 128, 4}, {buffer->get(), 192, 4}};
  EXPECT_EQ((*queue)->Enqueue(**op, in, out, {}), OkStatus());
  EXPECT_EQ((*queue)->Record(**event), OkStatus());
  const Status status = (*event)->Wait(5);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("label 7 of row 0"));
}

// ---- Options ----

TEST(Options, APluginThatTakesNoneIsNotHandedAny) {
  auto leaf = LoadPlugin(PLAIN_PLUGIN);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  const Status status = SliceOf(*leaf, {.options = {{"speed", "2"}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("leaf plain takes no options"), HasSubstr("'speed'")));
}

// A leaf of the tree gets them and checks them itself.
TEST(Options, ADeviceThatKnowsNoneRefusesThem) {
  const Status status =
      SliceOf(ThroughTable<&DiscoverReference>("reference"), {.options = {{"colour", "red"}}})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("reference:0"), HasSubstr("'colour'")));
}

std::vector<std::string> seen_options;

// A plugin in C reads them from the extension, whatever stands before it in the chain.
TEST(Options, ComeAsAnExtension) {
  static oc_device_api table = *ExportTable<&DiscoverReference>("reference", OC_DEVICE_ABI_VERSION);
  static constexpr oc_extension takes = {sizeof(oc_extension), OC_EXT_OPTIONS, nullptr};
  static constexpr oc_extension other = {sizeof(oc_extension), 0x123456789, &takes};
  table.next = &other;
  table.create_slice = [](oc_device*, const oc_slice_options* o, oc_slice**, oc_error*) -> int32_t {
    const auto* own = reinterpret_cast<const oc_options_extension*>(o->next);
    if (own == nullptr || own->extension.id != OC_EXT_OPTIONS) return OC_INTERNAL;
    for (int32_t i = 0; i < own->num_options; ++i) {
      seen_options.push_back(absl::StrCat(own->options[i].key, "=", own->options[i].value));
    }
    return OC_CANCELLED;
  };
  auto leaf = LeafOfTable(
      [](uint32_t, const oc_host_api*) -> const oc_device_api* { return &table; }, "own");
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_EQ(SliceOf(*leaf, {.options = {{"b", ""}, {"a", "1, 2"}}}).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_THAT(seen_options, ::testing::ElementsAre("a=1, 2", "b="));
}

// ---- Old and new ----

const oc_device_api* Full() { return ExportTable<&DiscoverReference>("reference", 0); }

// A plugin of a time when the table ended after event_wait: nothing behind it may be read.
TEST(Versions, AnOldPluginWorksWithThisHost) {
  static unsigned char memory[sizeof(oc_device_api)];
  std::memset(memory, 0xff, sizeof(memory));
  const size_t end = offsetof(oc_device_api, event_wait) + sizeof(Full()->event_wait);
  std::memcpy(memory, Full(), end);
  std::memcpy(memory, &end, sizeof(end));
  auto leaf = LeafOfTable(
      [](uint32_t, const oc_host_api*) { return reinterpret_cast<const oc_device_api*>(memory); },
      "old");
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  auto slice = SliceOf(*leaf);
  ASSERT_TRUE(slice.ok()) << slice.status();
  ExpectLinearWorks(**slice);
}

// A plugin of a later time, with a longer table.
TEST(Versions, ANewPluginWorksWithThisHost) {
  static struct {
    oc_device_api api;
    void (*later)();
  } table = {*Full(), nullptr};
  table.api.struct_size = sizeof(table);
  table.api.abi_version = OC_DEVICE_ABI_VERSION_OF(OC_DEVICE_ABI_MAJOR, OC_DEVICE_ABI_MINOR);
  auto leaf = LeafOfTable(
      [](uint32_t, const oc_host_api*) -> const oc_device_api* { return &table.api; }, "new");
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  auto slice = SliceOf(*leaf);
  ASSERT_TRUE(slice.ok()) << slice.status();
  ExpectLinearWorks(**slice);
}

// A host of another major version gets no table.
TEST(Versions, AnotherMajorVersionIsRefused) {
  EXPECT_EQ(ExportTable<&DiscoverReference>("reference", OC_DEVICE_ABI_VERSION_OF(9, 0)), nullptr);
}

TEST(Versions, AMissingFunctionIsNamed) {
  static oc_device_api table = *Full();
  table.enqueue = nullptr;
  const Status status =
      LeafOfTable([](uint32_t, const oc_host_api*) -> const oc_device_api* { return &table; }, "x")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no enqueue"));
}

// ---- Faults ----

struct Fault {
  const char* file;
  absl::StatusCode code;
  const char* message;
};

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsAnErrorThatNamesTheFile) {
  const std::string path = std::string(FAULTY_DIR) + "/" + GetParam().file;
  const Status status = LoadPlugin(path, /*timeout_seconds=*/2).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().file));
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Values(
        Fault{"no_such_file.so", absl::StatusCode::kFailedPrecondition, "cannot open"},
        Fault{"libfaulty_no_symbol.so", absl::StatusCode::kFailedPrecondition, "exports no"},
        Fault{"libfaulty_version.so", absl::StatusCode::kFailedPrecondition, "shares no version"},
        Fault{"libfaulty_other_major.so", absl::StatusCode::kFailedPrecondition, "version 7.2"},
        Fault{"libfaulty_crash.so", absl::StatusCode::kFailedPrecondition, "crashed"},
        Fault{"libfaulty_exit.so", absl::StatusCode::kFailedPrecondition, "ended the process"},
        Fault{"libfaulty_table.so", absl::StatusCode::kFailedPrecondition, "has no count"},
        Fault{"libfaulty_hang.so", absl::StatusCode::kDeadlineExceeded, "did not end"}),
    [](const auto& info) {
      std::string name = info.param.file;
      return name.substr(0, name.find('.'));
    });

}  // namespace
}  // namespace oc
