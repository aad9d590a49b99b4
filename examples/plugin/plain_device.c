/* A device plugin in plain C, as small as one that trains can be: a "device" in memory of the host with
 * straightforward loops in f32. It needs nothing of OpenClaw but openclaw_device.h.
 *
 *   cc -std=c99 -shared -fPIC plain_device.c -o libplain_device.so -I PREFIX/include -lm
 *
 * A real device does in enqueue what the queue here does at once, and finishes events later. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openclaw/devices/openclaw_device.h>

#define MAX_OPERANDS 16
#define MAX_RANK 8

static int32_t fail(oc_error* error, int32_t code, const char* format, ...) {
  if (error != NULL && OC_HAS(error, oc_error, message)) {
    va_list args;
    va_start(args, format);
    error->code = code;
    vsnprintf(error->message, sizeof(error->message), format, args);
    va_end(args);
  }
  return code;
}

/* ---- Devices and slices ---- */

struct plain_slice {
  int64_t budget, used;
};

static int32_t count_devices(int32_t* devices, oc_error* error) {
  (void)error;
  *devices = 1;
  return OC_OK;
}
static int32_t open_device(int32_t index, oc_device** device, oc_error* error) {
  static char only;
  if (index != 0) return fail(error, OC_NOT_FOUND, "plain: there is one device, not %d", index);
  *device = (oc_device*)&only;
  return OC_OK;
}
static void close_device(oc_device* device) { (void)device; }
static int32_t device_info(oc_device* device, oc_device_info* info, oc_error* error) {
  (void)device, (void)error;
  info->name = "plain:0";
  info->model = "c99";
  info->compute_units = 1;
  info->num_cores = 0;
  info->cores = NULL;
  info->memory_bytes = (int64_t)1 << 30;
  return OC_OK;
}

static int32_t create_slice(oc_device* device, const oc_slice_options* options, oc_slice** slice,
                            oc_error* error) {
  struct plain_slice* s;
  (void)device;
  if (options->compute_units != 1) {
    return fail(error, OC_INVALID_ARGUMENT, "plain: %d compute units, there is one",
                options->compute_units);
  }
  s = calloc(1, sizeof(*s));
  if (s == NULL) return fail(error, OC_RESOURCE_EXHAUSTED, "plain: no memory for a slice");
  s->budget = options->memory_bytes;
  *slice = (oc_slice*)s;
  return OC_OK;
}
static void destroy_slice(oc_slice* slice) { free(slice); }
static int32_t slice_info(oc_slice* slice, oc_slice_info* info, oc_error* error) {
  static const int32_t dtypes[] = {OC_F32, OC_I32};
  (void)slice, (void)error;
  info->kind = "plain/c99/1t";
  info->compute_enforcement = OC_ENFORCE_NONE;
  info->memory_enforcement = OC_ENFORCE_HARD;
  info->num_dtypes = 2;
  info->dtypes = dtypes;
  return OC_OK;
}

/* ---- Memory ---- */

struct plain_buffer {
  struct plain_slice* slice;
  int64_t bytes, high_water;
  uint8_t* memory; /* as it was allocated */
  uint8_t* data;   /* aligned to 64 bytes */
};

