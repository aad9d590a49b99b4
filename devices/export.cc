#include "openclaw/devices/export.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace oc {
namespace {

int32_t Give(const Status& status, oc_error* error) {
  if (status.ok()) return OC_OK;
  const auto code = static_cast<int32_t>(status.code());
  if (error != nullptr && OC_HAS(error, oc_error, message)) {
    error->code = code;
    const size_t n = std::min(status.message().size(), sizeof(error->message) - 1);
    std::memcpy(error->message, status.message().data(), n);
    error->message[n] = 0;
  }
  return code;
}

// The handles of the interface are these objects. (Its struct names are never defined: every plugin
// of a process would define them otherwise.)
struct DeviceHandle {
  Device* device;  // ExportedDevices'
  std::vector<int32_t> cores;
};
struct SliceHandle {
  std::unique_ptr<Slice> slice;
  std::string kind;
  std::vector<int32_t> dtypes;
  std::mutex mutex;
  std::map<uint8_t*, std::unique_ptr<HostMemory>> host_memory;  // guarded by mutex
};
struct QueueHandle {
  std::unique_ptr<Queue> queue;
  std::vector<BufferRange> ranges;  // of the call at hand; keeps its memory
};
struct OpHandle {
  std::unique_ptr<PreparedOp> op;
  std::vector<int64_t> opaque_bytes;
};
// Whose device it is, so that the host view can be asked of the slice.
struct BufferHandle {
  std::unique_ptr<Buffer> buffer;
  Slice* slice;
};

#define OC_HANDLE_(Type, c_type)                               \
  Type* From(c_type* p) { return reinterpret_cast<Type*>(p); } \
  c_type* To(Type* p) { return reinterpret_cast<c_type*>(p); }
OC_HANDLE_(DeviceHandle, oc_device)
OC_HANDLE_(SliceHandle, oc_slice)
OC_HANDLE_(QueueHandle, oc_queue)
OC_HANDLE_(OpHandle, oc_op)
OC_HANDLE_(BufferHandle, oc_buffer)
OC_HANDLE_(Event, oc_event)
OC_HANDLE_(CapturedWork, oc_graph)
#undef OC_HANDLE_

}  // namespace

Device& DeviceOf(oc_device* device) { return *From(device)->device; }
Slice& SliceOf(oc_slice* slice) { return *From(slice)->slice; }
Event& EventOf(oc_event* event) { return *From(event); }
Queue& QueueOf(oc_queue* queue) { return *From(queue)->queue; }
BufferRange RangeOf(const oc_range& r) {
  if (r.buffer == nullptr) return {};
  return {From(r.buffer)->buffer.get(), r.offset, r.bytes};
}
int32_t GiveStatus(const Status& status, oc_error* error) { return Give(status, error); }

