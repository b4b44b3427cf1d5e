// The windows of a pooling operation along one dimension.
#pragma once

#include "lib/compute.h"
#include "pool/params.h"

// Distributes tiles of N channels over the threads of a threadgroup. Calls FUNCTION<N>(c, …) for each complete tile,
// where c is its first channel, and FUNCTION<1>(c, …) for each channel c of an incomplete tile.
#define MPSX_EACH_CHANNEL_TILE(FUNCTION, ...)                                                                \
  for (int c = int(tid) * kChannelTile; c < p.channels; c += int(threads.x) * kChannelTile) {                \
    if (c + kChannelTile <= p.channels) {                                                                    \
      FUNCTION<kChannelTile>(c, __VA_ARGS__);                                                                \
    } else {                                                                                                 \
      for (int last = c; last < p.channels; ++last) FUNCTION<1>(last, __VA_ARGS__);                          \
    }                                                                                                        \
  }

inline int ceil_div(int a, int b) { return a >= 0 ? (a + b - 1) / b : -((-a) / b); }

// Returns the position of the first tap inside the input, for a window that starts at `start`.
inline int first_inside(int start, int dilation) {
  return start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
}

// Windows of constant size and stride.
struct RegularWindow {
  int in, out, kernel_size, stride, pad;
  RegularWindow(int i, int o, int k, int s, int p) : in(i), out(o), kernel_size(k), stride(s), pad(p) {}
  int begin(int o) const { return max(o * stride - pad, 0); }
  int end(int o) const { return min(o * stride - pad + kernel_size, in); }
  // Returns the number of elements inside the padded input, for count_include_pad.
  int padded(int o) const { return min(o * stride - pad + kernel_size, in + pad) - (o * stride - pad); }
  // Return the range [first, last) of windows that contain input element i.
  int first(int i) const { return max(ceil_div(i + pad - kernel_size + 1, stride), 0); }
  int last(int i) const { return min((i + pad) / stride + 1, out); }
};

// Adaptive windows, which cover the input evenly.
struct AdaptiveWindow {
  int in, out;
  AdaptiveWindow(int i, int o) : in(i), out(o) {}
  // Returns (k * n + up) / parts for 0 <= k <= parts and up < parts. For n = whole * parts + rest, this equals k *
  // whole + (k * rest + up) / parts. That form needs a slow 64-bit division only if `parts` is large.
  static int share(int k, int n, int parts, uint up) {
    const uint whole = uint(n) / uint(parts), rest = uint(n) - whole * uint(parts);
    const uint part = parts < 65536 ? (uint(k) * rest + up) / uint(parts) : uint((ulong(k) * rest + up) / uint(parts));
    return int(uint(k) * whole + part);
  }
  int begin(int o) const { return share(o, in, out, 0u); }
  int end(int o) const { return share(o + 1, in, out, uint(out) - 1u); }
};