static int32_t allocate(oc_slice* slice, int64_t bytes, oc_buffer** buffer, oc_error* error) {
  struct plain_slice* s = (struct plain_slice*)slice;
  struct plain_buffer* b;
  if (bytes < 0) {
    return fail(error, OC_INVALID_ARGUMENT, "plain: %lld bytes asked for", (long long)bytes);
  }
  b = calloc(1, sizeof(*b));
  if (s->budget > 0 && s->used + bytes > s->budget) {
    free(b);
    return fail(error, OC_RESOURCE_EXHAUSTED, "plain: %lld bytes asked for, %lld of %lld are left",
                (long long)bytes, (long long)(s->budget - s->used), (long long)s->budget);
  }
  if (b == NULL || (b->memory = calloc(1, (size_t)bytes + 64)) == NULL) {
    free(b);
    return fail(error, OC_RESOURCE_EXHAUSTED, "plain: no memory for %lld bytes", (long long)bytes);
  }
  b->data = b->memory + (64 - (uintptr_t)b->memory % 64) % 64;
  b->slice = s;
  b->bytes = bytes;
  s->used += bytes;
  *buffer = (oc_buffer*)b;
  return OC_OK;
}
static void free_buffer(oc_buffer* buffer) {
  struct plain_buffer* b = (struct plain_buffer*)buffer;
  if (b == NULL) return;
  b->slice->used -= b->bytes;
  free(b->memory);
  free(b);
}
static int32_t high_water(oc_buffer* buffer, int64_t* bytes, oc_error* error) {
  (void)error;
  *bytes = ((struct plain_buffer*)buffer)->high_water;
  return OC_OK;
}
/* The memory could be shown to the host; a device that says no shows that all works without. */
static int32_t host_view(oc_buffer* buffer, int64_t offset, int64_t bytes, uint8_t** view,
                         oc_error* error) {
  (void)buffer, (void)offset, (void)bytes, (void)error;
  *view = NULL;
  return OC_OK;
}

static const uint8_t* reading(const oc_range* r) {
  return r->buffer == NULL ? NULL : ((struct plain_buffer*)r->buffer)->data + r->offset;
}
static uint8_t* writing(const oc_range* r) {
  struct plain_buffer* b = (struct plain_buffer*)r->buffer;
  if (b == NULL) return NULL;
  if (r->offset + r->bytes > b->high_water) b->high_water = r->offset + r->bytes;
  return b->data + r->offset;
}

/* ---- Ops ---- */

struct tensor {
  int32_t dtype, rank;
  int64_t dims[MAX_RANK], n;
};

struct plain_op {
  int32_t (*run)(const struct plain_op*, const float* const* in, float* const* out, oc_error*);
  int32_t num_inputs, num_outputs, accumulate; /* accumulate: output 0 is added to */
  struct tensor in[MAX_OPERANDS], out[MAX_OPERANDS];
  double a, b, c, d; /* attributes, as each op names them */
  int32_t flag;
};

static int64_t last(const struct tensor* t) { return t->rank == 0 ? 1 : t->dims[t->rank - 1]; }
static void put(const struct plain_op* op, float* y, int64_t i, double value) {
  y[i] = (float)(op->accumulate ? y[i] + value : value);
}