namespace {

// A definition for an op that is not the product's: what a request says of it.
const OpDef* Definition(const oc_op_request& r) {
  static const std::shared_ptr<const OpRegistry> builtin = BuiltinOps();
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<OpDef>> own;
  const OpDef* known = builtin->Find(r.name);
  if (known != nullptr && known->version == r.version) return known;
  OpDef def{.name = r.name, .version = r.version, .min_inputs = 0, .max_inputs = -1};
  std::string key = absl::StrCat(r.name, "@", r.version, "/", r.num_outputs);
  for (int32_t i = 0; i < r.num_outputs; ++i) {
    def.updates.push_back(r.outputs[i]->updates);
    if ((r.outputs[i]->flags & OC_OPERAND_OPAQUE) != 0 && i < 32) def.opaque_outputs |= 1u << i;
    absl::StrAppend(&key, ",", r.outputs[i]->updates, ":", HasOutput(def.opaque_outputs, i));
  }
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<OpDef>& entry = own[key];
  if (entry == nullptr) entry = std::make_unique<OpDef>(std::move(def));
  return entry.get();
}

// The interface's numbers are DType's: here and in plugin.cc a cast turns one into the other.
template <DType dtype, int32_t number>
constexpr bool kSame = static_cast<int32_t>(dtype) == number;
static_assert(kSame<DType::kF32, OC_F32> && kSame<DType::kBF16, OC_BF16> &&
              kSame<DType::kF16, OC_F16> && kSame<DType::kF64, OC_F64> &&
              kSame<DType::kI32, OC_I32> && kSame<DType::kI64, OC_I64> &&
              kSame<DType::kU8, OC_U8> && kSame<DType::kBool, OC_BOOL>);

StatusOr<DType> DTypeFrom(int64_t value, const char* where) {
  if (value < OC_F32 || value > OC_BOOL) {
    return Unimplemented("element type ", value, " of ", where, " is not known to this device");
  }
  return static_cast<DType>(value);
}

StatusOr<TensorType> TypeFrom(const oc_operand& o, const char* op) {
  if (o.num_parts != 1) {
    return Unimplemented("op ", op, ": an operand in ", o.num_parts, " parts");
  }
  const oc_tensor_type& t = *o.parts[0];
  OC_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(t.dtype, op));
  std::vector<Dim> dims;
  for (int32_t i = 0; i < t.rank; ++i) dims.emplace_back(t.dims[i]);
  return TensorType{dtype, Shape(std::move(dims))};
}

Status AddAttr(const oc_attr& a, const char* op, Attributes& attrs) {
  const std::vector<int64_t> ints(a.ints, a.ints + a.num_ints);
  switch (a.kind) {
    case OC_ATTR_BOOL:
      attrs.Set(a.name, a.i != 0);
      return OkStatus();
    case OC_ATTR_INT:
      attrs.Set(a.name, a.i);
      return OkStatus();
    case OC_ATTR_DOUBLE:
      attrs.Set(a.name, a.f);
      return OkStatus();
    case OC_ATTR_STRING:
      attrs.Set(a.name, std::string(a.s));
      return OkStatus();
    case OC_ATTR_INTS:
      attrs.Set(a.name, ints);
      return OkStatus();
    case OC_ATTR_SHAPE:
      attrs.Set(a.name, Shape(std::vector<Dim>(ints.begin(), ints.end())));
      return OkStatus();
    case OC_ATTR_DTYPE: {
      OC_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(a.i, op));
      attrs.Set(a.name, dtype);
      return OkStatus();
    }
  }
  return InvalidArgument("op ", op, ": attribute ", a.name, " is of kind ", a.kind,
                         ", which is not known");
}

StatusOr<OpRequest> RequestFrom(const oc_op_request& r) {
  OpRequest request{.def = Definition(r)};
  for (int32_t i = 0; i < r.num_inputs; ++i) {
    OC_ASSIGN_OR_RETURN(TensorType type, TypeFrom(*r.inputs[i], r.name));
    request.inputs.push_back(std::move(type));
  }
  for (int32_t i = 0; i < r.num_outputs; ++i) {
    OC_ASSIGN_OR_RETURN(TensorType type, TypeFrom(*r.outputs[i], r.name));
    request.outputs.push_back(std::move(type));
    if ((r.outputs[i]->flags & OC_OPERAND_ACCUMULATE) != 0) request.accumulate |= 1u << i;
  }
  for (int32_t i = 0; i < r.num_attrs; ++i) {
    OC_RETURN_IF_ERROR(AddAttr(*r.attrs[i], r.name, request.attrs));
  }
  request.deterministic =
      OC_HAS(&r, oc_op_request, flags) && (r.flags & OC_REQUEST_DETERMINISTIC) != 0;
  return request;
}

void Close(oc_device* d) { delete From(d); }

int32_t GetDeviceInfo(oc_device* d, oc_device_info* out, oc_error*) {
  DeviceHandle& h = *From(d);
  const DeviceInfo& info = h.device->info();
  h.cores.assign(info.cores.begin(), info.cores.end());
  out->name = info.name.c_str();
  out->model = info.model.c_str();
  out->compute_units = info.threads;
  out->num_cores = static_cast<int32_t>(h.cores.size());
  out->cores = h.cores.data();
  out->memory_bytes = info.memory_bytes;
  return OC_OK;
}

