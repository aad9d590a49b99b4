// Windows over NHWC images. `sizes`: batch, height, width, channels in, out height, out width,
// channels out, groups. `window`: of rows, then of columns: kernel, stride, padding before,
// dilation.
#define SIZES                                                                              \
  const idx batch = sizes.s0, height = sizes.s1, width = sizes.s2, in = sizes.s3;          \
  const idx out_height = sizes.s4, out_width = sizes.s5, out = sizes.s6, groups = sizes.s7;
#define WINDOW                                                                             \
  const idx kernel_h = window.s0, stride_h = window.s1, pad_h = window.s2, step_h = window.s3; \
  const idx kernel_w = window.s4, stride_w = window.s5, pad_w = window.s6, step_w = window.s7;

// The window whose position k reads `position`, or -1.
idx window_of(idx position, idx k, idx stride, idx pad, idx step, idx outputs) {
  const idx start = position + pad - k * step;
  if (start < 0 || start % stride != 0 || start / stride >= outputs) return -1;
  return start / stride;
}

// How a kernel with an item an element [b, h, w, c] of images begins.
#define EACH(images, h_size, w_size, c_size)                                               \
  const idx item = (idx)get_global_id(0);                                                  \
  if (item >= (images) * (h_size) * (w_size) * (c_size)) return;                           \
  const idx c = item % (c_size), w = item / (c_size) % (w_size);                           \
  const idx h = item / (c_size) / (w_size) % (h_size), b = item / (c_size) / (w_size) / (h_size);
#define EACH_OUTPUT(channels) SIZES WINDOW EACH(batch, out_height, out_width, channels)
#define EACH_INPUT SIZES WINDOW EACH(batch, height, width, in)

// In a loop over the positions k of a window: at_h, at_w, what position k of output h, w reads; or
// the output whose position k reads h, w. On to the next k where there is none.
#define READ_BY_WINDOW                                                                     \
  const idx at_h = h * stride_h - pad_h + k / kernel_w * step_h;                           \
  const idx at_w = w * stride_w - pad_w + k % kernel_w * step_w;                           \
  if (at_h < 0 || at_h >= height || at_w < 0 || at_w >= width) continue;
#define WINDOW_THAT_READS                                                                  \
  const idx at_h = window_of(h, k / kernel_w, stride_h, pad_h, step_h, out_height);        \
  const idx at_w = window_of(w, k % kernel_w, stride_w, pad_w, step_w, out_width);         \
  if (at_h < 0 || at_w < 0) continue;

__kernel void max_pool(ARG(E, x), ARG(E, y), ARG(uchar, index), idx8 sizes, idx8 window) {
  USE(E, x);
  USE(E, y);
  USE(uchar, index);
  EACH_OUTPUT(in)
  float best = -INFINITY;
  idx place = -1;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    READ_BY_WINDOW
    const float v = GET(x, ((b * height + at_h) * width + at_w) * in + c);
    // The first largest; what is no number wins, so that it is not hidden.
    if (place < 0 || v > best || (isnan(v) && !isnan(best))) {
      best = v;
      place = k;
    }
  }
  PUT(y, item, best);
  index[item] = (uchar)place;
}

__kernel void max_pool_grad(ARG(E, dy), ARG(uchar, index), ARG(E, dx), idx8 sizes,
                            idx8 window) {
  USE(E, dy);
  USE(uchar, index);
  USE(E, dx);
  EACH_INPUT
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    WINDOW_THAT_READS
    const idx at = ((b * out_height + at_h) * out_width + at_w) * in + c;
    if (index[at] == k) sum += GET(dy, at);
  }
  PUT(dx, item, sum);
}

// What the sum of a window is divided by: its positions, or those within the image.
float pool_divisor(idx8 sizes, idx8 window, idx h, idx w, int include_padding) {
  SIZES WINDOW
  if (include_padding) return (float)(kernel_h * kernel_w);
  const idx top = h * stride_h - pad_h, left = w * stride_w - pad_w;
  const idx rows = min(height, top + kernel_h) - max((idx)0, top);
  const idx columns = min(width, left + kernel_w) - max((idx)0, left);
  return (float)(rows * columns);
}

__kernel void avg_pool(ARG(E, x), ARG(E, y), idx8 sizes, idx8 window, int include_padding) {
  USE(E, x);
  USE(E, y);
  EACH_OUTPUT(in)
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    READ_BY_WINDOW
    sum += GET(x, ((b * height + at_h) * width + at_w) * in + c);
  }
  PUT(y, item, sum / pool_divisor(sizes, window, h, w, include_padding));
}

__kernel void avg_pool_grad(ARG(E, dy), ARG(E, dx), idx8 sizes, idx8 window,
                            int include_padding) {
  USE(E, dy);
  USE(E, dx);
  EACH_INPUT
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    WINDOW_THAT_READS
    sum += GET(dy, ((b * out_height + at_h) * out_width + at_w) * in + c) /
           pool_divisor(sizes, window, at_h, at_w, include_padding);
  }
  PUT(dx, item, sum);
}