/* y = x w^T + bias, then relu where flag is set. */
static int32_t linear(const struct plain_op* op, const float* const* in, float* const* out,
                      oc_error* error) {
  const int64_t k = last(&op->in[0]), n = op->in[1].dims[0], rows = op->in[0].n / (k > 0 ? k : 1);
  (void)error;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = op->num_inputs > 2 ? in[2][j] : 0;
      for (int64_t i = 0; i < k; ++i) sum += (double)in[0][r * k + i] * in[1][j * k + i];
      out[0][r * n + j] = (float)(op->flag && sum < 0 ? 0 : sum);
    }
  }
  return OC_OK;
}
static int32_t linear_grad_input(const struct plain_op* op, const float* const* in,
                                 float* const* out, oc_error* error) {
  const int64_t n = op->in[1].dims[0], k = op->in[1].dims[1], rows = op->in[0].n / (n > 0 ? n : 1);
  (void)error;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += (double)in[0][r * n + j] * in[1][j * k + i];
      out[0][r * k + i] = (float)sum;
    }
  }
  return OC_OK;
}
static int32_t linear_grad_weight(const struct plain_op* op, const float* const* in,
                                  float* const* out, oc_error* error) {
  const int64_t n = last(&op->in[0]), k = last(&op->in[1]), rows = op->in[0].n / (n > 0 ? n : 1);
  (void)error;
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < k; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += (double)in[0][r * n + j] * in[1][r * k + i];
      put(op, out[0], j * k + i, sum);
    }
  }
  return OC_OK;
}
static int32_t relu(const struct plain_op* op, const float* const* in, float* const* out,
                    oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = in[0][i] < 0 ? 0 : in[0][i];
  return OC_OK;
}
static int32_t relu_grad(const struct plain_op* op, const float* const* in, float* const* out,
                         oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = in[1][i] > 0 ? in[0][i] : 0;
  return OC_OK;
}
/* Not the product's: examples/own_op.cc adds the op, its gradient and its kernels for processors. */
static int32_t softsign(const struct plain_op* op, const float* const* in, float* const* out,
                        oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = in[0][i] / (1 + fabsf(in[0][i]));
  return OC_OK;
}
static int32_t softsign_grad(const struct plain_op* op, const float* const* in, float* const* out,
                             oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) {
    const float d = 1 + fabsf(in[1][i]);
    out[0][i] = in[0][i] / (d * d);
  }
  return OC_OK;
}
/* The second operand may be a suffix of the first. */
static int32_t add(const struct plain_op* op, const float* const* in, float* const* out,
                   oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = in[0][i] + in[1][i % op->in[1].n];
  return OC_OK;
}
static int32_t mul(const struct plain_op* op, const float* const* in, float* const* out,
                   oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = in[0][i] * in[1][i % op->in[1].n];
  return OC_OK;
}
static int32_t scale(const struct plain_op* op, const float* const* in, float* const* out,
                     oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = (float)(op->a * in[0][i] + op->b);
  return OC_OK;
}
static int32_t reciprocal(const struct plain_op* op, const float* const* in, float* const* out,
                          oc_error* error) {
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) out[0][i] = 1.0f / in[0][i];
  return OC_OK;
}
static int32_t copy_op(const struct plain_op* op, const float* const* in, float* const* out,
                       oc_error* error) {
  (void)error;
  if (op->out[0].n > 0) memmove(out[0], in[0], (size_t)op->out[0].n * 4);
  return OC_OK;
}
/* Sums over the leading axes, of which there are flag. */
static int32_t reduce_sum(const struct plain_op* op, const float* const* in, float* const* out,
                          oc_error* error) {
  const int64_t n = op->out[0].n, rows = n > 0 ? op->in[0].n / n : 0;
  (void)error;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += in[0][r * n + i];
    put(op, out[0], i, sum);
  }
  return OC_OK;
}
static int32_t sum_squares(const struct plain_op* op, const float* const* in, float* const* out,
                           oc_error* error) {
  double sum = 0;
  (void)error;
  for (int32_t j = 0; j < op->num_inputs; ++j) {
    for (int64_t i = 0; i < op->in[j].n; ++i) sum += (double)in[j][i] * in[j][i];
  }
  put(op, out[0], 0, sum);
  return OC_OK;
}
/* a: max_norm. */
static int32_t clip_factor(const struct plain_op* op, const float* const* in, float* const* out,
                           oc_error* error) {
  const double factor = op->a / (sqrt(in[0][0]) + 1e-6);
  (void)error;
  out[0][0] = (float)(isinf(op->a) || factor > 1 ? 1 : factor);
  return OC_OK;
}

