#include "openclaw/devices/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <mutex>

#include "openclaw/core/child.h"
#include "openclaw/core/logging.h"
#include "openclaw/devices/call_watch.h"

namespace oc {
namespace {

void LogFromPlugin(int32_t level, const char* message) {
  if (level >= 2) {
    OC_LOG_ERROR(message);
  } else if (level == 1) {
    OC_LOG_WARNING(message);
  } else {
    OC_LOG_INFO(message);
  }
}

constexpr int32_t kNoUpdate = -1;
constexpr oc_host_api kHost = {sizeof(oc_host_api), OC_DEVICE_ABI_VERSION, 0, &LogFromPlugin};

template <typename T>
T Sized() {
  T t{};
  t.struct_size = sizeof(T);
  return t;
}

// A call's code and message as a status.
class Answer {
 public:
  oc_error* out() { return &error_; }
  Status Of(int32_t code) const {
    if (code == OC_OK) return OkStatus();
    const std::string message(error_.message, strnlen(error_.message, sizeof(error_.message)));
    return Status(static_cast<absl::StatusCode>(code),
                  message.empty() ? absl::StrCat("code ", code, " without a message") : message);
  }

 private:
  oc_error error_ = Sized<oc_error>();
};

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// An OpRequest in C: what it points to lives as long as this.
class CRequest {
 public:
  explicit CRequest(const OpRequest& r) {
    size_t dims = 0, ints = 0;
    for (const auto* types : {&r.inputs, &r.outputs}) {
      for (const TensorType& t : *types) dims += t.shape.dims().size();
    }
    for (const auto& [name, value] : r.attrs.values()) {
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) ints += list->size();
      if (const auto* shape = std::get_if<Shape>(&value)) ints += shape->dims().size();
    }
    numbers_.reserve(dims + ints);  // pointers into it and the others are kept
    const size_t operands = r.inputs.size() + r.outputs.size();
    types_.reserve(operands);
    parts_.reserve(operands);
    operands_.reserve(operands);
    attrs_.reserve(r.attrs.values().size());
    for (const TensorType& t : r.inputs) AddOperand(t, 0, kNoUpdate);
    for (size_t i = 0; i < r.outputs.size(); ++i) {
      const int32_t flags = (HasOutput(r.def->opaque_outputs, i) ? OC_OPERAND_OPAQUE : 0) |
                            (HasOutput(r.accumulate, i) ? OC_OPERAND_ACCUMULATE : 0);
      const int updated = UpdatedInput(*r.def, r.attrs, r.inputs.size(), r.outputs.size(), i);
      AddOperand(r.outputs[i], flags, updated >= 0 ? updated : kNoUpdate);
    }
    for (const auto& [name, value] : r.attrs.values()) AddAttr(name, value);
    for (const oc_operand& o : operands_) operand_pointers_.push_back(&o);
    for (const oc_attr& a : attrs_) attr_pointers_.push_back(&a);
    request_ = Sized<oc_op_request>();
    request_.name = r.def->name.c_str();
    request_.version = r.def->version;
    request_.num_inputs = static_cast<int32_t>(r.inputs.size());
    request_.num_outputs = static_cast<int32_t>(r.outputs.size());
    request_.num_attrs = static_cast<int32_t>(attrs_.size());
    request_.inputs = operand_pointers_.data();
    request_.outputs = operand_pointers_.data() + r.inputs.size();
    request_.attrs = attr_pointers_.data();
    request_.flags = r.deterministic ? OC_REQUEST_DETERMINISTIC : 0;
  }
  CRequest(const CRequest&) = delete;
  const oc_op_request* get() const { return &request_; }

