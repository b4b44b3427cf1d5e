// channel_shuffle, with a single strided copy.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/elementwise/copy.h"
#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  const int64_t channels = self.size(1);
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
              " channels and ", groups, " groups.");
  const auto format = self.suggest_memory_format();
  if (is_bitwise_copyable(self)) {  // channel k of group g becomes channel g of group k
    const Tensor out = at::empty(self.sizes(), self.options().memory_format(format));
    c10::DimVector sizes(self.sizes()), from(self.strides()), to(out.strides());
    sizes[1] = groups;
    sizes.insert(sizes.begin() + 1, channels / groups);
    from.insert(from.begin() + 2, from[1] * (channels / groups));
    to.insert(to.begin() + 1, to[1] * groups);
    if (out.numel() > 0)
      copy_strided(out.mutable_data_ptr(), self.const_data_ptr(), out.element_size(),
                   Strided<2>::ordered(sizes, {to, from}));
    return out;
  }
  return self.unflatten(1, {groups, channels / groups}).transpose(1, 2).flatten(1, 2).contiguous(format);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "channel_shuffle", &channel_shuffle);
  impl(m, "native_channel_shuffle", &channel_shuffle);
}

}  // namespace mpsx::ops
