// flip, roll, tril, triu: elements moved without an index.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <torch/library.h>

#include "ops/strided.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

std::optional<Tensor> flip(const Tensor& self, at::IntArrayRef dims) {
  static const KernelSet move("move"), move_dense("move_dense");
  if (!movable(self)) return std::nullopt;
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  const Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
  if (out.numel() == 0) return out;
  // The input read backwards: from its last element, by negative strides.
  at::DimVector strides(self.strides().begin(), self.strides().end());
  int64_t start = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!flipped[size_t(d)]) continue;
    start += (self.size(d) - 1) * strides[size_t(d)];
    strides[size_t(d)] = -strides[size_t(d)];
  }
  IndexParams p{};
  const Strided<2> loops(self.sizes(), {out.strides(), strides});
  loops.write(p, 4);
  const bool dense = p.stride[0][0] == 1 && p.stride[1][0] == 1;
  loops.each(p, 4, [&](const auto& offsets) {
    Launch launch((dense ? move_dense : move).get(bits_tag(self)));
    launch.pointer(at_element(out, offsets[0])).pointer(at_const_element(self, start + offsets[1])).bytes(p);
    const uint64_t planes = uint64_t(p.size[2]) * p.size[3];
    if (dense)
      launch.over(p.size[0], size_t(self.element_size()), p.size[1], planes).run();
    else
      launch.threads(p.size[0], p.size[1], planes).run();
  });
  return out;
}

std::optional<Tensor> roll(const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (!movable(self)) return std::nullopt;
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return ops::roll(flat, shifts, {0})->view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  Tensor from = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = at::maybe_wrap_dim(dims[i], from.dim());
    const Tensor to = at::empty_like(from, at::MemoryFormat::Contiguous);
    if (from.numel() > 0) {
      const int64_t size = from.size(dim), shift = ((shifts[i].expect_int() % size) + size) % size;
      to.narrow(dim, shift, size - shift).copy_(from.narrow(dim, 0, size - shift));
      if (shift > 0) to.narrow(dim, 0, shift).copy_(from.narrow(dim, size - shift, shift));
    }
    from = to;
  }
  return from;
}

template <typename Meta, bool UPPER>
bool triangle(const Tensor& self, int64_t diagonal, Tensor& result) {
  static const KernelSet kernel("triangle");
  if (!movable(self)) return false;
  Structured<Meta> outputs(result);
  outputs.meta(self, diagonal);
  const Tensor &out = outputs.result(), in = self.contiguous();
  if (out.numel() > 0) {
    TriangleParams p{};
    p.diagonal = diagonal;
    p.rows = grid_size("tril", in.size(-2));
    p.columns = grid_size("tril", in.size(-1));
    p.upper = UPPER;
    const uint32_t matrices = grid_size("tril", in.numel() / (int64_t(p.rows) * int64_t(p.columns)));
    Launch(kernel.get(bits_tag(self)))
        .pointer(out.data_ptr())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .over(p.columns, size_t(self.element_size()), p.rows, matrices)
        .run();
  }
  return outputs.finish(result);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"flip", &flip>(m);
  op<"roll", &roll>(m);
  op<"tril", &triangle<at::meta::structured_tril, false>>(m);
  op<"triu", &triangle<at::meta::structured_triu, true>>(m);
}

}  // namespace mpsx::ops