 private:
  void AddOperand(const TensorType& type, int32_t flags, int updates) {
    oc_tensor_type t = Sized<oc_tensor_type>();
    t.dtype = static_cast<int32_t>(type.dtype);
    t.dtype_bits = SizeInBits(type.dtype);
    t.layout = (flags & OC_OPERAND_OPAQUE) != 0 ? OC_LAYOUT_OPAQUE : OC_LAYOUT_PLAIN;
    t.rank = type.shape.rank();
    t.dims = AddShape(type.shape);
    t.bytes = type.bytes();
    types_.push_back(t);
    parts_.push_back(&types_.back());
    oc_operand o = Sized<oc_operand>();
    o.num_parts = 1;
    o.flags = flags;
    o.parts = &parts_.back();
    o.updates = updates;
    operands_.push_back(o);
  }
  const int64_t* AddShape(const Shape& shape) {
    const size_t at = numbers_.size();
    for (const Dim& d : shape.dims()) numbers_.push_back(d.size());
    return numbers_.data() + at;
  }
  void AddAttr(const std::string& name, const AttrValue& value) {
    oc_attr a = Sized<oc_attr>();
    a.name = name.c_str();
    if (const auto* b = std::get_if<bool>(&value)) {
      a.kind = OC_ATTR_BOOL;
      a.i = *b ? 1 : 0;
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      a.kind = OC_ATTR_INT;
      a.i = *i;
    } else if (const auto* f = std::get_if<double>(&value)) {
      a.kind = OC_ATTR_DOUBLE;
      a.f = *f;
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      a.kind = OC_ATTR_STRING;
      a.s = s->c_str();
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      a.kind = OC_ATTR_INTS;
      a.num_ints = static_cast<int32_t>(list->size());
      a.ints = numbers_.data() + numbers_.size();
      numbers_.insert(numbers_.end(), list->begin(), list->end());
    } else if (const auto* shape = std::get_if<Shape>(&value)) {
      a.kind = OC_ATTR_SHAPE;
      a.num_ints = shape->rank();
      a.ints = AddShape(*shape);
    } else {
      a.kind = OC_ATTR_DTYPE;
      a.i = static_cast<int64_t>(std::get<DType>(value));
    }
    attrs_.push_back(a);
  }

  std::vector<int64_t> numbers_;
  std::vector<oc_tensor_type> types_;
  std::vector<const oc_tensor_type*> parts_;
  std::vector<oc_operand> operands_;
  std::vector<const oc_operand*> operand_pointers_;
  std::vector<oc_attr> attrs_;
  std::vector<const oc_attr*> attr_pointers_;
  oc_op_request request_;
};

// "device plain:0 of plugin libplain.so": kept by all that the device makes.
using Where = std::shared_ptr<const std::string>;
using Kind = DeviceCall::Kind;

// One call through the table: noted while it runs, and named where it fails.
template <typename F>
Status Call(const std::string& where, const char* call, const char* of, Kind kind, const F& f,
            double timeout_seconds = 0) {
  Answer answer;
  int32_t code = OC_OK;
  {
    const DeviceCall note(where.c_str(), call, of, kind, timeout_seconds);
    code = f(answer.out());
  }
  if (code == OC_OK) return OkStatus();
  return Annotate(answer.Of(code), absl::StrCat(where, ", ", call, of[0] == 0 ? "" : " ", of));
}

class PluginBuffer : public Buffer {
 public:
  PluginBuffer(const oc_device_api& api, Where where, oc_buffer* buffer, int64_t bytes)
      : api_(api), where_(std::move(where)), buffer_(buffer), bytes_(bytes) {}
  ~PluginBuffer() override {
    const DeviceCall note(where_->c_str(), "free", "", Kind::kSlow);
    api_.free(buffer_);
  }
  int64_t bytes() const override { return bytes_; }
  oc_buffer* get() const { return buffer_; }

