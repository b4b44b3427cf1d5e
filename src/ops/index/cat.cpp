// cat; stack goes through it.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "index/params.h"
#include "ops/elementwise/copy.h"
#include "ops/indexing.h"
#include "ops/narrow.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kShortRow = 8;               // elements, of which several rows are a thread's
constexpr int64_t kMaxRow = int64_t(1) << 30;  // elements of a launch's rows, whose length fits 32 bits

// PyTorch skips 1-D inputs without elements, whatever the other shapes are.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

// An input as the kernels walk it: rows of `row` elements that lie `step` apart, rows `pitch` apart.
struct Rows {
  int64_t row = 1, step = 1, count = 1, pitch = 0;
};

// The dimensions [begin, end) as one of (size, stride). False: they are none.
bool one_loop(const Tensor& t, int64_t begin, int64_t end, int64_t& size, int64_t& stride) {
  for (int64_t d = end - 1; d >= begin; --d) {
    if (t.size(d) == 1) continue;
    if (size == 1)
      stride = t.stride(d);
    else if (t.stride(d) != stride * size)
      return false;
    size *= t.size(d);
  }
  return true;
}

// A tensor with elements as rows along `dim` and what lies within. Nothing: one loop is not enough for them.
std::optional<Rows> as_rows(const Tensor& t, int64_t dim) {
  Rows rows;
  if (!one_loop(t, dim, t.dim(), rows.row, rows.step)) return std::nullopt;
  if (!one_loop(t, 0, dim, rows.count, rows.pitch)) return std::nullopt;
  return rows;
}

