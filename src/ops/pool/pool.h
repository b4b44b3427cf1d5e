// Helpers that pooling operators share: layouts and grids.
#pragma once

#include "ops/op.h"
#include "pool/params.h"

namespace mpsx::ops {

// Returns whether the max-pooling kernels support the dtype.
inline bool has_window_kernel(const Tensor& t) { return is_plain(t) && tag_of(t) < Tag::b8; }

// The cost of one element of a window, for Launch::work(). A CPU processes the elements of a window one at a time and
// without vectorization.
constexpr uint64_t kTapWork = 8;

// Returns the number of threads that share the channels of a pixel.
inline uint32_t threads_for_channels(int64_t channels) {
  return runtime::threads_for_row(4 * ceil_div(uint64_t(channels), kChannelTile));
}

// The input of 2-D pooling, in the dense layout that the kernels use.
struct PoolLayout {
  at::MemoryFormat format;
  bool last;  // channels_last
  int64_t images, channels;

  explicit PoolLayout(const Tensor& in)
      : format(in.suggest_memory_format()),
        last(format == at::MemoryFormat::ChannelsLast),
        images(in.dim() == 4 ? in.size(0) : 1),
        channels(in.size(-3)) {}

  // Returns a grid over the rows of an h x w plane or, for channels_last, over its pixels.
  driver::Size grid(int64_t h, int64_t w) const {
    const int64_t planes = last ? images : images * channels;
    TORCH_CHECK(planes <= int64_t(UINT32_MAX), "pool2d: too many planes: ", planes);
    return last ? driver::Size{uint32_t(w), uint32_t(h), uint32_t(planes)}
                : driver::Size{uint32_t(h), uint32_t(planes), 1};
  }
  // Returns how many elements of a row (channels of a pixel for channels_last) a threadgroup's threads share.
  uint64_t row(int64_t w) const { return uint64_t(last ? channels : w); }
  uint32_t threads(int64_t w) const {
    return last ? threads_for_channels(channels) : runtime::threads_for_row(4 * uint64_t(w));
  }
};

// Like allocate_or_resize(), but with a given memory format. ChannelsLast3d also applies to a volume without a batch
// dimension.
void allocate_or_resize_pooled(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                               at::MemoryFormat format);

// Return the first and the second number of a size argument. The second one may be absent.
inline int64_t first_of(at::IntArrayRef v, int64_t otherwise = 0) { return v.empty() ? otherwise : v[0]; }
inline int64_t second_of(at::IntArrayRef v, int64_t otherwise = 0) { return v.empty() ? otherwise : v.back(); }

// Returns the value of an argument for dimension d. The argument has either one value for all dimensions or one value
// per dimension.
inline int64_t window_argument(at::IntArrayRef v, size_t d, int64_t otherwise) {
  return v.empty() ? otherwise : (v.size() == 1 ? v[0] : v[d]);
}

inline int32_t pool_size(int64_t v) {
  TORCH_CHECK(v >= INT32_MIN && v <= INT32_MAX, "pool2d: ", v, " is out of the range of 32-bit integers");
  return int32_t(v);
}

// Sets the sizes of `in` and `out` (…, height, width). The caller sets the window.
inline Pool2dParams pool_params(const Tensor& in, at::IntArrayRef out) {
  TORCH_CHECK(in.size(-1) * in.size(-2) <= int64_t(INT32_MAX), "pool2d: a plane of ", in.size(-2), "x", in.size(-1),
              " has more than 2^31-1 elements");
  Pool2dParams p{};
  p.in_h = pool_size(in.size(-2));
  p.in_w = pool_size(in.size(-1));
  p.out_h = pool_size(out[out.size() - 2]);
  p.out_w = pool_size(out[out.size() - 1]);
  p.channels = pool_size(in.size(-3));
  p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = p.kernel_h = p.kernel_w = 1;
  return p;
}

}  // namespace mpsx::ops