// Convolutions in groups: weight [out, in / groups, kernel_h, kernel_w].
#define WEIGHT(o, i, kh, kw) (((o) * in_group + (i)) * kernel_h + (kh)) * kernel_w + (kw)

__kernel void conv(ARG(E, x), ARG(E, weight), ARG(E, bias), ARG(E, y), idx8 sizes, idx8 window) {
  USE(E, x);
  USE(E, weight);
  USE(E, bias);
  USE(E, y);
  EACH_OUTPUT(out)
  const idx in_group = in / groups, first = c / (out / groups) * in_group;
  float sum = bias_base ? GET(bias, c) : 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    READ_BY_WINDOW
    const idx at = ((b * height + at_h) * width + at_w) * in + first;
    for (idx i = 0; i < in_group; ++i) {
      sum += GET(x, at + i) * GET(weight, WEIGHT(c, i, k / kernel_w, k % kernel_w));
    }
  }
  PUT(y, item, sum);
}

__kernel void conv_grad_input(ARG(E, dy), ARG(E, weight), ARG(E, dx), idx8 sizes,
                              idx8 window) {
  USE(E, dy);
  USE(E, weight);
  USE(E, dx);
  EACH_INPUT
  const idx in_group = in / groups, out_group = out / groups, group = c / in_group;
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    WINDOW_THAT_READS
    const idx at = ((b * out_height + at_h) * out_width + at_w) * out;
    for (idx o = group * out_group; o < (group + 1) * out_group; ++o) {
      sum += GET(dy, at + o) * GET(weight, WEIGHT(o, c % in_group, k / kernel_w, k % kernel_w));
    }
  }
  PUT(dx, item, sum);
}

// A group of items an element of the weight's gradient.
__kernel void conv_grad_weight(ARG(E, dy), ARG(E, x), ARG(E, dw), idx8 sizes,
                               idx8 window, int add) {
  USE(E, dy);
  USE(E, x);
  USE(E, dw);
  __local float scratch[ROW];
  SIZES WINDOW
  const idx item = (idx)get_group_id(0), in_group = in / groups;
  const idx kw = item % kernel_w, kh = item / kernel_w % kernel_h;
  const idx i = item / kernel_w / kernel_h % in_group, o = item / kernel_w / kernel_h / in_group;
  const idx channel = o / (out / groups) * in_group + i;
  float sum = 0;
  for (idx at = (idx)get_local_id(0); at < batch * out_height * out_width; at += ROW) {
    const idx at_w = at % out_width * stride_w - pad_w + kw * step_w;
    const idx at_h = at / out_width % out_height * stride_h - pad_h + kh * step_h;
    if (at_h < 0 || at_h >= height || at_w < 0 || at_w >= width) continue;
    const idx image = at / out_width / out_height;
    const idx from = ((image * height + at_h) * width + at_w) * in + channel;
    sum += GET(dy, at * out + o) * GET(x, from);
  }
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) PUT(dw, item, add ? GET(dw, item) + sum : sum);
}

// Convolutions without groups are products of the weight with patches: a row an output pixel, its
// columns as the weight lies: [in, kernel_h, kernel_w].
__kernel void patches(ARG(E, x), ARG(float, columns), idx8 sizes, idx8 window, idx first_image,
                      idx images) {
  USE(E, x);
  USE(float, columns);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0), patch = in * kernel_h * kernel_w;
  if (item >= images * out_height * out_width * patch) return;
  const idx pixel = item / patch, kw = item % kernel_w, kh = item / kernel_w % kernel_h;
  const idx i = item % patch / kernel_w / kernel_h;
  const idx at_w = pixel % out_width * stride_w - pad_w + kw * step_w;
  const idx at_h = pixel / out_width % out_height * stride_h - pad_h + kh * step_h;
  const idx image = first_image + pixel / out_width / out_height;
  const bool inside = at_h >= 0 && at_h < height && at_w >= 0 && at_w < width;
  columns[item] = inside ? GET(x, ((image * height + at_h) * width + at_w) * in + i) : 0;
}

// The other way: each input pixel gathers from the patches that hold it.
__kernel void patches_grad(ARG(float, columns), ARG(E, dx), idx8 sizes, idx8 window,
                           idx first_image, idx images) {
  USE(float, columns);
  USE(E, dx);
  SIZES WINDOW EACH(images, height, width, in)
  const idx patch = in * kernel_h * kernel_w;
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    WINDOW_THAT_READS
    const idx pixel = (b * out_height + at_h) * out_width + at_w;
    sum += columns[pixel * patch + c * kernel_h * kernel_w + k];
  }
  PUT(dx, first_image * height * width * in + item, sum);
}