 private:
  const oc_device_api& api_;
  Where where_;
  oc_buffer* buffer_;
  int64_t bytes_;
};

oc_range ToC(const BufferRange& range) {
  if (range.buffer == nullptr) return {nullptr, 0, 0};
  OC_CHECK(range.offset >= 0 && range.offset + range.bytes <= range.buffer->bytes(), range.offset,
           "+", range.bytes, " of ", range.buffer->bytes());
  return {static_cast<PluginBuffer*>(range.buffer)->get(), range.offset, range.bytes};
}

class PluginOp : public PreparedOp {
 public:
  PluginOp(const oc_device_api& api, Where where, std::string name, oc_op* op,
           const oc_op_info& info)
      : api_(api),
        where_(std::move(where)),
        name_(std::make_shared<const std::string>(std::move(name))),
        op_(op),
        implementation_(Text(info.implementation)),
        workspace_bytes_(info.workspace_bytes),
        deterministic_(OC_HAS(&info, oc_op_info, deterministic) &&
                       info.deterministic == OC_DETERMINISTIC_YES) {
    for (int32_t i = 0; i < info.num_opaque; ++i) opaque_bytes_.push_back(info.opaque_bytes[i]);
  }
  ~PluginOp() override {
    const DeviceCall note(where_->c_str(), "release", name_->c_str(), Kind::kSlow);
    api_.release(op_);
  }
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::vector<int64_t> opaque_bytes() const override { return opaque_bytes_; }
  const char* implementation() const override { return implementation_.c_str(); }
  bool deterministic() const override { return deterministic_; }
  oc_op* get() const { return op_; }
  // The op and its types.
  const Where& name() const { return name_; }

 private:
  const oc_device_api& api_;
  Where where_, name_;
  oc_op* op_;
  std::string implementation_;
  int64_t workspace_bytes_;
  bool deterministic_;
  std::vector<int64_t> opaque_bytes_;
};

class PluginEvent : public Event {
 public:
  PluginEvent(const oc_device_api& api, Where where, oc_event* event)
      : api_(api), where_(std::move(where)), event_(event) {}
  ~PluginEvent() override {
    const DeviceCall note(where_->c_str(), "destroy_event", "", Kind::kSlow);
    api_.destroy_event(event_);
  }
  bool Ready() const override {
    const DeviceCall note(where_->c_str(), "event_ready", "");
    int32_t ready = 0;
    // An error shows in Wait, which then returns at once.
    return api_.event_ready(event_, &ready, nullptr) != OC_OK || ready != 0;
  }
  Status Wait(double timeout_seconds) override {
    // Another thread may record the event meanwhile.
    Where behind;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      behind = behind_;
    }
    return Call(
        *where_, behind == nullptr ? "event_wait" : "event_wait after",
        behind == nullptr ? "" : behind->c_str(), Kind::kTimed,
        [&](oc_error* error) { return api_.event_wait(event_, timeout_seconds, error); },
        timeout_seconds);
  }
  oc_event* get() const { return event_; }
  // The op that was enqueued last before the event was recorded; may be null.
  void SetBehind(const Where& op) {
    std::lock_guard<std::mutex> lock(mutex_);
    behind_ = op;
  }

 private:
  const oc_device_api& api_;
  Where where_;
  oc_event* event_;
  std::mutex mutex_;
  Where behind_;  // guarded by mutex_
};

class PluginHostMemory : public HostMemory {
 public:
  PluginHostMemory(const oc_device_api& api, Where where, oc_slice* slice, uint8_t* memory,
                   int64_t bytes)
      : api_(api), where_(std::move(where)), slice_(slice), memory_(memory), bytes_(bytes) {}
  ~PluginHostMemory() override {
    const DeviceCall note(where_->c_str(), "free_host", "", Kind::kSlow);
    api_.free_host(slice_, memory_);
  }
  std::span<std::byte> bytes() override {
    return {reinterpret_cast<std::byte*>(memory_), static_cast<size_t>(bytes_)};
  }

 private:
  const oc_device_api& api_;
  Where where_;
  oc_slice* slice_;
  uint8_t* memory_;
  int64_t bytes_;
};

class PluginCapturedWork : public CapturedWork {
 public:
  PluginCapturedWork(const oc_capture_api& api, Where where, Where name, oc_graph* graph)
      : api_(api), where_(std::move(where)), name_(std::move(name)), graph_(graph) {}
  ~PluginCapturedWork() override {
    const DeviceCall note(where_->c_str(), "destroy", name_->c_str(), Kind::kSlow);
    api_.destroy(graph_);
  }
  oc_graph* get() const { return graph_; }
  // How many ops it holds, and the last.
  const Where& name() const { return name_; }

 private:
  const oc_capture_api& api_;
  Where where_, name_;
  oc_graph* graph_;
};

