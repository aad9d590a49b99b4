// Before every text. Defined by the host: OC_IDX, int, or long for operands of many elements; and
// E, the op's float type: float, half or bf16.
typedef OC_IDX idx;
typedef OC_IDX8 idx8;
#define ROW 64

// What sums that cancel are carried in: double where the device has it.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double acc;
#else
typedef float acc;
#endif

// An operand: a buffer and a byte offset, which USE turns into a pointer.
#define ARG(T, name) __global uchar *name##_base, long name##_offset
#define USE(T, name) __global T *name = (__global T *)(name##_base + name##_offset)

// The narrow floats are for memory alone, which every device can: all arithmetic is in float.
// Elements of T are read and written by LOAD and STORE, and are computed with as COMPUTED(T).
typedef ushort bf16;  // the upper half of a float, rounded to nearest even
bf16 bf16_of(float x) {
  const uint u = as_uint(x);
  return (bf16)(isnan(x) ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
#define load_float(p, i) (p)[i]
#define load_half(p, i) vload_half(i, p)
#define load_bf16(p, i) as_float((uint)(p)[i] << 16)
#define load_double(p, i) (p)[i]
#define load_int(p, i) (p)[i]
#define load_long(p, i) (p)[i]
#define load_uchar(p, i) (p)[i]
#define store_float(p, i, value) (p)[i] = (value)
#define store_half(p, i, value) vstore_half_rte(value, i, p)
#define store_bf16(p, i, value) (p)[i] = bf16_of(value)
#define store_double(p, i, value) (p)[i] = (value)
#define store_int(p, i, value) (p)[i] = (int)(value)
#define store_long(p, i, value) (p)[i] = (long)(value)
#define store_uchar(p, i, value) (p)[i] = (uchar)(value)
#define computed_float float
#define computed_half float
#define computed_bf16 float
#define computed_double double
#define computed_int int
#define computed_long long
#define computed_uchar uchar
#define load4_float(p) vload4(0, p)
#define load4_half(p) vload_half4(0, p)
#define load4_bf16(p) as_float4(convert_uint4(vload4(0, p)) << 16)

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define LOAD(T, p, i) PASTE(load_, T)(p, i)
#define STORE(T, p, i, value) PASTE(store_, T)(p, i, value)
#define COMPUTED(T) PASTE(computed_, T)
#define GET(p, i) LOAD(E, p, i)
#define PUT(p, i, value) STORE(E, p, i, value)
#define GET4(p) PASTE(load4_, E)(p)

// A function: what a tree over the values of a group of ROW items makes of them, for all of them.
#define GROUP_TREE(name, T, COMBINE_TWO)                                                      \
  T name(T value, __local T *scratch) {                                                       \
    const int lid = (int)get_local_id(0);                                                     \
    scratch[lid] = value;                                                                     \
    barrier(CLK_LOCAL_MEM_FENCE);                                                             \
    for (int width = ROW / 2; width > 0; width /= 2) {                                        \
      if (lid < width) scratch[lid] = COMBINE_TWO(scratch[lid], scratch[lid + width]);        \
      barrier(CLK_LOCAL_MEM_FENCE);                                                           \
    }                                                                                         \
    const T result = scratch[0];                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                             \
    return result;                                                                            \
  }
#define SUM_OF_TWO(a, b) ((a) + (b))
GROUP_TREE(group_sum, float, SUM_OF_TWO)
GROUP_TREE(group_sum_acc, acc, SUM_OF_TWO)
GROUP_TREE(group_max, float, fmax)

// Reports bad data: the first report of a queue stays. `code` tells the op.
void report(__global int *flags, int code, int position, int value) {
  if (atomic_cmpxchg((volatile __global int *)flags, 0, code) == 0) {
    flags[1] = position;
    flags[2] = value;
  }
}
