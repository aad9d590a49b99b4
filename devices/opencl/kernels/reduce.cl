// A group an output (or a part of one). The host defines the types of elements, sums and results
// (T, ACC, R), START, COMBINE(a, b) and PRE(x).
GROUP_TREE(group_combined, ACC, COMBINE)

__kernel void reduce(ARG(T, x), ARG(R, y), idx inner, idx parts, idx8 kept_sizes,
                     idx8 kept_strides, idx8 inner_sizes, idx8 inner_strides, idx accumulate,
                     float scale) {
  USE(T, x);
  USE(R, y);
  __local ACC scratch[ROW];
  const int lid = (int)get_local_id(0);
  const idx group = (idx)get_group_id(0);
  idx size[8], stride[8];
  vstore8(kept_sizes, 0, size);
  vstore8(kept_strides, 0, stride);
  idx first = 0, rest = group / parts;
  for (int d = 7; d >= 0; --d) {
    first += rest % size[d] * stride[d];
    rest /= size[d];
  }
  vstore8(inner_sizes, 0, size);
  vstore8(inner_strides, 0, stride);
  const idx chunk = (inner + parts - 1) / parts, begin = group % parts * chunk;
  const idx end = min(inner, begin + chunk);
  ACC value = START;
  for (idx i = begin + lid; i < end; i += ROW) {
#ifdef LINE
    const idx from = i * stride[7];
#else
    idx from = 0, left = i;
    for (int d = 7; d >= 0; --d) {
      from += left % size[d] * stride[d];
      left /= size[d];
    }
#endif
    const ACC next = PRE((ACC)LOAD(T, x, first + from));
    value = COMBINE(value, next);
  }
  value = group_combined(value, scratch);
  if (lid == 0) {
    const ACC total = scale == 1 ? value : (ACC)(value * scale);
    STORE(R, y, group, accumulate ? (ACC)LOAD(R, y, group) + total : total);
  }
}
