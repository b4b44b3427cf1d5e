// pixel_shuffle and pixel_unshuffle, with strided copies between views. There is one copy for each column of the r x r
// square. A single copy would have more dimensions than kernels support, and would need a launch for each image and
// channel.
#include <ATen/native/PixelShuffle.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/elementwise/copy.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

// Return (…, c, r, h, w) views of `small` (…, c * r * r, h, w) and `large` (…, c, h * r, w * r), for one column of the
// square.
Tensor small_view(const Tensor& small, int64_t r, int64_t column) {
  at::DimVector sizes(small.sizes().begin(), small.sizes().end() - 3),
      strides(small.strides().begin(), small.strides().end() - 3);
  const int64_t channel = small.stride(-3);
  for (const int64_t n : {small.size(-3) / (r * r), r, small.size(-2), small.size(-1)}) sizes.push_back(n);
  for (const int64_t n : {channel * r * r, channel * r, small.stride(-2), small.stride(-1)}) strides.push_back(n);
  return at::native::as_strided_tensorimpl(small, sizes, strides, small.storage_offset() + column * channel);
}
Tensor large_view(const Tensor& large, int64_t r, int64_t column) {
  at::DimVector sizes(large.sizes().begin(), large.sizes().end() - 3),
      strides(large.strides().begin(), large.strides().end() - 3);
  const int64_t line = large.stride(-2), step = large.stride(-1);
  for (const int64_t n : {large.size(-3), r, large.size(-2) / r, large.size(-1) / r}) sizes.push_back(n);
  for (const int64_t n : {large.stride(-3), line, line * r, step * r}) strides.push_back(n);
  return at::native::as_strided_tensorimpl(large, sizes, strides, large.storage_offset() + column * step);
}

Tensor with_last_sizes(const Tensor& self, int64_t channels, int64_t height, int64_t width) {
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[sizes.size() - 3] = channels;
  sizes[sizes.size() - 2] = height;
  sizes[sizes.size() - 1] = width;
  return at::empty(sizes, self.options(), self.suggest_memory_format());
}

void copy_into(const Tensor& to, const Tensor& from) {
  if (to.numel() > 0 && !copy_on_device(to, from)) to.copy_(from);
}

Tensor pixel_shuffle(const Tensor& self, int64_t r) {
  at::native::check_pixel_shuffle_shapes(self, r);
  const Tensor out = with_last_sizes(self, self.size(-3) / (r * r), self.size(-2) * r, self.size(-1) * r);
  for (int64_t i = 0; i < r; ++i) copy_into(large_view(out, r, i), small_view(self, r, i));
  return out;
}

Tensor pixel_unshuffle(const Tensor& self, int64_t r) {
  at::native::check_pixel_unshuffle_shapes(self, r);
  const Tensor out = with_last_sizes(self, self.size(-3) * r * r, self.size(-2) / r, self.size(-1) / r);
  for (int64_t i = 0; i < r; ++i) copy_into(small_view(out, r, i), large_view(self, r, i));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "pixel_shuffle", &pixel_shuffle);
  impl(m, "pixel_unshuffle", &pixel_unshuffle);
}

}  // namespace mpsx::ops