/* Labels: b is the one that is ignored. */
static int label_of(const struct plain_op* op, const void* labels, int64_t row, int64_t classes,
                    int32_t* label, oc_error* error) {
  *label = ((const int32_t*)labels)[row];
  if (*label == (int32_t)op->b) return 0;
  if (*label < 0 || *label >= classes) {
    fail(error, OC_OUT_OF_RANGE, "plain: label %d of row %lld is not one of %lld classes", *label,
         (long long)row, (long long)classes);
    return -1;
  }
  return 1;
}
static int32_t cross_entropy(const struct plain_op* op, const float* const* in, float* const* out,
                             oc_error* error) {
  const int64_t v = last(&op->in[0]), rows = op->in[1].n;
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = in[0] + r * v;
    double largest = x[0], sum = 0;
    int32_t label;
    const int counts = label_of(op, in[1], r, v, &label, error);
    if (counts < 0) return OC_OUT_OF_RANGE;
    for (int64_t i = 1; i < v; ++i) largest = x[i] > largest ? x[i] : largest;
    for (int64_t i = 0; i < v; ++i) sum += exp(x[i] - largest);
    out[1][r] = (float)(largest + log(sum));
    if (counts) loss += largest + log(sum) - x[label];
  }
  out[0][0] = (float)loss;
  return OC_OK;
}
static int32_t cross_entropy_grad(const struct plain_op* op, const float* const* in,
                                  float* const* out, oc_error* error) {
  const int64_t v = last(&op->in[1]), rows = op->in[2].n;
  for (int64_t r = 0; r < rows; ++r) {
    int32_t label;
    const int counts = label_of(op, in[2], r, v, &label, error);
    if (counts < 0) return OC_OUT_OF_RANGE;
    for (int64_t i = 0; i < v; ++i) {
      const double p = exp((double)in[1][r * v + i] - in[3][r]);
      out[0][r * v + i] = (float)(counts ? in[0][0] * (p - (i == label)) : 0);
    }
  }
  return OC_OK;
}
static int32_t count_valid(const struct plain_op* op, const float* const* in, float* const* out,
                           oc_error* error) {
  double n = 0;
  (void)error;
  for (int64_t r = 0; r < op->in[0].n; ++r) {
    n += ((const int32_t*)(const void*)in[0])[r] != (int32_t)op->b;
  }
  out[0][0] = (float)n;
  return OC_OK;
}
static int32_t count_correct(const struct plain_op* op, const float* const* in, float* const* out,
                             oc_error* error) {
  const int64_t v = last(&op->in[0]);
  double n = 0;
  for (int64_t r = 0; r < op->in[1].n; ++r) {
    const float* x = in[0] + r * v;
    int64_t best = 0;
    int32_t label;
    const int counts = label_of(op, in[1], r, v, &label, error);
    if (counts < 0) return OC_OUT_OF_RANGE;
    for (int64_t i = 1; i < v; ++i) best = x[i] > x[best] ? i : best;
    n += counts && best == label;
  }
  out[0][0] = (float)n;
  return OC_OK;
}

/* p, g, lr, clip, momentum buffer?; a: momentum, b: weight_decay, flag: nesterov. */
static int32_t sgd(const struct plain_op* op, const float* const* in, float* const* out,
                   oc_error* error) {
  const double lr = in[2][0], clip = in[3][0];
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) {
    double d = clip * in[1][i] + op->b * in[0][i];
    if (op->num_inputs > 4) {
      const double m = op->a * in[4][i] + d;
      out[1][i] = (float)m;
      d = op->flag ? d + op->a * m : m;
    }
    out[0][i] = (float)(in[0][i] - lr * d);
  }
  return OC_OK;
}
/* p, g, m, v, lr, step, clip; a: beta1, b: beta2, c: eps, d: weight_decay. */
static int32_t adamw(const struct plain_op* op, const float* const* in, float* const* out,
                     oc_error* error) {
  const double lr = in[4][0], step = in[5][0], clip = in[6][0];
  (void)error;
  for (int64_t i = 0; i < op->out[0].n; ++i) {
    const double g = clip * in[1][i];
    const double m = op->a * in[2][i] + (1 - op->a) * g;
    const double v = op->b * in[3][i] + (1 - op->b) * g * g;
    const double update = m / (1 - pow(op->a, step)) / (sqrt(v / (1 - pow(op->b, step))) + op->c);
    out[0][i] = (float)(in[0][i] - lr * (update + op->d * in[0][i]));
    out[1][i] = (float)m;
    out[2][i] = (float)v;
  }
  return OC_OK;
}

static double attr(const oc_op_request* r, const char* name, double fallback) {
  for (int32_t i = 0; i < r->num_attrs; ++i) {
    const oc_attr* a = r->attrs[i];
    if (strcmp(a->name, name) != 0) continue;
    return a->kind == OC_ATTR_DOUBLE ? a->f : (double)a->i;
  }
  return fallback;
}
static const char* text_attr(const oc_op_request* r, const char* name, const char* fallback) {
  for (int32_t i = 0; i < r->num_attrs; ++i) {
    if (strcmp(r->attrs[i]->name, name) == 0) return r->attrs[i]->s;
  }
  return fallback;
}