class PluginQueue : public Queue {
 public:
  PluginQueue(const oc_device_api& api, Where where, std::string name, oc_queue* queue)
      : api_(api), where_(std::move(where)), name_(std::move(name)), queue_(queue) {}
  ~PluginQueue() override {
    const DeviceCall note(where_->c_str(), "destroy_queue", name_.c_str(), Kind::kSlow);
    api_.destroy_queue(queue_);
  }

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    const auto& own = static_cast<PluginOp&>(op);
    // The list keeps its memory: nothing is allocated once the largest op was seen.
    ranges_.clear();
    for (const BufferRange& r : inputs) ranges_.push_back(ToC(r));
    for (const BufferRange& r : outputs) ranges_.push_back(ToC(r));
    const oc_range work = ToC(workspace);
    last_ = own.name();
    ++enqueued_;
    return Call(*where_, "enqueue", last_->c_str(), Kind::kQuick, [&](oc_error* error) {
      return api_.enqueue(queue_, own.get(), ranges_.data(), static_cast<int32_t>(inputs.size()),
                          ranges_.data() + inputs.size(), static_cast<int32_t>(outputs.size()),
                          &work, error);
    });
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    to.bytes = static_cast<int64_t>(from.size());
    const oc_range range = ToC(to);
    return Call(*where_, "copy_from_host", "", Kind::kQuick, [&](oc_error* error) {
      return api_.copy_from_host(queue_, &range, reinterpret_cast<const uint8_t*>(from.data()),
                                 error);
    });
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    from.bytes = static_cast<int64_t>(to.size());
    const oc_range range = ToC(from);
    return Call(*where_, "copy_to_host", "", Kind::kQuick, [&](oc_error* error) {
      return api_.copy_to_host(queue_, reinterpret_cast<uint8_t*>(to.data()), &range, error);
    });
  }
  Status Copy(BufferRange to, BufferRange from) override {
    to.bytes = from.bytes;
    const oc_range target = ToC(to), source = ToC(from);
    return Call(*where_, "copy", "", Kind::kQuick,
                [&](oc_error* error) { return api_.copy(queue_, &target, &source, error); });
  }
  Status Record(Event& event) override {
    auto& own = static_cast<PluginEvent&>(event);
    own.SetBehind(last_);
    return Call(*where_, "record", name_.c_str(), Kind::kQuick,
                [&](oc_error* error) { return api_.record(queue_, own.get(), error); });
  }
  Status WaitFor(Event& event) override {
    // A queue that works as it is called waits here for the other's work.
    return Call(*where_, "wait_for", name_.c_str(), Kind::kSlow, [&](oc_error* error) {
      return api_.wait_for(queue_, static_cast<PluginEvent&>(event).get(), error);
    });
  }

  Status BeginCapture() override {
    if (!Has(&oc_capture_api::begin) || !Has(&oc_capture_api::end) ||
        !Has(&oc_capture_api::launch) || !Has(&oc_capture_api::destroy)) {
      return Queue::BeginCapture();
    }
    enqueued_ = 0;
    return Call(*where_, "begin", name_.c_str(), Kind::kQuick,
                [&](oc_error* error) { return api_.capture->begin(queue_, error); });
  }
  StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override {
    if (!Has(&oc_capture_api::end)) return Queue::EndCapture();
    oc_graph* graph = nullptr;
    OC_RETURN_IF_ERROR(Call(*where_, "end", name_.c_str(), Kind::kSlow, [&](oc_error* error) {
      return api_.capture->end(queue_, &graph, error);
    }));
    auto name = std::make_shared<const std::string>(
        absl::StrCat("captured work of ", enqueued_, " ops",
                     last_ == nullptr ? "" : absl::StrCat(", the last ", *last_)));
    return std::unique_ptr<CapturedWork>(
        std::make_unique<PluginCapturedWork>(*api_.capture, where_, std::move(name), graph));
  }
  Status Launch(CapturedWork& work) override {
    if (!Has(&oc_capture_api::launch)) return Queue::Launch(work);
    auto& own = static_cast<PluginCapturedWork&>(work);
    last_ = own.name();
    return Call(*where_, "launch", last_->c_str(), Kind::kQuick,
                [&](oc_error* error) { return api_.capture->launch(queue_, own.get(), error); });
  }
  Status BeginIfFinite(BufferRange value) override {
    if (!Has(&oc_capture_api::begin_if_finite) || !Has(&oc_capture_api::end_if)) {
      return Queue::BeginIfFinite(value);
    }
    const oc_range range = ToC(value);
    return Call(*where_, "begin_if_finite", name_.c_str(), Kind::kQuick, [&](oc_error* error) {
      return api_.capture->begin_if_finite(queue_, &range, error);
    });
  }
  Status EndIf() override {
    if (!Has(&oc_capture_api::end_if)) return Queue::EndIf();
    return Call(*where_, "end_if", name_.c_str(), Kind::kQuick,
                [&](oc_error* error) { return api_.capture->end_if(queue_, error); });
  }

 private:
  // Whether the device's table of captured work is there, with this function.
  template <typename F>
  bool Has(F oc_capture_api::*function) const {
    if (!OC_HAS(&api_, oc_device_api, capture) || api_.capture == nullptr) return false;
    const oc_capture_api& table = *api_.capture;
    const auto end = reinterpret_cast<const char*>(&(table.*function)) + sizeof(F) -
                     reinterpret_cast<const char*>(&table);
    return static_cast<ptrdiff_t>(table.struct_size) >= end && table.*function != nullptr;
  }

  const oc_device_api& api_;
  Where where_;
  std::string name_;
  oc_queue* queue_;
  std::vector<oc_range> ranges_;
  Where last_;            // the op or the captured work enqueued last
  int64_t enqueued_ = 0;  // ops, since the last capture began
};

