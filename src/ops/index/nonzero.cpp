// nonzero, masked_select, and operators that use nonzero. The size of the output depends on the data, so the CPU waits
// for a count.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "runtime/stream.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kMaxDims = 16;  // size of the array `size` in NonzeroParams
constexpr int64_t kMinChunk = 1024, kMaxChunks = 65536;

bool has_kernel(const Tensor& self) {
  const Tag tag = tag_of(self);
  return is_plain(self) && tag != Tag::none && tag != Tag::c64 && self.dim() <= kMaxDims;
}

// Counts the nonzero elements and calls `make` to allocate an output for this many elements. Then writes `dims`
// coordinates for each element, or flat indices if dims is 1.
template <typename Make>
void find(const Tensor& self, at::IntArrayRef sizes, const Make& make) {
  static const KernelSet count("nonzero_count"), scan("nonzero_scan"), fill("nonzero_fill");
  const Tensor in = self.contiguous();
  NonzeroParams p{};
  p.count = uint64_t(in.numel());
  p.dims = uint32_t(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) p.size[d] = grid_size("nonzero", sizes.size() == 1 ? 0 : sizes[d]);
  const int64_t chunk = std::max(kMinChunk, (in.numel() + kMaxChunks - 1) / kMaxChunks);
  p.chunk = grid_size("nonzero", chunk);
  const auto chunks = uint32_t((in.numel() + chunk - 1) / chunk);
  if (chunks == 0) {
    make(0);
    return;
  }
  const Tensor starts = at::empty({int64_t(chunks) + 1}, in.options().dtype(at::kLong));
  const Tag tag = tag_of(in);
  Launch(count.get(tag)).outputs(starts).inputs(in).bytes(p).threads(chunks).work(p.chunk).run();
  Launch(scan.get()).outputs(starts).bytes(chunks).groups({1}).run();
  int64_t total = 0;
  runtime::read_number(&total, starts.const_data_ptr<int64_t>() + chunks, sizeof total);
  p.total = uint64_t(total);
  void* out = make(total);
  if (total == 0 || p.dims == 0) return;
  Launch(fill.get(tag)).pointer(out).inputs(starts, in).bytes(p).threads(chunks).work(p.chunk).run();
}

// As on the CPU, stores the output one dimension after another, because indexing reads one dimension at a time.
bool nonzero(const Tensor& self, Tensor& out) {
  if (self.scalar_type() == at::kComplexFloat && is_plain(self)) return nonzero(self.ne(0), out);
  if (!has_kernel(self)) return false;
  TORCH_CHECK(accepts(out, at::kLong), "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  if (out.defined()) at::assert_no_overlap(out, self);
  Tensor found;
  find(self, self.sizes(), [&](int64_t total) {
    found = at::empty_strided({total, self.dim()}, {1, total}, self.options().dtype(at::kLong));
    return found.data_ptr();
  });
  return return_or_copy("nonzero", found, out);
}

void check_masked_select(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  check_same_device("masked_select", self, mask);
}

bool masked_select(const Tensor& self, const Tensor& mask, Tensor& out) {
  if (!is_bitwise_copyable(self) || !is_plain(mask)) return false;
  if (out.defined()) {
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "masked_select(): self and result must have the same scalar type");
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, mask);
  }
  check_masked_select(self, mask);
  const auto [all, where] = at::expand_outplace(self, mask);
  Tensor positions;
  find(*where, {where->numel()}, [&](int64_t total) {
    positions = at::empty({total}, self.options().dtype(at::kLong));
    return positions.data_ptr();
  });
  const Tensor in = all->contiguous(), result = at::empty({positions.numel()}, self.options());
  RowsParams p{};
  p.size = in.numel();
  p.pitch = 1;
  launch_index_rows("masked_select", result, in, positions, 1, 1, p, true);
  return return_or_copy("masked_select", result, out);
}

bool nonzero_static(const Tensor& numbers, int64_t size, int64_t fill, Tensor& out) {
  const Tensor self = truth_of(numbers);
  if (!has_number_kernel(self)) return false;
  TORCH_CHECK(accepts(out, at::kLong),
              "nonzero_static: Expected out tensor to have scalar type Long but got scalar type", out.scalar_type());
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = self.nonzero();
  if (found.size(0) >= size)
    return return_or_copy("nonzero_static", found.narrow(0, 0, size).clone(at::MemoryFormat::Contiguous), out);
  const Tensor rest = at::full({size - found.size(0), self.dim()}, fill, found.options());
  return return_or_copy("nonzero_static", at::cat({found, rest}), out);
}

// Returns the coordinates of the elements in a triangle of a matrix.
template <bool LOWER>
Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pinned) {
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "only support layout=torch.strided, got", *layout);
  const auto options = at::TensorOptions().device(device).pinned_memory(pinned);
  const Tensor all = at::ones({rows, columns}, options.dtype(at::kBool));
  const Tensor found = (LOWER ? all.tril(offset) : all.triu(offset)).nonzero();
  return found.t().to(type.value_or(at::kLong)).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"nonzero", &ops::nonzero>(m);
  op<"masked_select", &ops::masked_select>(m);
  op<"nonzero_static", &nonzero_static>(m);
  impl(m, "tril_indices", &triangle_indices<true>);
  impl(m, "triu_indices", &triangle_indices<false>);
}

}  // namespace mpsx::ops