/* Each sets what its kernel reads, or gives a reason why it cannot. */
static const char* no_attrs(const oc_op_request* r, struct plain_op* op) {
  (void)r, (void)op;
  return NULL;
}
static const char* linear_attrs(const oc_op_request* r, struct plain_op* op) {
  const char* activation = text_attr(r, "activation", "none");
  op->flag = strcmp(activation, "relu") == 0;
  return op->flag || strcmp(activation, "none") == 0 ? NULL : "there are activations none and relu";
}
static const char* scale_attrs(const oc_op_request* r, struct plain_op* op) {
  op->a = attr(r, "factor", 1);
  op->b = attr(r, "offset", 0);
  return NULL;
}
static const char* leading_axes(const oc_op_request* r, struct plain_op* op) {
  const oc_tensor_type* x = r->inputs[0]->parts[0];
  (void)op;
  for (int32_t i = 0; i < r->num_attrs; ++i) {
    const oc_attr* a = r->attrs[i];
    if (strcmp(a->name, "axes") != 0) continue;
    for (int32_t j = 0; j < a->num_ints; ++j) {
      if (a->ints[j] != j && a->ints[j] != j - x->rank) return "it sums over leading axes only";
    }
  }
  return NULL;
}
static const char* max_norm(const oc_op_request* r, struct plain_op* op) {
  op->a = attr(r, "max_norm", 1);
  return NULL;
}
static const char* ignored(const oc_op_request* r, struct plain_op* op) {
  op->b = attr(r, "ignore_index", -1);
  return NULL;
}
static const char* sgd_attrs(const oc_op_request* r, struct plain_op* op) {
  op->a = attr(r, "momentum", 0);
  op->b = attr(r, "weight_decay", 0);
  op->flag = attr(r, "nesterov", 0) != 0;
  return NULL;
}
static const char* adamw_attrs(const oc_op_request* r, struct plain_op* op) {
  op->a = attr(r, "beta1", 0.9);
  op->b = attr(r, "beta2", 0.999);
  op->c = attr(r, "eps", 1e-8);
  op->d = attr(r, "weight_decay", 0);
  return NULL;
}

static const struct kernel {
  const char* name;
  int32_t (*run)(const struct plain_op*, const float* const*, float* const*, oc_error*);
  const char* (*attrs)(const oc_op_request*, struct plain_op*);
  int accumulates;
} kernels[] = {
    {"linear", linear, linear_attrs, 0},
    {"linear_grad_input", linear_grad_input, no_attrs, 0},
    {"linear_grad_weight", linear_grad_weight, no_attrs, 1},
    {"relu", relu, no_attrs, 0},
    {"relu_grad", relu_grad, no_attrs, 0},
    {"softsign", softsign, no_attrs, 0},
    {"softsign_grad", softsign_grad, no_attrs, 0},
    {"add", add, no_attrs, 0},
    {"accumulate", add, no_attrs, 0},
    {"mul", mul, no_attrs, 0},
    {"scale", scale, scale_attrs, 0},
    {"reciprocal", reciprocal, no_attrs, 0},
    {"copy", copy_op, no_attrs, 0},
    {"reduce_sum", reduce_sum, leading_axes, 1},
    {"sum_squares", sum_squares, no_attrs, 1},
    {"clip_factor", clip_factor, max_norm, 0},
    {"cross_entropy", cross_entropy, ignored, 0},
    {"cross_entropy_grad", cross_entropy_grad, ignored, 0},
    {"count_valid", count_valid, ignored, 0},
    {"count_correct", count_correct, ignored, 0},
    {"sgd", sgd, sgd_attrs, 0},
    {"adamw", adamw, adamw_attrs, 0},
};

static const char* take_tensors(const oc_operand* const* from, int32_t n, struct tensor* to) {
  for (int32_t i = 0; i < n; ++i) {
    const oc_tensor_type* t = from[i]->parts[0];
    if (from[i]->num_parts != 1 || t->layout != OC_LAYOUT_PLAIN) return "an operand is not plain";
    if (t->dtype != OC_F32 && t->dtype != OC_I32) return "there are f32, and i32 for labels";
    if (t->rank > MAX_RANK) return "an operand has too many dimensions";
    to[i].dtype = t->dtype;
    to[i].rank = t->rank;
    to[i].n = 1;
    for (int32_t d = 0; d < t->rank; ++d) to[i].n *= to[i].dims[d] = t->dims[d];
  }
  return NULL;
}
static int integers_are_labels(const struct plain_op* op) {
  for (int32_t i = 0; i < op->num_inputs; ++i) {
    if (op->in[i].dtype != OC_I32) continue;
    if (op->run != cross_entropy && op->run != cross_entropy_grad && op->run != count_valid &&
        op->run != count_correct) {
      return 0;
    }
  }
  return 1;
}