class PluginSlice : public Slice {
 public:
  static StatusOr<std::unique_ptr<Slice>> Create(const oc_device_api& api, Where where,
                                                 oc_slice* handle) {
    std::unique_ptr<PluginSlice> slice(new PluginSlice(api, std::move(where), handle));
    oc_slice_info info = Sized<oc_slice_info>();
    OC_RETURN_IF_ERROR(Call(*slice->where_, "slice_info", "", Kind::kSlow,
                            [&](oc_error* error) { return api.slice_info(handle, &info, error); }));
    slice->kind_ = Text(info.kind);
    // The weaker of the two is what holds.
    slice->enforcement_ =
        static_cast<Enforcement>(std::min(info.compute_enforcement, info.memory_enforcement));
    for (int32_t i = 0; i < info.num_dtypes; ++i) {
      // Types that this build does not know cannot be asked for.
      if (info.dtypes[i] >= OC_F32 && info.dtypes[i] <= OC_BOOL) {
        slice->dtypes_.push_back(static_cast<DType>(info.dtypes[i]));
      }
    }
    return std::unique_ptr<Slice>(std::move(slice));
  }
  ~PluginSlice() override {
    const DeviceCall note(where_->c_str(), "destroy_slice", "", Kind::kSlow);
    api_.destroy_slice(slice_);
  }

