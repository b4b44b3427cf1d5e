// unique along a dimension. Sorts the rows, so that equal rows are adjacent.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "ops/index/unique.h"
#include "ops/operator.h"
#include "index/rows_params.h"

namespace mpsx::ops {
namespace {

// Returns the permutation that sorts the rows of a dense matrix. The sort is stable.
Tensor order_of_rows(const Tensor& rows) {
  static const KernelSet kernels("merge_rows");
  TORCH_CHECK(rows.size(0) <= INT32_MAX && rows.size(1) <= int64_t(UINT32_MAX),
              "unique: expected sizes below 2^31, got ", rows.sizes());
  Tensor order = at::arange(rows.size(0), rows.options().dtype(at::kLong)), merged = at::empty_like(order);
  RowOrderParams p{uint32_t(rows.size(0)), uint32_t(rows.size(1)), 1};
  for (; p.run < p.count; p.run *= 2) {
    Launch(kernels.get(tag_of(rows)))
        .outputs(merged)
        .inputs(order, rows)
        .bytes(p)
        .threads(p.count)
        .work(64 - uint32_t(__builtin_clzll(p.run)))
        .run();
    std::swap(order, merged);
  }
  return order;
}

std::optional<Triple> unique_dim(const Tensor& self, int64_t dim, bool, bool return_inverse, bool return_counts) {
  if (!has_number_kernel(self)) return std::nullopt;
  const UniqueRows u(self, dim);
  if (u.rows.size(0) == 0) return u.none();
  const bool is_bool = self.scalar_type() == at::kBool;
  const Tensor order = order_of_rows(is_bool ? u.rows.view(at::kByte) : u.rows);
  const Tensor lines = u.rows.index_select(0, order);
  const Runs runs(lines, return_counts);
  Tensor inverse = at::empty({0}, order.options());
  if (return_inverse) inverse = at::empty_like(order).scatter_(0, order, runs.of);
  return Triple(u.restored(lines.index_select(0, runs.firsts)), inverse, runs.lengths);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"unique_dim", &unique_dim>(m); }

}  // namespace mpsx::ops
