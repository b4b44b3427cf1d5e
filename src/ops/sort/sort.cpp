// Launches the kernels in metal/sort: sort, topk, kthvalue, median, nanmedian.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/operator.h"
#include "ops/selected.h"
#include "ops/structured.h"
#include "runtime/lane_groups.h"
#include "sort/params.h"

namespace mpsx::ops {
namespace {

// Moves dimension `dim` to the end. Returns `t` itself if it is already last.
Tensor with_last(const Tensor& t, int64_t dim) { return dim == -1 || dim == t.dim() - 1 ? t : t.movedim(dim, -1); }
// Moves dimension `dim` to the end and makes the rows contiguous.
Tensor as_rows(const Tensor& x, int64_t dim) { return x.dim() == 0 ? x.reshape({1}) : with_last(x, dim).contiguous(); }
struct Rows {
  uint64_t size, count;
};
Rows rows_of(const char* name, const Tensor& rows) {
  const uint64_t size = uint64_t(rows.size(-1)), count = uint64_t(rows.numel()) / size;
  TORCH_CHECK(size < UINT32_MAX && count < UINT32_MAX, name, ": expected sizes below 2^32 - 1, got ", rows.sizes());
  return {size, count};
}
// Returns `out` if kernels can write it row by row. Otherwise, returns a new tensor of the same shape.
Tensor row_target(const Tensor& out, int64_t dim) {
  if (out.dim() == 0) return out.reshape({1});
  const Tensor moved = with_last(out, dim);
  return moved.is_contiguous() ? moved : at::empty(moved.sizes(), moved.options());
}
void put_back(const Tensor& rows, const Tensor& out, int64_t dim) {
  if (out.dim() > 0 && rows.data_ptr() != out.data_ptr()) out.movedim(dim, -1).copy_(rows);
}

// Returns the work per row: the number of elements times the number of passes. There is one pass per byte of the key.
uint64_t row_work(const Tensor& rows) { return uint64_t(rows.size(-1)) * uint64_t(rows.element_size()) * 4; }

// ---- sort

constexpr uint64_t kScratchElements = uint64_t(1) << 26;  // rows are sorted in batches of about this many elements

// Sorts rows that are longer than a threadgroup's tile. Each digit takes three launches: count, scan, scatter.
void sort_long_rows(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending) {
  static const KernelSet count("sort_count"), scatter("sort_scatter");
  const auto [size, rows] = rows_of("sort", x);
  const uint32_t digits = uint32_t(x.element_size()) * 8 / kSortBits;
  SortParams p{uint32_t(size), descending ? ~0u : 0u, 1, 0, uint32_t(ceil_div(size, kSortTile))};
  const auto whole = x.options().dtype(at::kInt);
  const Tensor counts = at::empty({int64_t(rows), int64_t(kSortDigits) * p.tiles}, whole);
  Tensor ends = at::empty_like(counts);
  // The passes alternate between two buffers.
  Tensor keys[2], order[2];
  for (uint32_t i = 0; i < std::min(digits - 1, 2u); ++i)
    keys[i] = at::empty_like(x), order[i] = at::empty(x.sizes(), whole);
  Tensor from = x, from_order = counts;  // a placeholder, because the first pass does not read the order
  for (uint32_t pass = 0; pass < digits; ++pass, p.shift += kSortBits) {
    const bool last = pass + 1 == digits;
    const driver::Size grid{p.tiles, uint32_t(rows)};
    Launch counting(count.get(tag_of(x)));
    counting.outputs(counts).inputs(from).bytes(p);
    counting.groups(grid, kSortThreads).work(kSortTile).run();
    at::cumsum_out(ends, counts, 1, at::kInt);
    const Tensor to = last ? values : keys[pass % 2], to_order = last ? counts : order[pass % 2];
    Launch moving(scatter.get(tag_of(x)));
    moving.outputs(to, to_order, indices).inputs(from, from_order, ends).bytes(p);
    moving.groups(grid, kSortThreads, true).work(kSortTile * 8).run();
    from = to, from_order = to_order;
  }
}

void sort_rows(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending) {
  static const KernelSet kernels("sort_rows");
  const auto [size, count] = rows_of("sort", x);
  const bool scratch = size > kRanked && runtime::max_sortable_row(kSortTile) > kSortTile;
  const uint64_t batch = std::clamp<uint64_t>(kScratchElements / size, 1, count);
  if (size > runtime::max_sortable_row(kSortTile)) {
    const auto rows = [&](const Tensor& t, uint64_t row) {
      return t.view({int64_t(count), int64_t(size)}).narrow(0, int64_t(row), int64_t(std::min(batch, count - row)));
    };
    for (uint64_t row = 0; row < count; row += batch)
      sort_long_rows(rows(x, row), rows(values, row), rows(indices, row), descending);
    return;
  }
  const auto bytes = x.options().dtype(at::kByte);
  const Tensor keys = at::empty({scratch ? int64_t(2 * batch * size * x.element_size()) : 0}, bytes);
  const Tensor order = at::empty({scratch ? int64_t(2 * batch * size) : 0}, bytes.dtype(at::kInt));
  const SortParams p{uint32_t(size), descending ? ~0u : 0u, 1, 0, 1};
  for (uint64_t row = 0; row < count; row += batch) {
    const int64_t first = int64_t(row * size);
    Launch(kernels.get(tag_of(x)))
        .pointer(static_cast<char*>(values.data_ptr()) + first * values.element_size())
        .pointer(indices.mutable_data_ptr<int64_t>() + first)
        .outputs(keys, order)
        .pointer(static_cast<const char*>(x.const_data_ptr()) + first * x.element_size())
        .bytes(p)
        .groups({uint32_t(std::min(batch, count - row))},
                size > kRanked ? uint32_t(kSortThreads) : runtime::threads_for_row(size), size > kRanked)
        .work(row_work(x))
        .run();
  }
}

// Sorts short columns without transposing them, with one thread per column. Returns false if the columns are long or
// not dense.
bool sort_columns(const Tensor& x, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  static const KernelSet kernels("sort_columns");
  if (x.dim() == 0 || x.size(dim) > int64_t(kTiny) || !x.is_contiguous() || !values.is_contiguous() ||
      !indices.is_contiguous())
    return false;
  uint64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != dim) (d < dim ? outer : inner) *= uint64_t(x.size(d));
  if (inner == 1 || outer >= UINT32_MAX || inner >= UINT32_MAX) return false;
  const SortParams p{uint32_t(x.size(dim)), descending ? ~0u : 0u, uint32_t(inner), 0, 1};
  Launch(kernels.get(tag_of(x)))
      .outputs(values, indices)
      .inputs(x)
      .bytes(p)
      .threads(inner, outer)
      .work(4 * uint64_t(p.size))
      .run();
  return true;
}

void sort_to(const Tensor& given, int64_t dim_given, bool descending, const Tensor& values, const Tensor& indices) {
  if (given.numel() == 0) return;
  const Tensor x = given.is_alias_of(values) || given.is_alias_of(indices) ? given.clone() : given;
  const int64_t dim = at::maybe_wrap_dim(dim_given, x.dim());
  if (sort_columns(x, dim, descending, values, indices)) return;
  const Tensor sorted = row_target(values, dim), positions = row_target(indices, dim);
  sort_rows(as_rows(x, dim), sorted, positions, descending);
  put_back(sorted, values, dim);
  put_back(positions, indices, dim);
}
bool sort(const Tensor& x, std::optional<bool> stable, int64_t dim, bool descending, Tensor& values, Tensor& indices) {
  if (!has_number_kernel(x)) return false;
  Structured<at::meta::structured_sort_stable, 2> outputs(values, indices);
  outputs.meta(x, stable, dim, descending);
  sort_to(x, dim, descending, outputs.result(0), outputs.result(1));
  return outputs.return_or_copy(values, indices);
}

// ---- topk

// Selects elements of each row by rank. The outputs must be contiguous.
void launch_select(const KernelSet& kernels, const Tensor& rows, uint64_t count, const SelectParams& p,
                   const Tensor& values, const Tensor& indices) {
  Launch(kernels.get(tag_of(rows)))
      .outputs(values, indices)
      .inputs(rows)
      .bytes(p)
      .groups({uint32_t(count)}, std::min(256u, runtime::threads_for_row(p.size)))
      .work(row_work(rows))
      .run();
}

void topk_to(const Tensor& x, int64_t k, int64_t dim_given, bool largest, bool sorted, const Tensor& values,
             const Tensor& indices) {
  static const KernelSet kernels("select_first");
  if (values.numel() == 0) return;
  if (x.dim() == 0) {  // as on the CPU, returns the element even if k is 0
    values.copy_(x);
    indices.zero_();
    return;
  }
  const int64_t dim = at::maybe_wrap_dim(dim_given, x.dim());
  const Tensor rows = as_rows(x, dim);
  const auto [size, count] = rows_of("topk", rows);
  const Tensor found = row_target(values, dim), positions = row_target(indices, dim);
  const uint32_t vectorized = aligned(rows) && runtime::is_vector_aligned(size * rows.element_size());
  const SelectParams p{uint32_t(size), largest ? ~0u : 0u, uint32_t(k), 0, kKth, vectorized};
  launch_select(kernels, rows, count, p, found, positions);
  if (sorted && k > kRanked) {
    const Tensor in_order = at::empty(found.sizes(), found.options());
    const Tensor moved = at::empty(positions.sizes(), positions.options());
    sort_rows(found, in_order, moved, largest);
    found.copy_(in_order);
    positions.copy_(positions.gather(-1, moved));
  }
  put_back(found, values, dim);
  put_back(positions, indices, dim);
}
bool topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted, Tensor& values, Tensor& indices) {
  if (!has_number_kernel(x) || x.scalar_type() == at::kBool) return false;
  assert_no_partial_overlap(x, values, indices);
  Structured<at::meta::structured_topk, 2> outputs(values, indices);
  outputs.meta(x, k, dim, largest, sorted);
  topk_to(x, k, dim, largest, sorted, outputs.result(0), outputs.result(1));
  return outputs.return_or_copy(values, indices);
}

