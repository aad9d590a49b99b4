/* The C interface between OpenClaw and a device plugin: one shared library that makes a kind of
 * device usable, built with any C99 or C++ compiler and no other header of the project.
 *
 * A plugin exports one symbol, openclaw_device_query; everything else is reached through the table
 * that it returns. The host loads the library once, never unloads it, and calls it from many
 * threads: any thread at any time   the functions of devices, slices, buffers, events and prepared
 * ops one thread at a time     the functions of one queue, one communicator or one captured graph
 * No function may depend on a "current device" or any other state of the calling thread, and none
 * may throw.
 *
 * Rules that let old and new builds work together (version 0.x: the rules hold, but the tables may
 * still change between minor versions; from 1.0 on they only grow):
 *   - A struct that begins with struct_size only grows at its end. Who makes it sets struct_size to
 * the sizeof that it was compiled with; who reads it uses a member only where OC_HAS says that it
 * is there. Arrays are arrays of pointers to such structs, or of the structs marked frozen, which
 * never change.
 *   - Enumerations are int32_t with fixed values. An unknown value is answered OC_INVALID_ARGUMENT,
 * an unknown op, dtype or layout OC_UNIMPLEMENTED.
 *   - `next` points to an extension, or is null: a struct that begins with oc_extension. Who does
 * not know an extension's id steps over it.
 *
 * Memory of a device is a buffer and a byte offset. Bytes of the host are uint8_t pointers.
 * Status: each function that can fail returns one of OC_OK ... and, where `error` is not null,
 * writes a message that names what was wrong, where, and what to do. */
#ifndef OPENCLAW_DEVICE_H_
#define OPENCLAW_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OC_DEVICE_ABI_MAJOR 0
#define OC_DEVICE_ABI_MINOR 1
#define OC_DEVICE_ABI_VERSION_OF(major, minor) (((uint32_t)(major) << 16) | (uint32_t)(minor))
#define OC_DEVICE_ABI_VERSION OC_DEVICE_ABI_VERSION_OF(OC_DEVICE_ABI_MAJOR, OC_DEVICE_ABI_MINOR)

/* Whether the struct behind p, as its maker compiled it, has the member. */
#define OC_HAS(p, type, member) \
  ((p)->struct_size >= offsetof(type, member) + sizeof(((type*)0)->member))

/* Status codes: the numbers of absl::StatusCode. */
enum {
  OC_OK = 0,
  OC_CANCELLED = 1, /* aborted by its owner */
  OC_UNKNOWN = 2,
  OC_INVALID_ARGUMENT = 3,
  OC_DEADLINE_EXCEEDED = 4,
  OC_NOT_FOUND = 5,
  OC_RESOURCE_EXHAUSTED = 8, /* out of memory, or beyond a budget */
  OC_FAILED_PRECONDITION = 9,
  OC_ABORTED = 10,
  OC_OUT_OF_RANGE = 11, /* data: a label beyond the classes */
  OC_UNIMPLEMENTED = 12,
  OC_INTERNAL = 13,
  OC_UNAVAILABLE = 14, /* the device is lost: nothing enqueued on it will end well */
  OC_DATA_LOSS = 15
};

typedef struct oc_error {
  size_t struct_size;
  int32_t code;
  char message[1020]; /* UTF-8, ended by a zero */
} oc_error;

typedef struct oc_extension {
  size_t struct_size;
  uint64_t id;
  const struct oc_extension* next;
} oc_extension;

/* Ids of extensions. */
enum { OC_EXT_OPTIONS = 1 };

/* Frozen. */
typedef struct oc_option {
  const char* key;
  const char* value;
} oc_option;

/* OC_EXT_OPTIONS on oc_slice_options.next: options of the device's own, as texts, no key twice. The
 * host passes them only to a plugin whose table says that it takes them, with an oc_extension of
 * the same id on oc_device_api.next. create_slice answers OC_INVALID_ARGUMENT to a key or a value
 * that it does not know, and names it. Pointers are valid during the call. */
