// nonzero and masked_select. Their results' sizes are data, so the CPU waits for the count.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "runtime/stream.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kMaxDims = 16;  // size[] of NonzeroParams
constexpr int64_t kLeastChunk = 1024, kMostChunks = 65536;

bool has_kernel(const Tensor& self) {
  const Tag tag = tag_of(self);
  return is_plain(self) && tag != Tag::none && tag != Tag::c64 && self.dim() <= kMaxDims;
}

// Counts, and lets `make` give the memory for `dims` rows of coordinates (flat positions where dims is 1).
template <typename Make>
void find(const Tensor& self, at::IntArrayRef sizes, const Make& make) {
  static const KernelSet count("nonzero_count"), scan("nonzero_scan"), fill("nonzero_fill");
  const Tensor in = self.contiguous();
  NonzeroParams p{};
  p.count = uint64_t(in.numel());
  p.dims = uint32_t(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) p.size[d] = grid_size("nonzero", sizes.size() == 1 ? 0 : sizes[d]);
  const int64_t chunk = std::max(kLeastChunk, (in.numel() + kMostChunks - 1) / kMostChunks);
  p.chunk = grid_size("nonzero", chunk);
  const auto chunks = uint32_t((in.numel() + chunk - 1) / chunk);
  if (chunks == 0) {
    make(0);
    return;
  }
  const Tensor starts = at::empty({int64_t(chunks) + 1}, in.options().dtype(at::kLong));
  const Tag tag = tag_of(in);
  Launch(count.get(tag))
      .pointer(starts.data_ptr())
      .pointer(in.const_data_ptr())
      .bytes(p)
      .threads(chunks)
      .work(p.chunk)
      .run();
  Launch(scan.get()).pointer(starts.data_ptr()).bytes(chunks).threads(1).run();
  runtime::prepare_cpu_access(starts.const_data_ptr());
  const int64_t total = static_cast<const int64_t*>(starts.const_data_ptr())[chunks];
  p.total = uint64_t(total);
  void* out = make(total);
  if (total == 0 || p.dims == 0) return;
  Launch(fill.get(tag))
      .pointer(out)
      .pointer(starts.const_data_ptr())
      .pointer(in.const_data_ptr())
      .bytes(p)
      .threads(chunks)
      .work(p.chunk)
      .run();
}

// Coordinates lie dimension by dimension, as on CPU: indexing reads one dimension at a time.
Tensor nonzero_new(const Tensor& self) {
  if (self.scalar_type() == at::kComplexFloat && is_plain(self)) return nonzero_new(self.ne(0));
  if (!has_kernel(self)) return fallback_call<Tensor>("aten::nonzero", "", self);
  Tensor out;
  find(self, self.sizes(), [&](int64_t total) {
    out = at::empty_strided({total, self.dim()}, {1, total}, self.options().dtype(at::kLong));
    return out.data_ptr();
  });
  return out;
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  if (self.scalar_type() == at::kComplexFloat && is_plain(self)) return nonzero_out(self.ne(0), out);
  if (!has_kernel(self)) return fallback_call<Tensor>("aten::nonzero", "out", self, out), out;
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type ", out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "expected self and out to be on the same device, but got out on ",
              out.device(), " and self on ", self.device());
  at::assert_no_overlap(out, self);
  const Tensor result = nonzero_new(self);
  if (at::native::resize_output(out, result.sizes())) out.as_strided_(result.sizes(), result.strides());
  return out.copy_(result), out;
}

void check_masked_select(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(mask.device() == self.device(), "masked_select: expected self and mask on the same device, got ",
              self.device(), " and ", mask.device());
}

Tensor masked_select_new(const Tensor& self, const Tensor& mask) {
  if (!movable(self) || !is_plain(mask)) return fallback_call<Tensor>("aten::masked_select", "", self, mask);
  check_masked_select(self, mask);
  const auto [all, where] = at::expand_outplace(self, mask);
  Tensor positions;
  find(*where, {where->numel()}, [&](int64_t total) {
    positions = at::empty({total}, self.options().dtype(at::kLong));
    return positions.data_ptr();
  });
  const Tensor in = all->contiguous(), out = at::empty({positions.numel()}, self.options());
  RowsParams p{};
  p.size = in.numel();
  p.pitch = 1;
  launch_index_rows("masked_select", out, in, positions, 1, 1, p, true);
  return out;
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  if (!movable(self) || !is_plain(mask))
    return fallback_call<Tensor>("aten::masked_select", "out", self, mask, out), out;
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const Tensor result = masked_select_new(self, mask);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result), out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &nonzero_new);
  m.impl("nonzero.out", &nonzero_out);
  m.impl("masked_select", &masked_select_new);
  m.impl("masked_select.out", &masked_select_out);
}

}  // namespace mpsx::ops
