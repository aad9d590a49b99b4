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

// Item -> b, h, w, c of an image of h_size, w_size, c_size.
#define PIXEL(item, h_size, w_size, c_size)                                \
  const idx c = item % (c_size), w = item / (c_size) % (w_size);           \
  const idx h = item / (c_size) / (w_size) % (h_size), b = item / (c_size) / (w_size) / (h_size);

__kernel void max_pool(ARG(float, x), ARG(float, y), ARG(uchar, index), idx8 sizes, idx8 window) {
  USE(float, x);
  USE(float, y);
  USE(uchar, index);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * out_height * out_width * in) return;
  PIXEL(item, out_height, out_width, in)
  float best = -INFINITY;
  idx place = -1;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = h * stride_h - pad_h + k / kernel_w;
    const idx at_w = w * stride_w - pad_w + k % kernel_w;
    if (at_h < 0 || at_h >= height || at_w < 0 || at_w >= width) continue;
    const float v = x[((b * height + at_h) * width + at_w) * in + c];
    // The first largest; what is no number wins, so that it is not hidden.
    if (place < 0 || v > best || (isnan(v) && !isnan(best))) {
      best = v;
      place = k;
    }
  }
  y[item] = best;
  index[item] = (uchar)place;
}

__kernel void max_pool_grad(ARG(float, dy), ARG(uchar, index), ARG(float, dx), idx8 sizes,
                            idx8 window) {
  USE(float, dy);
  USE(uchar, index);
  USE(float, dx);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * height * width * in) return;
  PIXEL(item, height, width, in)
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = window_of(h, k / kernel_w, stride_h, pad_h, step_h, out_height);
    const idx at_w = window_of(w, k % kernel_w, stride_w, pad_w, step_w, out_width);
    if (at_h < 0 || at_w < 0) continue;
    const idx at = ((b * out_height + at_h) * out_width + at_w) * in + c;
    if (index[at] == k) sum += dy[at];
  }
  dx[item] = sum;
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

__kernel void avg_pool(ARG(float, x), ARG(float, y), idx8 sizes, idx8 window, int include_padding) {
  USE(float, x);
  USE(float, y);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * out_height * out_width * in) return;
  PIXEL(item, out_height, out_width, in)
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = h * stride_h - pad_h + k / kernel_w;
    const idx at_w = w * stride_w - pad_w + k % kernel_w;
    if (at_h < 0 || at_h >= height || at_w < 0 || at_w >= width) continue;
    sum += x[((b * height + at_h) * width + at_w) * in + c];
  }
  y[item] = sum / pool_divisor(sizes, window, h, w, include_padding);
}

__kernel void avg_pool_grad(ARG(float, dy), ARG(float, dx), idx8 sizes, idx8 window,
                            int include_padding) {
  USE(float, dy);
  USE(float, dx);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * height * width * in) return;
  PIXEL(item, height, width, in)
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = window_of(h, k / kernel_w, stride_h, pad_h, step_h, out_height);
    const idx at_w = window_of(w, k % kernel_w, stride_w, pad_w, step_w, out_width);
    if (at_h < 0 || at_w < 0) continue;
    sum += dy[((b * out_height + at_h) * out_width + at_w) * in + c] /
           pool_divisor(sizes, window, at_h, at_w, include_padding);
  }
  dx[item] = sum;
}

// Convolutions in groups: weight [out, in / groups, kernel_h, kernel_w].
#define WEIGHT(o, i, kh, kw) (((o) * in_group + (i)) * kernel_h + (kh)) * kernel_w + (kw)

__kernel void conv(ARG(float, x), ARG(float, weight), ARG(float, y), idx8 sizes, idx8 window) {
  USE(float, x);
  USE(float, weight);
  USE(float, y);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * out_height * out_width * out) return;
  PIXEL(item, out_height, out_width, out)
  const idx in_group = in / groups, first = c / (out / groups) * in_group;
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = h * stride_h - pad_h + k / kernel_w * step_h;
    const idx at_w = w * stride_w - pad_w + k % kernel_w * step_w;
    if (at_h < 0 || at_h >= height || at_w < 0 || at_w >= width) continue;
    const idx at = ((b * height + at_h) * width + at_w) * in + first;
    for (idx i = 0; i < in_group; ++i) {
      sum += x[at + i] * weight[WEIGHT(c, i, k / kernel_w, k % kernel_w)];
    }
  }
  y[item] = sum;
}

__kernel void conv_grad_input(ARG(float, dy), ARG(float, weight), ARG(float, dx), idx8 sizes,
                              idx8 window) {
  USE(float, dy);
  USE(float, weight);
  USE(float, dx);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0);
  if (item >= batch * height * width * in) return;
  PIXEL(item, height, width, in)
  const idx in_group = in / groups, out_group = out / groups, group = c / in_group;
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = window_of(h, k / kernel_w, stride_h, pad_h, step_h, out_height);
    const idx at_w = window_of(w, k % kernel_w, stride_w, pad_w, step_w, out_width);
    if (at_h < 0 || at_w < 0) continue;
    const idx at = ((b * out_height + at_h) * out_width + at_w) * out;
    for (idx o = group * out_group; o < (group + 1) * out_group; ++o) {
      sum += dy[at + o] * weight[WEIGHT(o, c % in_group, k / kernel_w, k % kernel_w)];
    }
  }
  dx[item] = sum;
}

// A group of items an element of the weight's gradient.
__kernel void conv_grad_weight(ARG(float, dy), ARG(float, x), ARG(float, dw), idx8 sizes,
                               idx8 window, int add) {
  USE(float, dy);
  USE(float, x);
  USE(float, dw);
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
    sum += dy[at * out + o] * x[((image * height + at_h) * width + at_w) * in + channel];
  }
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) dw[item] = add ? dw[item] + sum : sum;
}

// Convolutions without groups are products of the weight with patches: a row an output pixel, its
// columns as the weight lies: [in, kernel_h, kernel_w].
__kernel void patches(ARG(float, x), ARG(float, columns), idx8 sizes, idx8 window, idx first_image,
                      idx images) {
  USE(float, x);
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
  columns[item] = inside ? x[((image * height + at_h) * width + at_w) * in + i] : 0;
}

// The other way: each input pixel gathers from the patches that hold it.
__kernel void patches_grad(ARG(float, columns), ARG(float, dx), idx8 sizes, idx8 window,
                           idx first_image, idx images) {
  USE(float, columns);
  USE(float, dx);
  SIZES WINDOW
  const idx item = (idx)get_global_id(0), patch = in * kernel_h * kernel_w;
  if (item >= images * height * width * in) return;
  PIXEL(item, height, width, in)
  float sum = 0;
  for (idx k = 0; k < kernel_h * kernel_w; ++k) {
    const idx at_h = window_of(h, k / kernel_w, stride_h, pad_h, step_h, out_height);
    const idx at_w = window_of(w, k % kernel_w, stride_w, pad_w, step_w, out_width);
    if (at_h < 0 || at_w < 0) continue;
    const idx pixel = (b * out_height + at_h) * out_width + at_w;
    sum += columns[pixel * patch + c * kernel_h * kernel_w + k];
  }
  dx[first_image * height * width * in + item] = sum;
}