// Dimensions ordered from the outermost in memory, for a tensor that is dense in some order.
at::DimVector memory_order(const Tensor& t) {
  at::DimVector order(size_t(t.dim()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = int64_t(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return order;
}

// Elements of a row that are a thread's.
uint32_t row_piece(const Tensor& out) {
  return runtime::driver().info().vector_bytes == 0 ? uint32_t(kCatPiece) : runtime::lanes(size_t(out.element_size()));
}

// Puts `in` at `offset` along `dim` of `out`: by rows where both lie densely in the same order of dimensions.
void put(const Tensor& out, const Tensor& in, int64_t dim, int64_t offset) {
  static const KernelSet rows("cat_rows"), columns("cat_columns");
  const bool plain = in.scalar_type() == out.scalar_type() && movable(in) && movable(out) && out.is_contiguous();
  const std::optional<Rows> from = plain ? as_rows(in, dim) : std::nullopt;
  if (!from || from->step != 1) {
    const Tensor place = narrowed(out, dim, offset, in.size(dim));
    if (!copy_on_device(place, in)) place.copy_(in);
    return;
  }
  const Blocks to(out.sizes(), dim);
  const int64_t row = from->row;
  if (row < kShortRow && from->count > 1) {
    const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? uint32_t(kCatTile) : 1;
    const CatParams p{to.size * to.inner, from->pitch, uint32_t(row), grid_size("cat", from->count)};
    Launch(columns.get(bits_tag(out)))
        .pointer(static_cast<char*>(out.data_ptr()) + offset * to.inner * out.element_size())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .threads((p.rows + tile - 1) / tile)
        .work(uint64_t(tile) * p.row)
        .run();
    return;
  }
  const uint32_t piece = row_piece(out);
  // One long row is cut.
  for (int64_t begin = 0; begin < row; begin += kMaxRow) {
    CatParams p{};
    p.pitch = to.size * to.inner;
    p.in_pitch = from->pitch;
    p.row = uint32_t(std::min(kMaxRow, row - begin));
    TORCH_CHECK(row <= kMaxRow || from->count == 1, "cat: rows of ", row, " elements pass the limit of 2^30");
    Launch(rows.get(bits_tag(out)))
        .pointer(static_cast<char*>(out.data_ptr()) + (offset * to.inner + begin) * out.element_size())
        .pointer(static_cast<const char*>(in.const_data_ptr()) + begin * in.element_size())
        .bytes(p)
        .threads((p.row + piece - 1) / piece, grid_size("cat", from->count))
        .work(std::min(p.row, piece))
        .run();
  }
}

// Two columns side by side. False: the inputs are others, or do not lie densely.
bool interleave(const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  static const KernelSet kernels("cat_pairs");
  if (tensors.size() != 2 || dim + 1 != out.dim() || out.size(dim) != 2 || !movable(out) || !out.is_contiguous())
    return false;
  const void* data[2];
  size_t found = 0;
  for (const Tensor& t : tensors) {
    if (skipped(t) || !movable(t) || t.scalar_type() != out.scalar_type() || !t.is_contiguous() || t.size(dim) != 1)
      return false;
    data[found++] = t.const_data_ptr();
  }
  const int64_t count = out.numel() / 2;
  if (count >= int64_t(UINT32_MAX) - kCatTile) return false;
  const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? uint32_t(kCatTile) : 1, pairs = uint32_t(count);
  Launch(kernels.get(bits_tag(out)))
      .pointer(out.mutable_data_ptr())
      .pointer(data[0])
      .pointer(data[1])
      .bytes(pairs)
      .threads((pairs + tile - 1) / tile)
      .work(2 * tile)
      .run();
  return true;
}

// A launch for every kCatInputs inputs, where it costs as much as they do: on a CPU if they are small. False: some are
// no rows, or have rows that are worth kernels of their own.
bool put_few(const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  if (tensors.size() < 2) return false;
  static const KernelSet kernels("cat_few");
  constexpr int64_t kSmall = 16384;
  const bool host = runtime::driver().info().vector_bytes == 0;
  if ((host && out.numel() > kSmall) || !movable(out) || !out.is_contiguous()) return false;
  const Blocks to(out.sizes(), dim);
  c10::SmallVector<Rows, 8> each;
  for (const Tensor& t : tensors) {
    if (skipped(t) || t.numel() == 0) continue;
    if (!movable(t) || t.scalar_type() != out.scalar_type()) return false;
    const std::optional<Rows> rows = as_rows(t, dim);
    if (!rows || rows->row > kMaxRow || (!host && rows->step != 1)) return false;
    if (rows->row < kShortRow && to.outer > 1) return false;
    each.push_back(*rows);
  }
  const uint32_t piece = row_piece(out);
  CatFewParams p{};
  p.pitch = to.size * to.inner;
  const void* data[kCatInputs] = {};
  uint32_t count = 0, longest = 0;
  const auto launch = [&] {
    if (count == 0) return;
    Launch(kernels.get(bits_tag(out)))
        .pointer(out.mutable_data_ptr())
        .pointer(data[0])
        .pointer(data[1])
        .pointer(data[2])
        .pointer(data[3])
        .bytes(p)
        .threads((longest + piece - 1) / piece, grid_size("cat", to.outer), count)
        .work(std::min(longest, piece))
        .run();
    count = longest = 0;
  };
  int64_t offset = 0;
  const Rows* rows = each.begin();
  for (const Tensor& t : tensors) {
    if (skipped(t) || t.numel() == 0) continue;
    p.offset[count] = offset;
    p.row[count] = uint32_t(rows->row);
    p.in_pitch[count] = rows->pitch;
    p.step[count] = rows->step;
    data[count] = t.const_data_ptr();
    offset += rows->row;
    longest = std::max(longest, p.row[count]);
    ++rows;
    if (++count == kCatInputs) launch();
  }
  launch();
  return true;
}

void fill(const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  if (interleave(out, tensors, dim) || put_few(out, tensors, dim)) return;
  const auto each = [&](const auto& body) {
    int64_t offset = 0;
    for (const Tensor& t : tensors) {
      if (skipped(t)) continue;
      if (t.numel() > 0) body(t, offset);
      offset += t.size(dim);
    }
  };
  if (out.is_contiguous() || !out.is_non_overlapping_and_dense())
    return each([&](const Tensor& t, int64_t offset) { put(out, t, dim, offset); });
  // Work in the output's own order of dimensions: a channels_last result is contiguous there.
  const at::DimVector order = memory_order(out);
  const Tensor target = out.permute(order);
  const int64_t at = std::find(order.begin(), order.end(), dim) - order.begin();
  each([&](const Tensor& t, int64_t offset) { put(target, t.permute(order), at, offset); });
}

template <typename Outputs>
void run(Outputs& outputs, const at::ITensorListRef& tensors, int64_t dim) {
  const auto materialized = tensors.materialize();
  for (const Tensor& t : materialized)
    TORCH_CHECK(t.device() == materialized[0].get().device(),
                "cat: expected all tensors to be on the same device, got ", materialized[0].get().device(), " and ",
                t.device());
  const auto plan = outputs.meta(tensors, at::legacy_cat_wrap_dim(dim, materialized));
  if (outputs.result().numel() > 0) fill(outputs.result(), tensors, plan.dim);
  outputs.finish();
}

// Tensors of another device are left to the checks of run().
bool all_plain(const at::ITensorListRef& tensors) {
  for (const Tensor& t : tensors)
    if (t.device().type() == at::kPrivateUse1 && !is_plain(t)) return false;
  return true;
}

std::vector<Tensor> to_vector(const at::ITensorListRef& tensors) { return {tensors.begin(), tensors.end()}; }

// The sizes of the result where tensors differ in `dim` alone, which is what PyTorch's checks, dearer than a small
// copy, would find too. Of four dimensions and more those also choose a memory format. Nothing: theirs is the answer.
std::optional<at::DimVector> plain_sizes(const at::ITensorListRef& tensors, int64_t& dim) {
  const Tensor& first = tensors.front();
  const int64_t dims = first.dim();
  if (dims == 0 || dims > 3 || dim < -dims || dim >= dims) return std::nullopt;
  if (dim < 0) dim += dims;
  at::DimVector sizes(first.sizes().begin(), first.sizes().end());
  sizes[size_t(dim)] = 0;
  for (const Tensor& t : tensors) {
    if (!is_plain(t) || t.dim() != dims || t.scalar_type() != first.scalar_type() || t.device() != first.device() ||
        skipped(t))
      return std::nullopt;
    for (int64_t d = 0; d < dims; ++d)
      if (d == dim)
        sizes[size_t(d)] += t.size(d);
      else if (t.size(d) != sizes[size_t(d)])
        return std::nullopt;
  }
  return sizes;
}

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  if (tensors.size() > 0) {
    int64_t at = dim;
    if (const auto sizes = plain_sizes(tensors, at)) {
      const Tensor out = at::empty(*sizes, tensors.front().options());
      if (out.numel() > 0) fill(out, tensors, at);
      return out;
    }
  }
  if (!all_plain(tensors)) return fallback_call<Tensor>("aten::cat", "", to_vector(tensors), dim);
  Structured<at::meta::structured_cat> outputs;
  run(outputs, tensors, dim);
  return outputs.result();
}

Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  if (!all_plain(tensors) || !is_plain(out))
    return fallback_call<Tensor>("aten::cat", "out", to_vector(tensors), dim, out), out;
  Structured<at::meta::structured_cat> outputs(out);
  run(outputs, tensors, dim);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat", &cat);
  m.impl("cat.out", &cat_out);
}

}  // namespace mpsx::ops