int32_t CreateSlice(oc_device* d, const oc_slice_options* o, oc_slice** out, oc_error* error) {
  SliceOptions options{.threads = o->compute_units,
                       .cores = std::vector<int>(o->cores, o->cores + o->num_cores),
                       .memory_bytes = o->memory_bytes};
  for (const oc_extension* e = o->next; e != nullptr; e = e->next) {
    if (e->id != OC_EXT_OPTIONS) continue;
    const auto* own = reinterpret_cast<const oc_options_extension*>(e);
    for (int32_t i = 0; i < own->num_options; ++i) {
      options.options[own->options[i].key] = own->options[i].value;
    }
  }
  auto slice = From(d)->device->CreateSlice(options);
  if (!slice.ok()) return Give(slice.status(), error);
  auto handle = std::make_unique<SliceHandle>();
  handle->slice = std::move(slice).value();
  handle->kind = handle->slice->kind();
  for (DType t : handle->slice->dtypes()) handle->dtypes.push_back(static_cast<int32_t>(t));
  *out = To(handle.release());
  return OC_OK;
}
void DestroySlice(oc_slice* s) { delete From(s); }

int32_t GetSliceInfo(oc_slice* s, oc_slice_info* out, oc_error*) {
  const SliceHandle& h = *From(s);
  out->kind = h.kind.c_str();
  out->compute_enforcement = static_cast<int32_t>(h.slice->enforcement());
  out->memory_enforcement = OC_ENFORCE_HARD;  // Allocate keeps the budget, whatever the kernels do
  out->num_dtypes = static_cast<int32_t>(h.dtypes.size());
  out->dtypes = h.dtypes.data();
  return OC_OK;
}

int32_t Allocate(oc_slice* s, int64_t bytes, oc_buffer** out, oc_error* error) {
  auto buffer = From(s)->slice->Allocate(bytes);
  if (!buffer.ok()) return Give(buffer.status(), error);
  *out = To(new BufferHandle{std::move(buffer).value(), From(s)->slice.get()});
  return OC_OK;
}
void Free(oc_buffer* b) { delete From(b); }
int32_t HighWater(oc_buffer* b, int64_t* bytes, oc_error*) {
  *bytes = From(b)->slice->HighWater(*From(b)->buffer);
  return OC_OK;
}
int32_t HostView(oc_buffer* b, int64_t offset, int64_t bytes, uint8_t** view, oc_error*) {
  const auto span = From(b)->slice->HostView({From(b)->buffer.get(), offset, bytes});
  *view = span.empty() ? nullptr : reinterpret_cast<uint8_t*>(span.data());
  return OC_OK;
}

int32_t GetSupport(oc_slice* s, const oc_op_request* r, oc_op_support* out, oc_error* error) {
  const auto request = RequestFrom(*r);
  Status status = request.status();
  OpSupport support;
  if (status.ok()) {
    auto answer = From(s)->slice->Support(*request);
    status = answer.status();
    if (status.ok()) support = *std::move(answer);
  } else if (absl::IsUnimplemented(status)) {
    support.reason = std::string(status.message());
    status = OkStatus();
  }
  if (!status.ok()) return Give(status, error);
  out->support = support.supported ? OC_SUPPORT_YES : OC_SUPPORT_NO;
  out->seconds = support.seconds;
  const size_t n = std::min(support.reason.size(), sizeof(out->reason) - 1);
  std::memcpy(out->reason, support.reason.data(), n);
  out->reason[n] = 0;
  return OC_OK;
}