typedef struct oc_options_extension {
  oc_extension extension;
  int32_t num_options;
  int32_t reserved;
  const oc_option* options;
} oc_options_extension;

/* Elements. A type unknown to the reader is known by its size in bits at least. */
enum {
  OC_F32 = 1,
  OC_BF16 = 2,
  OC_F16 = 3,
  OC_F64 = 4,
  OC_I32 = 5,
  OC_I64 = 6,
  OC_U8 = 7,
  OC_BOOL = 8
};

/* How a tensor lies in memory. */
enum {
  OC_LAYOUT_PLAIN = 0, /* row-major, dense */
  OC_LAYOUT_OPAQUE = 1 /* the device's own; only what the same slice prepared reads it */
};

typedef struct oc_tensor_type {
  size_t struct_size;
  int32_t dtype;
  int32_t dtype_bits;
  int32_t layout;
  int32_t rank;
  const int64_t* dims; /* rank of them */
  int64_t bytes;       /* of the plain form */
} oc_tensor_type;

/* One input or output of an op: one tensor, or several where it is stored in parts (a quantised
 * tensor is codes, scales and zeros). */
typedef struct oc_operand {
  size_t struct_size;
  int32_t num_parts;
  int32_t flags; /* OC_OPERAND_... */
  const oc_tensor_type* const* parts;
  int32_t updates; /* outputs: the input whose memory it must be, or -1 */
} oc_operand;

enum {
  OC_OPERAND_OPAQUE = 1,    /* an output in a form of the device's own, sized by prepare */
  OC_OPERAND_ACCUMULATE = 2 /* an output that is added to what the memory holds */
};

enum {
  OC_ATTR_BOOL = 1,   /* i */
  OC_ATTR_INT = 2,    /* i */
  OC_ATTR_DOUBLE = 3, /* f */
  OC_ATTR_STRING = 4, /* s */
  OC_ATTR_INTS = 5,   /* ints */
  OC_ATTR_SHAPE = 6,  /* ints */
  OC_ATTR_DTYPE = 7   /* i */
};

typedef struct oc_attr {
  size_t struct_size;
  const char* name;
  int32_t kind;
  int32_t num_ints;
  int64_t i;
  double f;
  const char* s;
  const int64_t* ints;
} oc_attr;

/* An op on one set of types. docs/ops.md says what each name and version computes. Valid during the
 * call that it is given to. */
typedef struct oc_op_request {
  size_t struct_size;
  const oc_extension* next;
  const char* name;
  int32_t version;
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t num_attrs;
  const oc_operand* const* inputs;
  const oc_operand* const* outputs;
  const oc_attr* const* attrs;
  int32_t flags; /* OC_REQUEST_... */
} oc_op_request;

enum {
  /* Only code that repeats its results bit by bit is wanted; where there is none,
   * OC_UNIMPLEMENTED. Who does not know the flag answers as ever: the host looks at
   * oc_op_info.deterministic. */
  OC_REQUEST_DETERMINISTIC = 1
};

typedef struct oc_device oc_device;
typedef struct oc_slice oc_slice;
typedef struct oc_buffer oc_buffer;
typedef struct oc_queue oc_queue;
typedef struct oc_event oc_event;
typedef struct oc_op oc_op; /* prepared */
typedef struct oc_communicator oc_communicator;
typedef struct oc_graph oc_graph; /* captured */

/* Part of a buffer. Frozen. */
typedef struct oc_range {
  oc_buffer* buffer; /* null where bytes is 0 */
  int64_t offset;
  int64_t bytes;
} oc_range;

/* How strongly a slice's share is kept. */
enum { OC_ENFORCE_NONE = 0, OC_ENFORCE_SOFT = 1, OC_ENFORCE_HARD = 2 };

/* Filled by the plugin; pointers stay valid as long as the device. */
typedef struct oc_device_info {
  size_t struct_size;
  const char* name;      /* "gpu:0", unique among the plugin's devices */
  const char* model;     /* what speeds depend on; without blanks or slashes */
  int32_t compute_units; /* what a slice is a number of: cores, multiprocessors */
  int32_t num_cores;     /* the logical processors of the host that it computes with, if it does */
  const int32_t* cores;
  int64_t memory_bytes;
} oc_device_info;