/* Fills op; the reason why it cannot run, or null. */
static const char* fit(const oc_op_request* r, struct plain_op* op) {
  const struct kernel* kernel = NULL;
  const char* why;
  for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); ++i) {
    if (strcmp(kernels[i].name, r->name) == 0 && r->version == 1) kernel = &kernels[i];
  }
  if (kernel == NULL) return "there is no kernel of that name and version";
  if (r->num_inputs > MAX_OPERANDS || r->num_outputs > MAX_OPERANDS) return "too many operands";
  op->run = kernel->run;
  op->num_inputs = r->num_inputs;
  op->num_outputs = r->num_outputs;
  if ((why = take_tensors(r->inputs, r->num_inputs, op->in)) != NULL) return why;
  if ((why = take_tensors(r->outputs, r->num_outputs, op->out)) != NULL) return why;
  if (!integers_are_labels(op)) return "integers are labels only";
  for (int32_t i = 0; i < r->num_outputs; ++i) {
    if ((r->outputs[i]->flags & OC_OPERAND_ACCUMULATE) == 0) continue;
    if (i > 0 || !kernel->accumulates) return "the kernel does not add to its output";
    op->accumulate = 1;
  }
  return kernel->attrs(r, op);
}

static int32_t support(oc_slice* slice, const oc_op_request* r, oc_op_support* answer,
                       oc_error* error) {
  struct plain_op op;
  const char* why;
  (void)slice, (void)error;
  memset(&op, 0, sizeof(op));
  why = fit(r, &op);
  answer->support = why == NULL ? OC_SUPPORT_YES : OC_SUPPORT_NO;
  answer->seconds = -1;
  snprintf(answer->reason, sizeof(answer->reason), "%s", why == NULL ? "" : why);
  return OC_OK;
}
static int32_t prepare(oc_slice* slice, const oc_op_request* r, oc_op** out, oc_op_info* info,
                       oc_error* error) {
  struct plain_op* op = calloc(1, sizeof(*op));
  const char* why;
  (void)slice;
  if (op == NULL) return fail(error, OC_RESOURCE_EXHAUSTED, "plain: no memory for an op");
  if ((why = fit(r, op)) != NULL) {
    free(op);
    return fail(error, OC_UNIMPLEMENTED, "op %s on plain: %s", r->name, why);
  }
  info->implementation = "plain";
  info->workspace_bytes = 0;
  info->num_opaque = 0;
  /* One loop after another, on one thread: the same bits each time. A host that is older than the
   * member gives a smaller struct. */
  if (OC_HAS(info, oc_op_info, deterministic)) info->deterministic = OC_DETERMINISTIC_YES;
  *out = (oc_op*)op;
  return OC_OK;
}
static void release(oc_op* op) { free(op); }

/* ---- Queues and events ---- */

struct plain_queue {
  oc_error first; /* what went wrong first: later events carry it */
};
struct plain_event {
  int32_t recorded;
  oc_error status;
};

static int32_t create_queue(oc_slice* slice, const char* name, oc_queue** queue, oc_error* error) {
  struct plain_queue* q = calloc(1, sizeof(*q));
  (void)slice, (void)name;
  if (q == NULL) return fail(error, OC_RESOURCE_EXHAUSTED, "plain: no memory for a queue");
  q->first.struct_size = sizeof(q->first);
  *queue = (oc_queue*)q;
  return OC_OK;
}
static void destroy_queue(oc_queue* queue) { free(queue); }

