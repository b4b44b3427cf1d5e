// flip, tril and triu.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <torch/library.h>

#include "ops/elementwise/copy.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

std::optional<Tensor> flip(const Tensor& self, at::IntArrayRef dims) {
  static const KernelSet rows("flip_rows");
  if (!is_bitwise_copyable(self)) return std::nullopt;
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  const Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
  if (out.numel() == 0) return out;
  // Read the input backward by using negative strides.
  at::DimVector strides(self.strides().begin(), self.strides().end());
  int64_t start = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!flipped[size_t(d)]) continue;
    start += (self.size(d) - 1) * strides[size_t(d)];
    strides[size_t(d)] = -strides[size_t(d)];
  }
  const auto loops = Strided<2>::ordered(self.sizes(), {out.strides(), strides});
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  const void* const from = at_const_element(self, start);
  const int64_t bytes = self.element_size();
  if (loops.inner(0) != 1 || loops.inner(1) != -1) return copy_strided(to, from, bytes, loops), out;
  FlipParams p{};
  loops.each(p, 4, [&](const auto& offsets) {
    char* const row = to + offsets[0] * bytes;
    const char* const last = static_cast<const char*>(from) + offsets[1] * bytes;
    uint64_t alignment = runtime::address_of(row) | runtime::address_of(last + bytes);
    for (size_t d = 1; d < 4; ++d)
      for (size_t k = 0; k < 2; ++k) alignment |= uint64_t(p.stride[k][d] * bytes);
    p.vectorized = runtime::is_vector_aligned(alignment);
    Launch(rows.get(bits_tag(self)))
        .pointer(row)
        .pointer(last)
        .bytes(p)
        .over(p.size[0], size_t(bytes), p.size[1], uint64_t(p.size[2]) * p.size[3])
        .run();
  });
  return out;
}

template <typename Meta, bool UPPER>
bool triangle(const Tensor& self, int64_t diagonal, Tensor& result) {
  static const KernelSet kernel("triangle");
  if (!is_bitwise_copyable(self)) return false;
  if (result.is_same(self) && at::has_internal_overlap(self) == at::MemOverlap::Yes)  // the CPU still allows this
    return fall_back<Tensor>(UPPER ? "triu_" : "tril_", self, diagonal), true;
  Structured<Meta> outputs(result);
  outputs.meta(self, diagonal);
  const Tensor &out = outputs.result(), in = self.contiguous();
  if (out.numel() > 0) {
    TriangleParams p{};
    p.diagonal = diagonal;
    p.rows = grid_size("tril", in.size(-2));
    p.columns = grid_size("tril", in.size(-1));
    p.upper = UPPER;
    const auto element = size_t(self.element_size());
    p.vectorized = aligned(out, in) && runtime::is_vector_aligned(p.columns * element);
    const uint32_t matrices = grid_size("tril", in.numel() / (int64_t(p.rows) * int64_t(p.columns)));
    Launch(kernel.get(bits_tag(self)))
        .outputs(out)
        .inputs(in)
        .bytes(p)
        .over(p.columns, element, p.rows, matrices)
        .run();
  }
  return outputs.return_or_copy(result);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"flip", &flip>(m);
  op<"tril", &triangle<at::meta::structured_tril, false>>(m);
  op<"triu", &triangle<at::meta::structured_triu, true>>(m);
}

}  // namespace mpsx::ops