typedef struct oc_slice_options {
  size_t struct_size;
  const oc_extension* next;
  int32_t compute_units; /* 1 to the device's */
  int32_t num_cores;     /* 0: not pinned */
  const int32_t* cores;
  int64_t memory_bytes; /* allocations beyond it are OC_RESOURCE_EXHAUSTED; 0: no budget */
} oc_slice_options;

typedef struct oc_slice_info {
  size_t struct_size;
  const char* kind; /* "cpu/avx512/2t": slices of one kind run every op in the same time */
  int32_t compute_enforcement;
  int32_t memory_enforcement;
  int32_t num_dtypes;
  const int32_t* dtypes;
} oc_slice_info;

enum { OC_SUPPORT_NO = 1, OC_SUPPORT_YES = 2 };

/* The answer to "can this slice run it". */
typedef struct oc_op_support {
  size_t struct_size;
  int32_t support;
  double seconds;   /* expected; below 0: not known */
  char reason[240]; /* where support is OC_SUPPORT_NO */
} oc_op_support;

/* What prepare found; pointers stay valid as long as the op. */
typedef struct oc_op_info {
  size_t struct_size;
  const char* implementation; /* which code runs it, for reports: "onednn" */
  int64_t workspace_bytes;
  int32_t num_opaque;
  const int64_t* opaque_bytes;   /* of the opaque outputs, in order */
  const int32_t* input_layouts;  /* wanted, one an input; null: all plain */
  const int32_t* output_layouts; /* made, one an output; null: all plain */
  int32_t deterministic;         /* OC_DETERMINISTIC_... */
} oc_op_info;

/* Whether the same operands give the same bits each time, whatever else runs. What is not known, or
 * not answered, counts as no. */
enum { OC_DETERMINISTIC_UNKNOWN = 0, OC_DETERMINISTIC_NO = 1, OC_DETERMINISTIC_YES = 2 };

/* What the host offers to plugins. Any thread. */
typedef struct oc_host_api {
  size_t struct_size;
  uint32_t abi_version;
  uint32_t reserved;
  /* level: 0 information, 1 warning, 2 error. */
  void (*log)(int32_t level, const char* message);
} oc_host_api;

/* Collectives of the device's own, over slices of several processes. Each function, and the table,
 * may be null; each may answer OC_UNIMPLEMENTED: the host's own collectives are used then. Calls
 * are enqueued in order on the queue, like ops. */
enum { OC_REDUCE_SUM = 1, OC_REDUCE_MAX = 2, OC_REDUCE_AVERAGE = 3 };
enum {
  OC_COLLECTIVE_ALL_REDUCE = 1,
  OC_COLLECTIVE_ALL_GATHER = 2,
  OC_COLLECTIVE_REDUCE_SCATTER = 4,
  OC_COLLECTIVE_BROADCAST = 8,
  OC_COLLECTIVE_SEND_RECV = 16,
  OC_COLLECTIVE_IN_CAPTURE = 32,
  OC_COLLECTIVE_SHARED_DEVICE = 64 /* several ranks may be slices of one device */
};

