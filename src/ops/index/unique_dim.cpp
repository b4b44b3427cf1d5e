// unique along a dimension, of which unique_consecutive is a part, and mode: what is equal lies side by side once
// sorted.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/composed/composed.h"
#include "ops/indexing.h"
#include "ops/index/unique.h"
#include "sort/rows_params.h"

namespace mpsx::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

// The order in which dense rows are sorted, equal ones as they come.
Tensor order_of_rows(const Tensor& rows) {
  static const KernelSet kernels("merge_rows");
  TORCH_CHECK(rows.size(0) <= INT32_MAX && rows.size(1) <= int64_t(UINT32_MAX),
              "unique: expected sizes below 2^31, got ", rows.sizes());
  Tensor order = at::arange(rows.size(0), rows.options().dtype(at::kLong)), merged = at::empty_like(order);
  RowOrderParams p{uint32_t(rows.size(0)), uint32_t(rows.size(1)), 1};
  for (; p.run < p.count; p.run *= 2) {
    Launch(kernels.get(tag_of(rows)))
        .pointer(merged.data_ptr())
        .pointer(order.const_data_ptr())
        .pointer(rows.const_data_ptr())
        .bytes(p)
        .threads(p.count)
        .work(64 - uint32_t(__builtin_clzll(p.run)))
        .run();
    std::swap(order, merged);
  }
  return order;
}

Triple unique_dim(const Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool return_counts) {
  if (!has_all_kernels(self))
    return fallback_call<Triple>("aten::unique_dim", "", self, dim, sorted, return_inverse, return_counts);
  const UniqueRows u(self, dim);
  if (u.rows.size(0) == 0) return u.none();
  const bool is_bool = self.scalar_type() == at::kBool;
  const Tensor order = order_of_rows(is_bool ? u.rows.view(at::kByte) : u.rows);
  const Tensor lines = u.rows.index_select(0, order);
  const Runs runs(lines, return_counts);
  Tensor inverse = at::empty({0}, order.options());
  if (return_inverse) inverse = at::empty_like(order).scatter_(0, order, runs.of);
  return {u.restored(lines.index_select(0, runs.firsts)), inverse, runs.lengths};
}

// The most frequent number along a dimension, the smallest of several; where its last one is.
std::tuple<Tensor&, Tensor&> mode_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  if (!has_all_kernels(self) || !is_plain(values) || !is_plain(indices) || values.scalar_type() != self.scalar_type() ||
      indices.scalar_type() != at::kLong) {
    fallback_call<Pair>("aten::mode", "values", self, dim, keepdim, values, indices);
    return {values, indices};
  }
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(d) > 0, "mode(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  c10::DimVector sizes(self.sizes());
  if (!sizes.empty()) sizes[size_t(d)] = 1;
  Tensor best, where;
  const auto finish = [&]() -> std::tuple<Tensor&, Tensor&> {
    if (!keepdim && self.dim() > 0) {
      best = best.squeeze(d);
      where = where.squeeze(d);
    }
    at::native::resize_output(values, best.sizes());
    at::native::resize_output(indices, where.sizes());
    values.copy_(best);
    indices.copy_(where);
    return {values, indices};
  };
  if (self.dim() == 0 || self.size(d) == 1 || self.numel() == 0) {
    best = self.dim() == 0 || self.numel() > 0 ? self : at::empty(sizes, self.options());
    where = at::full(sizes, 0, indices.options());
  } else {
    const int64_t n = self.size(d);
    const Tensor rows = self.movedim(d, -1).contiguous();
    constexpr int64_t kShort = 256;  // elements of which each may be compared with all others
    best = at::empty(sizes, self.options());
    where = at::empty(sizes, indices.options());
    // `in` may be sorted; then `from` is where its elements were.
    const auto find = [&](const KernelSet& kernels, const Tensor& in, const Tensor* from, uint64_t work) {
      Launch launch(kernels.get(tag_of(self)));
      launch.pointer(best.mutable_data_ptr()).pointer(where.mutable_data_ptr()).pointer(in.const_data_ptr());
      if (from) launch.pointer(from->const_data_ptr());
      launch.bytes(grid_size("mode", n)).threads(grid_size("mode", best.numel())).work(work).run();
      return finish();
    };
    if (n <= kShort) {
      static const KernelSet kernels("mode_short");
      return find(kernels, rows, nullptr, uint64_t(n) * uint64_t(n) / 8);
    }
    const auto [ordered, order] = rows.sort(/*stable=*/true, -1, false);
    constexpr int64_t kSerial = 1024;  // elements that a GPU's thread may walk
    if (runtime::driver().info().vector_bytes == 0 || n <= kSerial) {
      static const KernelSet kernels("mode");
      return find(kernels, ordered, &order, uint64_t(n));
    }
    const Tensor places = at::arange(n, order.options());
    const Tensor differs = ordered.slice(-1, 1).ne(ordered.slice(-1, 0, -1));
    // Where the run of each element begins: the last place before it at which a run does.
    const Tensor begins =
        at::cat({at::full(differs.sizes().slice(0, size_t(differs.dim()) - 1), 0, order.options()).unsqueeze(-1),
                 at::where(differs, places.slice(0, 1), at::full({}, 0, order.options()))},
                -1);
    const Tensor lengths = places.sub(std::get<0>(begins.cummax(-1)));
    // Of equally frequent ones PyTorch takes the first, and NaN comes before all others.
    const Tensor last = lengths.mul(2).add_(ordered.ne(ordered)).argmax(-1, true);
    best = ordered.gather(-1, last).movedim(-1, d);
    where = order.gather(-1, last).movedim(-1, d);
  }
  return finish();
}
Pair mode(const Tensor& self, int64_t dim, bool keepdim) {
  Tensor values = at::empty({0}, self.options()), indices = at::empty({0}, self.options().dtype(at::kLong));
  mode_out(self, dim, keepdim, values, indices);
  return {values, indices};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("unique_dim", &unique_dim);
  m.impl("mode", &mode);
  m.impl("mode.values", &mode_out);
}

}  // namespace mpsx::ops