// ---- kthvalue, median, nanmedian

// Selects one element of each row. The outputs must be contiguous.
void select(const char* name, const Tensor& rows, SelectWhich which, int64_t rank, const Tensor& values,
            const Tensor& indices) {
  static const KernelSet kernels("select_one");
  const auto [size, count] = rows_of(name, rows);
  launch_select(kernels, rows, count, {uint32_t(size), 0, 0, uint32_t(rank), which, 0}, values, indices);
}

bool select_along(const char* name, const Tensor& x, SelectWhich which, int64_t k, int64_t dim_given, bool keepdim,
                  Tensor& values, Tensor& indices) {
  if (!has_number_kernel(x) || x.scalar_type() == at::kBool) return false;
  check_selected(name, x, values, indices);
  const int64_t dim = at::maybe_wrap_dim(dim_given, x.dim());
  at::native::zero_numel_check_dims(x, dim, name);
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  TORCH_CHECK(which != kKth || (k >= 1 && k <= size), name, "(): selected number k out of range for dimension ", dim);
  at::DimVector shape(x.sizes());
  if (x.dim() > 0) shape.erase(shape.begin() + dim);
  Tensor found = at::empty(shape, x.options()), positions = at::empty(shape, x.options().dtype(at::kLong));
  if (x.numel() > 0) select(name, as_rows(x, dim), which, k - 1, found, positions);
  if (keepdim && x.dim() > 0) found = found.unsqueeze(dim), positions = positions.unsqueeze(dim);
  return return_or_copy(name, found, values) && return_or_copy(name, positions, indices);
}

bool kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  if (values.defined()) at::assert_no_overlap(values, x);
  return select_along("kthvalue", x, kKth, k, dim, keepdim, values, indices);
}
template <OperatorName NAME, SelectWhich WHICH>
bool median_along(const Tensor& x, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  return select_along(NAME.text, x, WHICH, 0, dim, keepdim, values, indices);
}
template <OperatorName NAME, SelectWhich WHICH>
std::optional<Tensor> median(const Tensor& x) {
  Tensor value, index;
  if (x.numel() == 0 || !select_along(NAME.text, x.flatten(), WHICH, 0, 0, false, value, index)) return std::nullopt;
  return value;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"sort.stable", &sort>(m);
  op<"topk", &topk>(m);
  op<"kthvalue", &kthvalue>(m);
  op<"median", &median<"median", kMedian>>(m);
  op<"median.dim", &median_along<"median", kMedian>>(m);
  op<"nanmedian", &median<"nanmedian", kNanMedian>>(m);
  op<"nanmedian.dim", &median_along<"nanmedian", kNanMedian>>(m);
}

}  // namespace mpsx::ops