  std::string kind() const override { return kind_; }
  Enforcement enforcement() const override { return enforcement_; }
  std::vector<DType> dtypes() const override { return dtypes_; }

  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    oc_buffer* buffer = nullptr;
    OC_RETURN_IF_ERROR(Call(*where_, "allocate", "", Kind::kSlow, [&](oc_error* error) {
      return api_.allocate(slice_, bytes, &buffer, error);
    }));
    return std::unique_ptr<Buffer>(std::make_unique<PluginBuffer>(api_, where_, buffer, bytes));
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override {
    oc_queue* queue = nullptr;
    OC_RETURN_IF_ERROR(Call(
        *where_, "create_queue", name.c_str(), Kind::kSlow,
        [&](oc_error* error) { return api_.create_queue(slice_, name.c_str(), &queue, error); }));
    return std::unique_ptr<Queue>(std::make_unique<PluginQueue>(api_, where_, name, queue));
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    oc_event* event = nullptr;
    OC_RETURN_IF_ERROR(Call(*where_, "create_event", "", Kind::kSlow, [&](oc_error* error) {
      return api_.create_event(slice_, &event, error);
    }));
    return std::unique_ptr<Event>(std::make_unique<PluginEvent>(api_, where_, event));
  }
  StatusOr<std::unique_ptr<HostMemory>> AllocateHost(int64_t bytes) override {
    if (!OC_HAS(&api_, oc_device_api, free_host) || api_.allocate_host == nullptr ||
        api_.free_host == nullptr) {
      return Slice::AllocateHost(bytes);
    }
    uint8_t* memory = nullptr;
    OC_RETURN_IF_ERROR(Call(*where_, "allocate_host", "", Kind::kSlow, [&](oc_error* error) {
      return api_.allocate_host(slice_, bytes, &memory, error);
    }));
    return std::unique_ptr<HostMemory>(
        std::make_unique<PluginHostMemory>(api_, where_, slice_, memory, bytes));
  }
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override {
    const CRequest c(request);
    std::string name = ToString(request);
    oc_op* op = nullptr;
    oc_op_info info = Sized<oc_op_info>();
    {
      Answer answer;
      const DeviceCall note(where_->c_str(), "prepare", name.c_str(), Kind::kSlow);
      // Its messages name op and device already.
      OC_RETURN_IF_ERROR(answer.Of(api_.prepare(slice_, c.get(), &op, &info, answer.out())));
    }
    auto prepared = std::make_unique<PluginOp>(api_, where_, std::move(name), op, info);
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      if (info.input_layouts != nullptr && info.input_layouts[i] != OC_LAYOUT_PLAIN) {
        return Unimplemented("op ", ToString(request), " on ", kind_, ": input ", i,
                             " is wanted in a layout that is not plain");
      }
    }
    return std::unique_ptr<PreparedOp>(std::move(prepared));
  }
  StatusOr<OpSupport> Support(const OpRequest& request) override {
    const CRequest c(request);
    const std::string name = ToString(request);
    oc_op_support s = Sized<oc_op_support>();
    OC_RETURN_IF_ERROR(Call(*where_, "support", name.c_str(), Kind::kSlow, [&](oc_error* error) {
      return api_.support(slice_, c.get(), &s, error);
    }));
    if (s.support != OC_SUPPORT_NO && s.support != OC_SUPPORT_YES) {
      return Internal("plugin ", api_.leaf, ": support of ", ToString(request),
                      " was answered neither yes nor no");
    }
    return OpSupport{s.support == OC_SUPPORT_YES, s.seconds,
                     std::string(s.reason, strnlen(s.reason, sizeof(s.reason)))};
  }
  std::span<std::byte> HostView(BufferRange range) override {
    const oc_range r = ToC(range);
    uint8_t* view = nullptr;
    if (r.buffer == nullptr) return {};
    const DeviceCall note(where_->c_str(), "host_view", "");
    if (api_.host_view(r.buffer, r.offset, r.bytes, &view, nullptr) != OC_OK || view == nullptr) {
      return {};
    }
    return {reinterpret_cast<std::byte*>(view), static_cast<size_t>(r.bytes)};
  }
  int64_t HighWater(const Buffer& buffer) const override {
    int64_t bytes = -1;
    const DeviceCall note(where_->c_str(), "high_water", "");
    const int32_t code =
        api_.high_water(static_cast<const PluginBuffer&>(buffer).get(), &bytes, nullptr);
    return code == OC_OK ? bytes : -1;
  }

 private:
  PluginSlice(const oc_device_api& api, Where where, oc_slice* slice)
      : api_(api), where_(std::move(where)), slice_(slice) {}

  const oc_device_api& api_;
  Where where_;
  oc_slice* slice_;
  std::string kind_;
  Enforcement enforcement_ = Enforcement::kNone;
  std::vector<DType> dtypes_;
};

bool TakesOptions(const oc_device_api& api) {
  for (const oc_extension* e = api.next; e != nullptr; e = e->next) {
    if (e->id == OC_EXT_OPTIONS) return true;
  }
  return false;
}