typedef struct oc_collective_api {
  size_t struct_size;
  /* Bits of OC_COLLECTIVE_..., and of 1 << OC_REDUCE_... for `dtype`. */
  int32_t (*capabilities)(oc_slice*, int32_t dtype, uint64_t* collectives, uint64_t* reductions,
                          oc_error*);
  /* One rank makes the id, all others receive its bytes and join with it. */
  int32_t (*id_bytes)(oc_slice*, int64_t* bytes, oc_error*);
  int32_t (*make_id)(oc_slice*, uint8_t* id, oc_error*);
  int32_t (*join)(oc_slice*, const uint8_t* id, int32_t rank, int32_t size, double timeout_seconds,
                  oc_communicator**, oc_error*);
  void (*leave)(oc_communicator*);
  /* Ends what is pending, on this rank, with OC_CANCELLED. Any thread. */
  int32_t (*abort)(oc_communicator*, oc_error*);
  /* The first error that the communicator met, or OC_OK. Any thread; does not block. */
  int32_t (*async_error)(oc_communicator*, oc_error*);
  int32_t (*all_reduce)(oc_communicator*, oc_queue*, const oc_range* from, const oc_range* to,
                        int32_t dtype, int32_t reduction, oc_error*);
  int32_t (*all_gather)(oc_communicator*, oc_queue*, const oc_range* from, const oc_range* to,
                        int32_t dtype, oc_error*);
  int32_t (*reduce_scatter)(oc_communicator*, oc_queue*, const oc_range* from, const oc_range* to,
                            int32_t dtype, int32_t reduction, oc_error*);
  int32_t (*broadcast)(oc_communicator*, oc_queue*, const oc_range* data, int32_t dtype,
                       int32_t root, oc_error*);
  int32_t (*send)(oc_communicator*, oc_queue*, const oc_range* from, int32_t dtype, int32_t peer,
                  oc_error*);
  int32_t (*recv)(oc_communicator*, oc_queue*, const oc_range* to, int32_t dtype, int32_t peer,
                  oc_error*);
  /* Calls between the two run as one. */
  int32_t (*group_begin)(oc_communicator*, oc_error*);
  int32_t (*group_end)(oc_communicator*, oc_error*);
} oc_collective_api;

/* Direct ways between two devices of the plugin. */
enum { OC_LINK_NONE = 0, OC_LINK_HOST = 1, OC_LINK_PEER = 2, OC_LINK_FABRIC = 3 };
typedef struct oc_link_info {
  size_t struct_size;
  int32_t kind;
  int32_t needs_staging; /* through memory of the host */
  double bytes_per_second;
  double latency_seconds;
} oc_link_info;
typedef struct oc_link_api {
  size_t struct_size;
  int32_t (*link)(oc_device* from, oc_device* to, oc_link_info*, oc_error*);
} oc_link_api;

typedef struct oc_profile_api {
  size_t struct_size;
  /* Seconds of the device between two recorded events of one queue, both ready. */
  int32_t (*elapsed)(oc_event* from, oc_event* to, double* seconds, oc_error*);
} oc_profile_api;

/* A queue's work, captured once and replayed: same ops, same ranges, same memory of the host. From
 * begin to end, ops and copies are kept instead of run; nothing is recorded or waited for. An
 * enqueue or a copy that cannot be captured answers OC_UNIMPLEMENTED: the capture is then of no
 * use, and is ended and destroyed. A device without any answers so to begin. */
typedef struct oc_capture_api {
  size_t struct_size;
  int32_t (*begin)(oc_queue*, oc_error*);
  int32_t (*end)(oc_queue*, oc_graph**, oc_error*);
  /* On any queue of the slice; errors show as those of other work do. */
  int32_t (*launch)(oc_queue*, oc_graph*, oc_error*);
  void (*destroy)(oc_graph*); /* waits until no launch runs */
  /* During a capture, not nested: what is enqueued up to end_if is left out of a launch in which
   * the f32 at `value` is not finite when its turn comes. May be null, or OC_UNIMPLEMENTED. */
  int32_t (*begin_if_finite)(oc_queue*, const oc_range* value, oc_error*);
  int32_t (*end_if)(oc_queue*, oc_error*);
} oc_capture_api;

/* The table. All functions up to event_wait must be there; what follows may be null. `destroy`
 * functions take null, and wait until nothing enqueued uses the object. */