static int32_t enqueue(oc_queue* queue, oc_op* op, const oc_range* inputs, int32_t num_inputs,
                       const oc_range* outputs, int32_t num_outputs, const oc_range* workspace,
                       oc_error* error) {
  struct plain_queue* q = (struct plain_queue*)queue;
  const struct plain_op* p = (const struct plain_op*)op;
  const float* in[MAX_OPERANDS];
  float* out[MAX_OPERANDS];
  (void)workspace;
  if (num_inputs != p->num_inputs || num_outputs != p->num_outputs) {
    return fail(error, OC_INVALID_ARGUMENT, "plain: the op was prepared for other operands");
  }
  for (int32_t i = 0; i < num_inputs; ++i) in[i] = (const float*)(const void*)reading(&inputs[i]);
  for (int32_t i = 0; i < num_outputs; ++i) out[i] = (float*)(void*)writing(&outputs[i]);
  if (q->first.code == OC_OK) q->first.code = p->run(p, in, out, &q->first);
  return OC_OK;
}
static int32_t copy_from_host(oc_queue* queue, const oc_range* to, const uint8_t* from,
                              oc_error* error) {
  (void)queue, (void)error;
  if (to->bytes > 0) memcpy(writing(to), from, (size_t)to->bytes);
  return OC_OK;
}
static int32_t copy_to_host(oc_queue* queue, uint8_t* to, const oc_range* from, oc_error* error) {
  (void)queue, (void)error;
  if (from->bytes > 0) memcpy(to, reading(from), (size_t)from->bytes);
  return OC_OK;
}
static int32_t copy(oc_queue* queue, const oc_range* to, const oc_range* from, oc_error* error) {
  (void)queue, (void)error;
  if (from->bytes > 0) memmove(writing(to), reading(from), (size_t)from->bytes);
  return OC_OK;
}
static int32_t record(oc_queue* queue, oc_event* event, oc_error* error) {
  struct plain_event* e = (struct plain_event*)event;
  (void)error;
  e->status = ((struct plain_queue*)queue)->first;
  e->recorded = 1;
  return OC_OK;
}
static int32_t wait_for(oc_queue* queue, oc_event* event, oc_error* error) {
  const struct plain_event* e = (const struct plain_event*)event;
  struct plain_queue* q = (struct plain_queue*)queue;
  (void)error;
  /* What was recorded has happened; how it ended is inherited. */
  if (e->recorded && q->first.code == OC_OK) q->first = e->status;
  return OC_OK;
}
static int32_t create_event(oc_slice* slice, oc_event** event, oc_error* error) {
  struct plain_event* e = calloc(1, sizeof(*e));
  (void)slice;
  if (e == NULL) return fail(error, OC_RESOURCE_EXHAUSTED, "plain: no memory for an event");
  *event = (oc_event*)e;
  return OC_OK;
}
static void destroy_event(oc_event* event) { free(event); }
static int32_t event_ready(oc_event* event, int32_t* ready, oc_error* error) {
  (void)error;
  *ready = ((struct plain_event*)event)->recorded;
  return OC_OK;
}
static int32_t event_wait(oc_event* event, double timeout_seconds, oc_error* error) {
  const struct plain_event* e = (const struct plain_event*)event;
  (void)timeout_seconds;
  if (!e->recorded) return fail(error, OC_FAILED_PRECONDITION, "plain: nothing was recorded");
  if (e->status.code == OC_OK) return OC_OK;
  return fail(error, e->status.code, "%s", e->status.message);
}

const oc_device_api* openclaw_device_query(uint32_t host_abi_version, const oc_host_api* host) {
  static const oc_device_api api = {
      sizeof(oc_device_api), OC_DEVICE_ABI_VERSION, 0,           NULL,
      "plain",               "1.0",                 count_devices, open_device,
      close_device,          device_info,           create_slice, destroy_slice,
      slice_info,            allocate,              free_buffer,  high_water,
      host_view,             support,               prepare,      release,
      create_queue,          destroy_queue,         enqueue,      copy_from_host,
      copy_to_host,          copy,                  record,       wait_for,
      create_event,          destroy_event,         event_ready,  event_wait,
      NULL,                  NULL,                  NULL,         NULL,
      NULL,                  NULL};
  (void)host;
  return host_abi_version >> 16 == OC_DEVICE_ABI_MAJOR ? &api : NULL;
}
