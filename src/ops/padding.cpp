// Reflection and replication padding in one to three dimensions, and their backwards.
#include <ATen/native/Padding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/resample.h"
#include "ops/structured.h"

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

// Elements that the padding cuts off are taken by none.
std::vector<Resampling> plan(const Tensor& self, IntArrayRef padding, bool reflects, bool transposed) {
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
    steps.emplace_back(dim, std::move(taps), transposed);
  }
  return steps;
}

bool gathers(const Tensor& t) { return is_plain(t) && tag_of(t) != Tag::none; }

// Elements of types that are not added up are gathered.
void gather(Tensor from, const std::vector<Resampling>& steps, const Tensor& out) {
  for (const auto& step : steps) {
    const auto& places = step.taps.places();
    Tensor index = at::empty({int64_t(places.size())}, at::TensorOptions().dtype(at::kLong));
    std::copy(places.begin(), places.end(), index.data_ptr<int64_t>());
    from = from.index_select(step.dim, index.to(from.device()));
  }
  out.copy_(from);
}

template <typename Row>
struct Pad {
  static Tensor& forward_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
    if (!gathers(self) || out.scalar_type() != self.scalar_type())
      return fallback_call<Tensor>(Row::kName, "out", self, padding, out), out;
    Structured<typename Row::Forward> outputs(out);
    outputs.meta(self, padding);
    const Tensor& result = outputs.result();
    const auto steps = plan(self, padding, Row::kReflects, false);
    resamples(self) ? resample(self, steps, result) : gather(self, steps, result);
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
    resample(grad, plan(self, padding, Row::kReflects, true), result);
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
