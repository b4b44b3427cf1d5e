// max_pool1d for calls without autograd. As on the CPU, it does not compute indices. With autograd, max_pool1d is
// PyTorch's composite, which calls max_pool1d_with_indices.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/MaxPooling.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <torch/library.h>

#include "ops/differentiated.h"
#include "ops/operator.h"
#include "ops/pool/pool.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

Tensor max_pool1d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                  bool ceil_mode) {
  static const KernelSet kernels("max_pool1d");
  if (!is_plain(self) || !kernels.has(tag_of(self)) || self.numel() == 0)
    return std::get<0>(at::max_pool1d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
  at::native::check_max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  Pool1dParams p{};
  p.in = pool_size(self.size(-1));
  p.kernel = pool_size(kernel[0]);
  p.stride = pool_size(stride.empty() ? kernel[0] : stride[0]);
  p.pad = pool_size(padding[0]);
  p.dilation = pool_size(dilation[0]);
  p.out = pool_size(at::native::pooling_output_shape<int64_t>(p.in, p.kernel, p.pad, p.stride, p.dilation, ceil_mode));
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes.back() = p.out;
  const Tensor out = at::empty(sizes, self.options()), in = self.contiguous();
  Launch(kernels.get(tag_of(self)))
      .outputs(out)
      .inputs(in)
      .bytes(p)
      .threads(uint64_t(p.out), uint64_t(in.numel() / p.in))
      .work(uint64_t(p.kernel))
      .run();
  return out;
}

// Autograd differentiates the composite implementation of max_pool1d. A kernel would bypass it.
Tensor max_pool1d_autograd(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                           IntArrayRef dilation, bool ceil_mode) {
  if (is_differentiated(self))
    return std::get<0>(at::max_pool1d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "max_pool1d", &max_pool1d); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("max_pool1d", &max_pool1d_autograd); }

}  // namespace mpsx::ops
