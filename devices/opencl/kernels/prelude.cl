// Before every text. OC_IDX is defined by the host: int, or long for operands of many elements.
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

// The sum and the largest of a tree over the values of a group of ROW items; all of them get it.
float group_sum(float value, __local float *scratch) {
  const int lid = (int)get_local_id(0);
  scratch[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_width = ROW / 2; half_width > 0; half_width /= 2) {
    if (lid < half_width) scratch[lid] += scratch[lid + half_width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

acc group_sum_acc(acc value, __local acc *scratch) {
  const int lid = (int)get_local_id(0);
  scratch[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_width = ROW / 2; half_width > 0; half_width /= 2) {
    if (lid < half_width) scratch[lid] += scratch[lid + half_width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const acc sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float group_max(float value, __local float *scratch) {
  const int lid = (int)get_local_id(0);
  scratch[lid] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_width = ROW / 2; half_width > 0; half_width /= 2) {
    if (lid < half_width) scratch[lid] = fmax(scratch[lid], scratch[lid + half_width]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float largest = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

// Reports bad data: the first report of a queue stays. `code` tells the op.
void report(__global int *flags, int code, int position, int value) {
  if (atomic_cmpxchg((volatile __global int *)flags, 0, code) == 0) {
    flags[1] = position;
    flags[2] = value;
  }
}