int32_t Prepare(oc_slice* s, const oc_op_request* r, oc_op** out, oc_op_info* info,
                oc_error* error) {
  const auto request = RequestFrom(*r);
  if (!request.ok()) return Give(request.status(), error);
  auto op = From(s)->slice->Prepare(*request);
  if (!op.ok()) return Give(op.status(), error);
  auto handle = std::make_unique<OpHandle>();
  handle->op = std::move(op).value();
  handle->opaque_bytes = handle->op->opaque_bytes();
  info->implementation = handle->op->implementation();
  info->workspace_bytes = handle->op->workspace_bytes();
  info->num_opaque = static_cast<int32_t>(handle->opaque_bytes.size());
  info->opaque_bytes = handle->opaque_bytes.data();
  if (OC_HAS(info, oc_op_info, deterministic)) {
    info->deterministic =
        handle->op->deterministic() ? OC_DETERMINISTIC_YES : OC_DETERMINISTIC_UNKNOWN;
  }
  *out = To(handle.release());
  return OC_OK;
}
void Release(oc_op* op) { delete From(op); }

int32_t CreateQueue(oc_slice* s, const char* name, oc_queue** out, oc_error* error) {
  auto queue = From(s)->slice->CreateQueue(name);
  if (!queue.ok()) return Give(queue.status(), error);
  *out = To(new QueueHandle{std::move(queue).value(), {}});
  return OC_OK;
}
void DestroyQueue(oc_queue* q) { delete From(q); }

int32_t Enqueue(oc_queue* q, oc_op* op, const oc_range* inputs, int32_t num_inputs,
                const oc_range* outputs, int32_t num_outputs, const oc_range* workspace,
                oc_error* error) {
  QueueHandle& h = *From(q);
  h.ranges.clear();
  for (int32_t i = 0; i < num_inputs; ++i) h.ranges.push_back(RangeOf(inputs[i]));
  for (int32_t i = 0; i < num_outputs; ++i) h.ranges.push_back(RangeOf(outputs[i]));
  const std::span<const BufferRange> all(h.ranges);
  return Give(h.queue->Enqueue(*From(op)->op, all.first(num_inputs), all.subspan(num_inputs),
                               workspace == nullptr ? BufferRange{} : RangeOf(*workspace)),
              error);
}
int32_t CopyFromHost(oc_queue* q, const oc_range* to, const uint8_t* from, oc_error* error) {
  return Give(From(q)->queue->CopyFromHost(RangeOf(*to), {reinterpret_cast<const std::byte*>(from),
                                                          static_cast<size_t>(to->bytes)}),
              error);
}
int32_t CopyToHost(oc_queue* q, uint8_t* to, const oc_range* from, oc_error* error) {
  return Give(
      From(q)->queue->CopyToHost(
          {reinterpret_cast<std::byte*>(to), static_cast<size_t>(from->bytes)}, RangeOf(*from)),
      error);
}
int32_t Copy(oc_queue* q, const oc_range* to, const oc_range* from, oc_error* error) {
  return Give(From(q)->queue->Copy(RangeOf(*to), RangeOf(*from)), error);
}
int32_t Record(oc_queue* q, oc_event* e, oc_error* error) {
  return Give(From(q)->queue->Record(*From(e)), error);
}
int32_t WaitFor(oc_queue* q, oc_event* e, oc_error* error) {
  return Give(From(q)->queue->WaitFor(*From(e)), error);
}

int32_t BeginCapture(oc_queue* q, oc_error* error) {
  return Give(From(q)->queue->BeginCapture(), error);
}
int32_t EndCapture(oc_queue* q, oc_graph** out, oc_error* error) {
  auto work = From(q)->queue->EndCapture();
  if (!work.ok()) return Give(work.status(), error);
  *out = To(work->release());
  return OC_OK;
}
int32_t LaunchCaptured(oc_queue* q, oc_graph* work, oc_error* error) {
  return Give(From(q)->queue->Launch(*From(work)), error);
}
void DestroyCaptured(oc_graph* work) { delete From(work); }
int32_t BeginIfFinite(oc_queue* q, const oc_range* value, oc_error* error) {
  return Give(From(q)->queue->BeginIfFinite(RangeOf(*value)), error);
}
int32_t EndIf(oc_queue* q, oc_error* error) { return Give(From(q)->queue->EndIf(), error); }