class PluginDevice : public Device {
 public:
  // `origin` names the plugin.
  static StatusOr<std::unique_ptr<Device>> Open(const oc_device_api& api, int32_t index,
                                                const std::string& origin) {
    const std::string where = absl::StrCat("device ", index, " of plugin ", origin);
    oc_device* handle = nullptr;
    OC_RETURN_IF_ERROR(Call(where, "open", "", Kind::kSlow,
                            [&](oc_error* error) { return api.open(index, &handle, error); }));
    std::unique_ptr<PluginDevice> device(new PluginDevice(api, handle));
    oc_device_info info = Sized<oc_device_info>();
    OC_RETURN_IF_ERROR(Call(where, "device_info", "", Kind::kSlow, [&](oc_error* error) {
      return api.device_info(handle, &info, error);
    }));
    device->where_ = std::make_shared<const std::string>(absl::StrCat(
        "device ", Text(info.name), origin == api.leaf ? "" : absl::StrCat(" of plugin ", origin)));
    device->info_ = {.name = Text(info.name),
                     .leaf = api.leaf,
                     .model = Text(info.model),
                     .threads = info.compute_units,
                     .memory_bytes = info.memory_bytes};
    for (int32_t i = 0; i < info.num_cores; ++i) device->info_.cores.push_back(info.cores[i]);
    return std::unique_ptr<Device>(std::move(device));
  }
  ~PluginDevice() override {
    const DeviceCall note(where_ == nullptr ? api_.leaf : where_->c_str(), "close", "",
                          Kind::kSlow);
    api_.close(device_);
  }
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    const std::vector<int32_t> cores(options.cores.begin(), options.cores.end());
    oc_slice_options o = Sized<oc_slice_options>();
    o.compute_units = options.threads;
    o.num_cores = static_cast<int32_t>(cores.size());
    o.cores = cores.data();
    o.memory_bytes = options.memory_bytes;
    std::vector<oc_option> list;
    for (const auto& [key, value] : options.options) list.push_back({key.c_str(), value.c_str()});
    const oc_options_extension own = {
        {sizeof(own), OC_EXT_OPTIONS, nullptr}, static_cast<int32_t>(list.size()), 0, list.data()};
    if (!list.empty()) {
      if (!TakesOptions(api_)) {
        return InvalidArgument("slice of ", info_.name, ": a device of leaf ", info_.leaf,
                               " takes no options, '", list[0].key, "' was given");
      }
      o.next = &own.extension;
    }
    oc_slice* slice = nullptr;
    OC_RETURN_IF_ERROR(Call(*where_, "create_slice", "", Kind::kSlow, [&](oc_error* error) {
      return api_.create_slice(device_, &o, &slice, error);
    }));
    return PluginSlice::Create(api_, where_, slice);
  }

 private:
  PluginDevice(const oc_device_api& api, oc_device* device) : api_(api), device_(device) {}

  const oc_device_api& api_;
  oc_device* device_;
  Where where_;
  DeviceInfo info_;
};

StatusOr<std::vector<std::unique_ptr<Device>>> Discover(const oc_device_api& api,
                                                        const std::string& origin) {
  int32_t count = 0;
  OC_RETURN_IF_ERROR(Call(absl::StrCat("plugin ", origin), "count", "", Kind::kSlow,
                          [&](oc_error* error) { return api.count(&count, error); }));
  std::vector<std::unique_ptr<Device>> devices;
  for (int32_t i = 0; i < count; ++i) {
    OC_ASSIGN_OR_RETURN(auto device, PluginDevice::Open(api, i, origin));
    devices.push_back(std::move(device));
  }
  return devices;
}

