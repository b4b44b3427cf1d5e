// How pooling windows lie over a line of the input, for one dimension.
#pragma once

#include "lib/compute.h"
#include "pool/params.h"

// Neighbouring elements of a row that one thread handles: a loop to vectorise on a CPU, one element on a GPU.
constexpr constant int kTile = MPSX_VECTOR_BYTES ? 1 : 64;

inline int ceil_div(int a, int b) { return a >= 0 ? (a + b - 1) / b : -((-a) / b); }

// The first tap of a window starting at `start` that lies inside.
inline int first_inside(int start, int dilation) {
  return start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
}

// Windows of the same size at equal distances.
struct RegularWindow {
  int in, out, kernel_size, stride, pad;
  RegularWindow(int i, int o, int k, int s, int p) : in(i), out(o), kernel_size(k), stride(s), pad(p) {}
  int begin(int o) const { return max(o * stride - pad, 0); }
  int end(int o) const { return min(o * stride - pad + kernel_size, in); }
  // What count_include_pad counts: elements inside the padded input.
  int padded(int o) const { return min(o * stride - pad + kernel_size, in + pad) - (o * stride - pad); }
  // The outputs [first, last) whose windows hold input i.
  int first(int i) const { return max(ceil_div(i + pad - kernel_size + 1, stride), 0); }
  int last(int i) const { return min((i + pad) / stride + 1, out); }
};

// Windows that cover the input evenly.
struct AdaptiveWindow {
  int in, out;
  AdaptiveWindow(int i, int o) : in(i), out(o) {}
  int begin(int o) const { return int(long(o) * in / out); }
  int end(int o) const { return int((long(o + 1) * in + out - 1) / out); }
  int first(int i) const { return int(long(i) * out / in); }
  int last(int i) const { return int((long(i + 1) * out + in - 1) / in); }
};
