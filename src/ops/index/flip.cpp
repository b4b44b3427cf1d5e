// flip, roll, tril, triu: elements moved without an index.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/strided.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

Tensor flip_dims(const Tensor& self, at::IntArrayRef dims) {
  static const KernelSet move("move"), runs("move_runs"), back("move_back");
  if (!movable(self)) return fallback_call<Tensor>("aten::flip", "", self, dims);
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
  const bool dense = p.stride[0][0] == 1, along = dense && p.stride[1][0] == 1;
  const KernelSet& kernels = along ? runs : dense && p.stride[1][0] == -1 ? back : move;
  const bool gpu = runtime::driver().info().vector_bytes > 0;
  const uint32_t run = !along ? 1 : gpu ? runtime::lanes(self.element_size()) : uint32_t(kMoveRun);
  loops.each(p, 4, [&](const auto& offsets) {
    Launch(kernels.get(bits_tag(self)))
        .pointer(at_element(out, offsets[0]))
        .pointer(at_const_element(self, start + offsets[1]))
        .bytes(p)
        .threads((p.size[0] + run - 1) / run, p.size[1], uint64_t(p.size[2]) * p.size[3])
        .work(std::min(run, p.size[0]))
        .run();
  });
  return out;
}

Tensor roll_dims(const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (!movable(self)) return fallback_call<Tensor>("aten::roll", "", self, shifts, dims);
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return roll_dims(flat, shifts, {0}).view(self.sizes());
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

template <typename Outputs>
void triangle(Outputs& outputs, const Tensor& self, int64_t diagonal, bool upper) {
  static const KernelSet kernel("triangle");
  outputs.meta(self, diagonal);
  const Tensor &out = outputs.result(), in = self.contiguous();
  if (out.numel() > 0) {
    TriangleParams p{};
    p.diagonal = diagonal;
    p.rows = grid_size("tril", in.size(-2));
    p.columns = grid_size("tril", in.size(-1));
    p.upper = upper;
    const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? uint32_t(kTriangleTile) : 1;
    Launch(kernel.get(bits_tag(self)))
        .pointer(out.data_ptr())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .threads((p.columns + tile - 1) / tile, p.rows,
                 grid_size("tril", in.numel() / (int64_t(p.rows) * int64_t(p.columns))))
        .work(std::min(tile, p.columns))
        .run();
  }
  outputs.finish();
}

Tensor& tril_out(const Tensor& self, int64_t diagonal, Tensor& out) {
  if (!movable(self)) return fallback_call<Tensor>("aten::tril", "out", self, diagonal, out), out;
  Structured<at::meta::structured_tril> outputs(out);
  return triangle(outputs, self, diagonal, false), out;
}
Tensor& triu_out(const Tensor& self, int64_t diagonal, Tensor& out) {
  if (!movable(self)) return fallback_call<Tensor>("aten::triu", "out", self, diagonal, out), out;
  Structured<at::meta::structured_triu> outputs(out);
  return triangle(outputs, self, diagonal, true), out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("flip", &flip_dims);
  m.impl("roll", &roll_dims);
  m.impl("tril.out", &tril_out);
  m.impl("triu.out", &triu_out);
}

}  // namespace mpsx::ops
