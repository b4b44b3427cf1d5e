// Reflection and replication padding in one to three dimensions, and their backwards.
#include <ATen/native/Padding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/indexing.h"
#include "ops/resample/resample.h"
#include "ops/structured.h"
#include "resample/pad_params.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

// Sizes of the result; `padding` begins with the last dimension.
c10::DimVector padded(const char* op, const Tensor& self, IntArrayRef padding, bool reflects) {
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < padding.size() / 2; ++d) {
    const int64_t before = padding[2 * d], after = padding[2 * d + 1];
    int64_t& size = sizes[sizes.size() - 1 - d];
    TORCH_CHECK(!reflects || (before < size && after < size), op,
                ": expected padding less than the input's size, but got padding (", before, ", ", after,
                ") of a dimension of ", size, " of input ", self.sizes());
    size += before + after;
    TORCH_CHECK(size >= 1, op, ": input ", self.sizes(), " is too small for padding ", padding);
  }
  return sizes;
}

// Structured forms forget the memory format, which the CPU's kernels keep.
template <int D, bool kReflects>
struct ForwardMeta : at::impl::MetaBase {
  void meta(const Tensor& self, IntArrayRef padding) {
    at::native::padding::check_valid_input<D>(self, padding);
    set_output_raw_strided(0, padded(kReflects ? "reflection_pad" : "replication_pad", self, padding, kReflects), {},
                           self.options().memory_format(self.suggest_memory_format()));
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

// The backward: what each element of the input went to. Those that the padding cuts off went nowhere.
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

// Elements of any type that has kernels are moved; `out` is dense in the memory format that it suggests.
bool pads(const Tensor& t) { return movable(t) && tag_of(t) != Tag::none; }

void pad(const Tensor& self, IntArrayRef padding, bool reflects, const Tensor& out) {
  static const KernelSet kernels("pad");
  if (out.numel() == 0) return;
  const auto format = out.suggest_memory_format();
  const Tensor in = self.contiguous(format);
  const auto dims = int64_t(padding.size() / 2);
  PadParams p{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, reflects};
  int64_t inside = 1;
  const auto length = [](int64_t n) {
    TORCH_CHECK(n <= INT32_MAX, "padding: expected rows of fewer than 2^31 elements, got ", n);
    return int32_t(n);
  };
  // Dimensions as they lie in memory, innermost first: channels_last puts dimension 1 there, which may be padded, too.
  c10::DimVector order;
  if (format != at::MemoryFormat::Contiguous) order.push_back(1);
  for (int64_t dim = self.dim(); dim-- > 0;)
    if (order.empty() || dim != order[0]) order.push_back(dim);
  size_t next = 0;
  if (order[0] < self.dim() - dims) p.inner = length(out.size(order[next++]));
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t dim = order[next++];
    p.in[d] = length(in.size(dim));
    p.out[d] = length(out.size(dim));
    p.before[d] = length(padding[size_t(2 * (self.dim() - 1 - dim))]);
    inside *= out.size(dim);
  }
  const int64_t width = length(int64_t(p.out[0]) * p.inner), boxes = out.numel() / (inside * p.inner);
  const bool wide = runtime::driver().info().vector_bytes == 0;
  const int64_t run = wide ? kPadRun : 1, rows = wide ? kPadRows : 1;
  Launch(kernels.get(bits_tag(out)))
      .pointer(out.mutable_data_ptr())
      .pointer(in.const_data_ptr())
      .bytes(p)
      .threads(uint64_t((width + run - 1) / run), uint64_t((p.out[1] + rows - 1) / rows),
               grid_size("padding", boxes * p.out[2]))
      .work(uint64_t(std::min(run, width) * std::min<int64_t>(rows, p.out[1])))
      .run();
}

template <typename Row>
struct Pad {
  static Tensor& forward_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
    if (!pads(self) || out.scalar_type() != self.scalar_type())
      return fallback_call<Tensor>(Row::kName, "out", self, padding, out), out;
    Structured<typename Row::Forward> outputs(out);
    outputs.meta(self, padding);
    pad(self, padding, Row::kReflects, outputs.result());
    outputs.finish();
    return out;
  }
  static Tensor forward(const Tensor& self, IntArrayRef padding) {
    Tensor out = at::empty({0}, self.options());
    return forward_out(self, padding, out);
  }
  static Tensor& backward_out(const Tensor& grad, const Tensor& self, IntArrayRef padding, Tensor& grad_input) {
    if (!resamples(grad) || !resamples(self) || grad_input.scalar_type() != self.scalar_type() ||
        grad.scalar_type() != self.scalar_type())
      return fallback_call<Tensor>(Row::kBackwardName, "grad_input", grad, self, padding, grad_input), grad_input;
    Structured<typename Row::Backward> outputs(grad_input);
    outputs.meta(grad, self, padding);
    const Tensor& result = outputs.result();
    resample(grad, plan(self, padding, Row::kReflects), result);
    outputs.finish();
    return grad_input;
  }
  static Tensor backward(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
    Tensor grad_input = at::empty({0}, self.options());
    return backward_out(grad, self, padding, grad_input);
  }
};

#define ROW(OP, REFLECTS, FORWARD, BACKWARD)                               \
  struct OP##_row {                                                        \
    static constexpr const char* kName = "aten::" #OP;                     \
    static constexpr const char* kBackwardName = "aten::" #OP "_backward"; \
    static constexpr bool kReflects = REFLECTS;                            \
    using Forward = FORWARD;                                               \
    using Backward = BACKWARD;                                             \
  };
ROW(reflection_pad1d, true, at::meta::structured_reflection_pad1d, at::meta::structured_reflection_pad1d_backward)
using Reflection2d = ForwardMeta<2, true>;
using Reflection3d = ForwardMeta<3, true>;
using Replication2d = ForwardMeta<2, false>;
using Replication3d = ForwardMeta<3, false>;
ROW(reflection_pad2d, true, Reflection2d, BackwardMeta)
ROW(reflection_pad3d, true, Reflection3d, BackwardMeta)
ROW(replication_pad1d, false, at::meta::structured_replication_pad1d, at::meta::structured_replication_pad1d_backward)
ROW(replication_pad2d, false, Replication2d, BackwardMeta)
ROW(replication_pad3d, false, Replication3d, BackwardMeta)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define OUT_FORMS(OP)                              \
  m.impl(#OP ".out", &Pad<OP##_row>::forward_out); \
  m.impl(#OP "_backward.grad_input", &Pad<OP##_row>::backward_out);
  OUT_FORMS(reflection_pad1d)
  OUT_FORMS(reflection_pad2d)
  OUT_FORMS(reflection_pad3d)
  OUT_FORMS(replication_pad1d)
  OUT_FORMS(replication_pad2d)
  OUT_FORMS(replication_pad3d)
  m.impl("reflection_pad2d", &Pad<reflection_pad2d_row>::forward);
  m.impl("reflection_pad3d", &Pad<reflection_pad3d_row>::forward);
  m.impl("replication_pad2d", &Pad<replication_pad2d_row>::forward);
  m.impl("replication_pad3d", &Pad<replication_pad3d_row>::forward);
  m.impl("reflection_pad2d_backward", &Pad<reflection_pad2d_row>::backward);
  m.impl("reflection_pad3d_backward", &Pad<reflection_pad3d_row>::backward);
  m.impl("replication_pad2d_backward", &Pad<replication_pad2d_row>::backward);
  m.impl("replication_pad3d_backward", &Pad<replication_pad3d_row>::backward);
}

}  // namespace mpsx::ops