typedef struct oc_device_api {
  size_t struct_size;
  uint32_t abi_version; /* of this table: at most the host's and the plugin's */
  uint32_t reserved;
  const oc_extension* next;
  const char* leaf;    /* "cpu", "opencl": what a cluster file calls the kind of device */
  const char* version; /* of the plugin, for reports */

  /* Devices are found when they are counted; device i stays the same afterwards. */
  int32_t (*count)(int32_t* devices, oc_error*);
  int32_t (*open)(int32_t index, oc_device**, oc_error*);
  void (*close)(oc_device*);
  int32_t (*device_info)(oc_device*, oc_device_info*, oc_error*);

  int32_t (*create_slice)(oc_device*, const oc_slice_options*, oc_slice**, oc_error*);
  void (*destroy_slice)(oc_slice*);
  int32_t (*slice_info)(oc_slice*, oc_slice_info*, oc_error*);

  /* Aligned to 64 bytes at least, zeroed. */
  int32_t (*allocate)(oc_slice*, int64_t bytes, oc_buffer**, oc_error*);
  void (*free)(oc_buffer*);
  /* One past the highest byte ever written; -1 where the device cannot tell. */
  int32_t (*high_water)(oc_buffer*, int64_t* bytes, oc_error*);
  /* Null in *bytes where the host cannot touch the range in place. */
  int32_t (*host_view)(oc_buffer*, int64_t offset, int64_t bytes, uint8_t** view, oc_error*);

  int32_t (*support)(oc_slice*, const oc_op_request*, oc_op_support*, oc_error*);
  int32_t (*prepare)(oc_slice*, const oc_op_request*, oc_op**, oc_op_info*, oc_error*);
  void (*release)(oc_op*);

  int32_t (*create_queue)(oc_slice*, const char* name, oc_queue**, oc_error*);
  void (*destroy_queue)(oc_queue*);
  /* What is enqueued runs in order. A call may return before its work is done; an error that shows
   * later comes with the next event recorded. Ranges are in the order of the op's operands, part by
   * part; `workspace` holds workspace_bytes. Host bytes must stay until an event recorded
   * afterwards is ready. The two ranges of a copy have the same size and do not overlap. */
  int32_t (*enqueue)(oc_queue*, oc_op*, const oc_range* inputs, int32_t num_inputs,
                     const oc_range* outputs, int32_t num_outputs, const oc_range* workspace,
                     oc_error*);
  int32_t (*copy_from_host)(oc_queue*, const oc_range* to, const uint8_t* from, oc_error*);
  int32_t (*copy_to_host)(oc_queue*, uint8_t* to, const oc_range* from, oc_error*);
  int32_t (*copy)(oc_queue*, const oc_range* to, const oc_range* from, oc_error*);
  int32_t (*record)(oc_queue*, oc_event*, oc_error*);
  /* Later work of the queue waits for the event, which may be of another queue of the plugin. */
  int32_t (*wait_for)(oc_queue*, oc_event*, oc_error*);

  /* An event may be recorded again; it then stands for the newer point. */
  int32_t (*create_event)(oc_slice*, oc_event**, oc_error*);
  void (*destroy_event)(oc_event*);
  int32_t (*event_ready)(oc_event*, int32_t* ready, oc_error*);
  /* Blocks; the status of the work before the event, or OC_DEADLINE_EXCEEDED. */
  int32_t (*event_wait)(oc_event*, double timeout_seconds, oc_error*);

  const oc_collective_api* collectives;
  const oc_link_api* links;
  const oc_profile_api* profile;
  const oc_capture_api* capture;

  /* Memory of the host from and to which copies are fastest, aligned to 64 bytes, zeroed; both may
   * be null: any memory will do. Nothing enqueued uses it any more when it is freed. */
  int32_t (*allocate_host)(oc_slice*, int64_t bytes, uint8_t** memory, oc_error*);
  void (*free_host)(oc_slice*, uint8_t* memory);
} oc_device_api;

/* The one exported symbol. Returns the newest table that both sides share, or null where there is
 * none (another major version). The host's table stays valid for the life of the process. */
typedef const oc_device_api* (*oc_device_query_function)(uint32_t host_abi_version,
                                                         const oc_host_api* host);
#define OC_DEVICE_QUERY_SYMBOL "openclaw_device_query"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OPENCLAW_DEVICE_H_ */
