// Reflection and replication padding in one to three dimensions, with their backward passes.
#include <ATen/native/Padding.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>

#include <algorithm>

#include "backend/torch_version.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/resample/resample.h"
#include "ops/structured.h"
#include "resample/pad_params.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

// Returns the sizes of the output. `padding` starts with the last dimension.
c10::DimVector padded(const char* op, const Tensor& self, IntArrayRef padding, bool reflects) {
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < padding.size() / 2; ++d) {
    const int64_t before = padding[2 * d], after = padding[2 * d + 1];
    int64_t& size = sizes[sizes.size() - 1 - d];
    TORCH_CHECK(!reflects || (before < size && after < size), op,
                ": expected padding less than the input's size, but got padding (", before, ", ", after,
                ") of a dimension of ", size, " of input ", self.sizes());
    size += before + after;
    TORCH_CHECK(size >= 0, op, ": input ", self.sizes(), " is too small for padding ", padding);
  }
  const auto spatial = IntArrayRef(sizes).slice(sizes.size() - padding.size() / 2);
  TORCH_CHECK(std::any_of(spatial.begin(), spatial.end(), [](int64_t n) { return n > 0; }), op, ": input ",
              self.sizes(), " is too small for padding ", padding);
  return sizes;
}

// The structured operators do not preserve the memory format, but PyTorch's CPU kernels do. These meta functions
// therefore preserve it.
template <int D, bool kReflects>
struct ForwardMeta : at::impl::MetaBase {
  void meta(const Tensor& self, IntArrayRef padding) {
    at::native::padding::check_valid_input<D>(self, padding);
    const auto sizes = padded(kReflects ? "reflection_pad" : "replication_pad", self, padding, kReflects);
    if (!kReflects && backend::kReplicationRejectsEmpty)
      TORCH_CHECK(std::all_of(sizes.end() - D, sizes.end(), [](int64_t n) { return n > 0; }), "replication_pad: input ",
                  self.sizes(), " is too small for padding ", padding);
    set_output_raw_strided(0, sizes, {}, self.options().memory_format(self.suggest_memory_format()));
  }
};
struct BackwardMeta : at::impl::MetaBase {
  void meta(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
    const auto sizes = padded("padding's backward", self, padding, false);
    TORCH_CHECK(grad.sizes() == IntArrayRef(sizes), "padding's backward: expected a gradient of ", IntArrayRef(sizes),
                ", got ", grad.sizes());
    set_output_raw_strided(0, self.sizes(), {}, self.options().memory_format(self.suggest_memory_format()));
  }
};

// Plans the backward pass. For each input element, it sums the gradients of all outputs that are copies of it. A
// cropped element has no copies.
std::vector<Resampling> plan(const Tensor& self, IntArrayRef padding, bool reflects) {
  std::vector<Resampling> steps;
  for (size_t d = 0; d < padding.size() / 2; ++d) {
    const int64_t dim = self.dim() - 1 - int64_t(d), in = self.size(dim),
                  out = in + padding[2 * d] + padding[2 * d + 1];
    Taps taps(in);
    for (int64_t o = 0; o < out; ++o) {
      int64_t i = o - padding[2 * d];
      if (reflects) i = i < 0 ? -i : (i >= in ? 2 * (in - 1) - i : i);
      taps.add(std::clamp<int64_t>(i, 0, in - 1), 1);
      taps.end_element();
    }
    steps.emplace_back(dim, std::move(taps), true);
  }
  return steps;
}

// Returns whether there are padding kernels for the dtype. They write a dense `out` in its suggested memory format.
bool has_pad_kernel(const Tensor& t) { return is_bitwise_copyable(t) && tag_of(t) != Tag::none; }

void pad(const Tensor& self, IntArrayRef padding, bool reflects, const Tensor& out) {
  static const KernelSet kernels("pad");
  if (out.numel() == 0) return;
  const auto format = out.suggest_memory_format();
  const Tensor in = self.contiguous(format);
  const auto dims = int64_t(padding.size() / 2);
  PadParams p{{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, reflects, false};
  const auto length = [](int64_t n) {
    TORCH_CHECK(n <= INT32_MAX, "padding: expected rows of fewer than 2^31 elements, got ", n);
    return int32_t(n);
  };
  // List the dimensions in memory order, innermost first. With channels_last, dimension 1 comes first and may be padded
  // too.
  c10::DimVector order;
  if (format != at::MemoryFormat::Contiguous) order.push_back(1);
  for (int64_t dim = self.dim(); dim-- > 0;)
    if (order.empty() || dim != order[0]) order.push_back(dim);
  const auto is_padded = [&](int64_t dim) { return dim >= self.dim() - dims; };
  int64_t inside = 1;
  for (size_t i = 0, d = 0; d < 4 && i < order.size(); ++i) {
    const int64_t dim = order[i];
    if (i > 0 && !is_padded(dim)) break;
    p.in[d] = length(in.size(dim));
    p.out[d] = length(out.size(dim));
    p.volumes = d > 1;
    p.before[d++] = is_padded(dim) ? length(padding[size_t(2 * (self.dim() - 1 - dim))]) : 0;
    inside *= out.size(dim);
  }
  Launch(kernels.get(bits_tag(out)))
      .outputs(out)
      .inputs(in)
      .bytes(p)
      .threads(ceil_div(uint64_t(p.out[0]), kPadTile), uint64_t(p.out[1]),
               grid_size("padding", out.numel() / inside * p.out[2] * p.out[3]))
      .work(kPadTile)
      .run();
}

template <bool kReflects, typename Meta>
bool forward(const Tensor& self, IntArrayRef padding, Tensor& out) {
  if (!has_pad_kernel(self)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, padding);
  pad(self, padding, kReflects, outputs.result());
  return outputs.return_or_copy(out);
}
template <bool kReflects, typename Meta>
bool backward(const Tensor& grad, const Tensor& self, IntArrayRef padding, Tensor& grad_input) {
  if (!has_resample_kernel(grad) || !has_resample_kernel(self) || grad.scalar_type() != self.scalar_type())
    return false;
  Structured<Meta> outputs(grad_input);
  outputs.meta(grad, self, padding);
  resample(grad, plan(self, padding, kReflects), outputs.result());
  return outputs.return_or_copy(grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"reflection_pad1d", &forward<true, at::meta::structured_reflection_pad1d>>(m);
  op<"reflection_pad1d_backward", &backward<true, at::meta::structured_reflection_pad1d_backward>>(m);
  op<"reflection_pad2d", &forward<true, ForwardMeta<2, true>>>(m);
  op<"reflection_pad2d_backward", &backward<true, BackwardMeta>>(m);
  op<"reflection_pad3d", &forward<true, ForwardMeta<3, true>>>(m);
  op<"reflection_pad3d_backward", &backward<true, BackwardMeta>>(m);
  op<"replication_pad1d", &forward<false, at::meta::structured_replication_pad1d>>(m);
  op<"replication_pad1d_backward", &backward<false, at::meta::structured_replication_pad1d_backward>>(m);
  op<"replication_pad2d", &forward<false, ForwardMeta<2, false>>>(m);
  op<"replication_pad2d_backward", &backward<false, BackwardMeta>>(m);
  op<"replication_pad3d", &forward<false, ForwardMeta<3, false>>>(m);
  op<"replication_pad3d_backward", &backward<false, BackwardMeta>>(m);
}

}  // namespace mpsx::ops