constexpr oc_capture_api kCapture = {
    sizeof(oc_capture_api), BeginCapture,  EndCapture, LaunchCaptured,
    DestroyCaptured,        BeginIfFinite, EndIf};

int32_t AllocateHost(oc_slice* s, int64_t bytes, uint8_t** out, oc_error* error) {
  auto memory = From(s)->slice->AllocateHost(bytes);
  if (!memory.ok()) return Give(memory.status(), error);
  *out = reinterpret_cast<uint8_t*>((*memory)->bytes().data());
  std::lock_guard<std::mutex> lock(From(s)->mutex);
  From(s)->host_memory[*out] = *std::move(memory);
  return OC_OK;
}
void FreeHost(oc_slice* s, uint8_t* memory) {
  std::unique_ptr<HostMemory> freed;
  std::lock_guard<std::mutex> lock(From(s)->mutex);
  if (auto at = From(s)->host_memory.find(memory); at != From(s)->host_memory.end()) {
    freed = std::move(at->second);
    From(s)->host_memory.erase(at);
  }
}

int32_t CreateEvent(oc_slice* s, oc_event** out, oc_error* error) {
  auto event = From(s)->slice->CreateEvent();
  if (!event.ok()) return Give(event.status(), error);
  *out = To(event->release());
  return OC_OK;
}
void DestroyEvent(oc_event* e) { delete From(e); }
int32_t EventReady(oc_event* e, int32_t* ready, oc_error*) {
  *ready = From(e)->Ready() ? 1 : 0;
  return OC_OK;
}
int32_t EventWait(oc_event* e, double timeout_seconds, oc_error* error) {
  return Give(From(e)->Wait(timeout_seconds), error);
}

}  // namespace

Status ExportedDevices::Find() {
  if (found_) return OkStatus();
  OC_ASSIGN_OR_RETURN(devices_, discover_());
  found_ = true;
  return OkStatus();
}

int32_t ExportedDevices::Count(int32_t* devices, oc_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Status status = Find();
  *devices = static_cast<int32_t>(devices_.size());
  return Give(status, error);
}

int32_t ExportedDevices::Open(int32_t index, oc_device** device, oc_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Status status = Find();
  if (!status.ok()) return Give(status, error);
  if (index < 0 || index >= static_cast<int32_t>(devices_.size())) {
    return Give(absl::NotFoundError(
                    absl::StrCat("device ", index, " of ", devices_.size(), " was asked for")),
                error);
  }
  *device = To(new DeviceHandle{devices_[index].get(), {}});
  return OC_OK;
}

oc_device_api TableWithoutDevices(const char* leaf) {
  oc_device_api t{};
  t.struct_size = sizeof(t);
  t.abi_version = OC_DEVICE_ABI_VERSION;
  static constexpr oc_extension kTakesOptions = {sizeof(oc_extension), OC_EXT_OPTIONS, nullptr};
  t.next = &kTakesOptions;  // each device checks its own
  t.leaf = leaf;
  t.version = OC_VERSION;
  t.close = Close;
  t.device_info = GetDeviceInfo;
  t.create_slice = CreateSlice;
  t.destroy_slice = DestroySlice;
  t.slice_info = GetSliceInfo;
  t.allocate = Allocate;
  t.free = Free;
  t.high_water = HighWater;
  t.host_view = HostView;
  t.support = GetSupport;
  t.prepare = Prepare;
  t.release = Release;
  t.create_queue = CreateQueue;
  t.destroy_queue = DestroyQueue;
  t.enqueue = Enqueue;
  t.copy_from_host = CopyFromHost;
  t.copy_to_host = CopyToHost;
  t.copy = Copy;
  t.record = Record;
  t.wait_for = WaitFor;
  t.create_event = CreateEvent;
  t.destroy_event = DestroyEvent;
  t.event_ready = EventReady;
  t.event_wait = EventWait;
  t.capture = &kCapture;
  t.allocate_host = AllocateHost;
  t.free_host = FreeHost;
  return t;
}

}  // namespace oc