// What must be there, by name.
Status CheckTable(const oc_device_api* api, const std::string& origin) {
  if (api == nullptr) {
    return FailedPrecondition("plugin ", origin, " shares no version of the device interface with ",
                              OC_DEVICE_ABI_MAJOR, ".", OC_DEVICE_ABI_MINOR,
                              ": build it against this version's openclaw_device.h");
  }
  if (api->abi_version >> 16 != OC_DEVICE_ABI_MAJOR) {
    return FailedPrecondition("plugin ", origin, " has version ", api->abi_version >> 16, ".",
                              api->abi_version & 0xffff, " of the device interface, this is ",
                              OC_DEVICE_ABI_MAJOR, ".", OC_DEVICE_ABI_MINOR);
  }
#define OC_REQUIRE_(member)                                                       \
  if (!OC_HAS(api, oc_device_api, member) || api->member == nullptr) {            \
    return FailedPrecondition("plugin ", origin, ": its table has no ", #member); \
  }
  OC_REQUIRE_(leaf)
  OC_REQUIRE_(count)
  OC_REQUIRE_(open)
  OC_REQUIRE_(close)
  OC_REQUIRE_(device_info)
  OC_REQUIRE_(create_slice)
  OC_REQUIRE_(destroy_slice)
  OC_REQUIRE_(slice_info)
  OC_REQUIRE_(allocate)
  OC_REQUIRE_(free)
  OC_REQUIRE_(high_water)
  OC_REQUIRE_(host_view)
  OC_REQUIRE_(support)
  OC_REQUIRE_(prepare)
  OC_REQUIRE_(release)
  OC_REQUIRE_(create_queue)
  OC_REQUIRE_(destroy_queue)
  OC_REQUIRE_(enqueue)
  OC_REQUIRE_(copy_from_host)
  OC_REQUIRE_(copy_to_host)
  OC_REQUIRE_(copy)
  OC_REQUIRE_(record)
  OC_REQUIRE_(wait_for)
  OC_REQUIRE_(create_event)
  OC_REQUIRE_(destroy_event)
  OC_REQUIRE_(event_ready)
  OC_REQUIRE_(event_wait)
#undef OC_REQUIRE_
  return OkStatus();
}

StatusOr<oc_device_query_function> OpenLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition("plugin ", path, ": ", Text(dlerror()));
  void* symbol = dlsym(library, OC_DEVICE_QUERY_SYMBOL);
  if (symbol == nullptr) {
    return FailedPrecondition("plugin ", path, " exports no ", OC_DEVICE_QUERY_SYMBOL,
                              ": it is no device plugin");
  }
  return reinterpret_cast<oc_device_query_function>(symbol);
}

// In a child process: loads the library and counts its devices.
Status Try(const std::string& path, double timeout_seconds) {
  const auto attempt = [&]() -> Status {
    const std::string where = "plugin " + path;
    const DeviceCall note(where.c_str(), "load", "", Kind::kSlow);
    OC_ASSIGN_OR_RETURN(const oc_device_query_function query, OpenLibrary(path));
    const oc_device_api* api = query(OC_DEVICE_ABI_VERSION, &kHost);
    OC_RETURN_IF_ERROR(CheckTable(api, path));
    int32_t count = 0;
    Answer answer;
    return answer.Of(api->count(&count, answer.out()));
  };
  const auto work = [&](const Tell& tell) {
    const Status status = attempt();
    if (!status.ok()) tell(absl::StrCat("-", status.message()));
  };
  std::string failure;
  const Status ended =
      Annotate(RunInChild(timeout_seconds, work, &failure),
               absl::StrCat("plugin ", path, ", while it was loaded and its devices counted"));
  if (absl::IsDeadlineExceeded(ended)) return ended;
  if (!ended.ok()) return FailedPrecondition(ended.message());
  return failure.empty() ? OkStatus() : FailedPrecondition(failure.substr(1));
}

}  // namespace

StatusOr<DeviceLeaf> LeafOfTable(oc_device_query_function query, const std::string& origin) {
  const oc_device_api* api = query(OC_DEVICE_ABI_VERSION, &kHost);
  OC_RETURN_IF_ERROR(CheckTable(api, origin));
  return DeviceLeaf{api->leaf, [api, origin] { return Discover(*api, origin); }};
}

StatusOr<DeviceLeaf> LoadPlugin(const std::string& path, double timeout_seconds) {
  OC_RETURN_IF_ERROR(Try(path, timeout_seconds));
  OC_ASSIGN_OR_RETURN(const oc_device_query_function query, OpenLibrary(path));
  return LeafOfTable(query, path);
}

}  // namespace oc
