#include "count_cl_objects.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

// All handles are pointers: the types of <CL/cl.h>, without it.
using Handle = void*;

namespace {

enum Kind { kContext, kQueue, kMemory, kProgram, kKernel, kEvent, kSubDevice, kKinds };

std::mutex mutex;
std::map<Handle, int> references[kKinds];  // that the program holds

void Add(Kind kind, Handle handle) {
  if (handle == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex);
  ++references[kind][handle];
}
// One that is not known (a root device) is nobody's to count.
void Change(Kind kind, Handle handle, int by) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = references[kind].find(handle);
  if (found != references[kind].end() && (found->second += by) == 0) references[kind].erase(found);
}

void* Real(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) std::abort();
  return function;
}

}  // namespace

#define OC_REAL_(name) static const auto real = reinterpret_cast<decltype(&name)>(Real(#name))

// An object that comes as the result.
#define OC_MAKES_(kind, name, parameters, arguments) \
  extern "C" Handle name parameters {                \
    OC_REAL_(name);                                  \
    Handle made = real arguments;                    \
    Add(kind, made);                                 \
    return made;                                     \
  }
// Work with an event, if it is asked for.
#define OC_ENQUEUES_(name, parameters, arguments)           \
  extern "C" int32_t name parameters {                      \
    OC_REAL_(name);                                         \
    const int32_t code = real arguments;                    \
    if (code == 0 && event != nullptr) Add(kEvent, *event); \
    return code;                                            \
  }
#define OC_COUNTS_(kind, Noun)                                           \
  extern "C" int32_t clRetain##Noun(Handle h) {                          \
    OC_REAL_(clRetain##Noun);                                            \
    Change(kind, h, 1);                                                  \
    return real(h);                                                      \
  }                                                                      \
  extern "C" int32_t clRelease##Noun(Handle h) {                         \
    OC_REAL_(clRelease##Noun);                                           \
    Change(kind, h, -1); /* a new one may have its address afterwards */ \
    return real(h);                                                      \
  }

using Events = const Handle*;
using Sizes = const size_t*;

OC_MAKES_(kContext, clCreateContext,
          (const intptr_t* properties, uint32_t n, Events devices, void* notify, void* data,
           int32_t* code),
          (properties, n, devices, notify, data, code))
OC_MAKES_(kQueue, clCreateCommandQueue,
          (Handle context, Handle device, uint64_t properties, int32_t* code),
          (context, device, properties, code))
OC_MAKES_(kQueue, clCreateCommandQueueWithProperties,
          (Handle context, Handle device, const uint64_t* properties, int32_t* code),
          (context, device, properties, code))
OC_MAKES_(kMemory, clCreateBuffer,
          (Handle context, uint64_t flags, size_t size, void* host, int32_t* code),
          (context, flags, size, host, code))
OC_MAKES_(kMemory, clCreateSubBuffer,
          (Handle buffer, uint64_t flags, uint32_t type, const void* region, int32_t* code),
          (buffer, flags, type, region, code))
OC_MAKES_(kProgram, clCreateProgramWithSource,
          (Handle context, uint32_t n, const char** texts, Sizes lengths, int32_t* code),
          (context, n, texts, lengths, code))
OC_MAKES_(kProgram, clCreateProgramWithBinary,
          (Handle context, uint32_t n, Events devices, Sizes lengths, const unsigned char** data,
           int32_t* status, int32_t* code),
          (context, n, devices, lengths, data, status, code))
OC_MAKES_(kKernel, clCreateKernel, (Handle program, const char* name, int32_t* code),
          (program, name, code))
OC_MAKES_(kEvent, clCreateUserEvent, (Handle context, int32_t* code), (context, code))

OC_ENQUEUES_(clEnqueueNDRangeKernel,
             (Handle queue, Handle kernel, uint32_t rank, Sizes offset, Sizes items, Sizes group,
              uint32_t n, Events before, Handle* event),
             (queue, kernel, rank, offset, items, group, n, before, event))
OC_ENQUEUES_(clEnqueueReadBuffer,
             (Handle queue, Handle memory, uint32_t blocks, size_t offset, size_t size, void* to,
              uint32_t n, Events before, Handle* event),
             (queue, memory, blocks, offset, size, to, n, before, event))
OC_ENQUEUES_(clEnqueueWriteBuffer,
             (Handle queue, Handle memory, uint32_t blocks, size_t offset, size_t size,
              const void* from, uint32_t n, Events before, Handle* event),
             (queue, memory, blocks, offset, size, from, n, before, event))
OC_ENQUEUES_(clEnqueueCopyBuffer,
             (Handle queue, Handle from, Handle to, size_t at, size_t to_at, size_t size,
              uint32_t n, Events before, Handle* event),
             (queue, from, to, at, to_at, size, n, before, event))
OC_ENQUEUES_(clEnqueueFillBuffer,
             (Handle queue, Handle memory, const void* pattern, size_t pattern_size, size_t offset,
              size_t size, uint32_t n, Events before, Handle* event),
             (queue, memory, pattern, pattern_size, offset, size, n, before, event))
OC_ENQUEUES_(clEnqueueMarkerWithWaitList, (Handle queue, uint32_t n, Events before, Handle* event),
             (queue, n, before, event))
OC_ENQUEUES_(clEnqueueBarrierWithWaitList, (Handle queue, uint32_t n, Events before, Handle* event),
             (queue, n, before, event))

OC_COUNTS_(kContext, Context)
OC_COUNTS_(kQueue, CommandQueue)
OC_COUNTS_(kMemory, MemObject)
OC_COUNTS_(kProgram, Program)
OC_COUNTS_(kKernel, Kernel)
OC_COUNTS_(kEvent, Event)
OC_COUNTS_(kSubDevice, Device)

extern "C" int32_t clCreateSubDevices(Handle device, const intptr_t* properties, uint32_t room,
                                      Handle* devices, uint32_t* count) {
  OC_REAL_(clCreateSubDevices);
  uint32_t made = 0;
  const int32_t code = real(device, properties, room, devices, &made);
  for (uint32_t i = 0; code == 0 && devices != nullptr && i < made && i < room; ++i) {
    Add(kSubDevice, devices[i]);
  }
  if (count != nullptr) *count = made;
  return code;
}

namespace oc {

ClObjects LiveClObjects() {
  std::lock_guard<std::mutex> lock(mutex);
  const auto live = [](Kind kind) { return static_cast<int>(references[kind].size()); };
  return {live(kContext), live(kQueue), live(kMemory),   live(kProgram),
          live(kKernel),  live(kEvent), live(kSubDevice)};
}

std::string ToString(const ClObjects& o) {
  return absl::StrCat(o.contexts, " contexts, ", o.queues, " queues, ", o.memories, " buffers, ",
                      o.programs, " programs, ", o.kernels, " kernels, ", o.events, " events, ",
                      o.sub_devices, " sub-devices");
}

}  // namespace oc
