// cat; stack goes through it.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat_meta.h>
#include <torch/library.h>

#include <algorithm>

#include "index/params.h"
#include "ops/copy.h"
#include "ops/indexing.h"
#include "ops/narrow.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kShortRow = 8;               // elements, of which several rows are a thread's
constexpr int64_t kMaxRow = int64_t(1) << 30;  // elements of a launch's rows, whose length fits 32 bits

// PyTorch skips 1-D inputs without elements, whatever the other shapes are.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

// Dimensions ordered from the outermost in memory, for a tensor that is dense in some order.
at::DimVector memory_order(const Tensor& t) {
  at::DimVector order(size_t(t.dim()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = int64_t(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return t.stride(a) > t.stride(b); });
  return order;
}

// Puts `in` at `offset` along `dim` of `out`: by rows where both lie densely in the same order of dimensions.
void put(const Tensor& out, const Tensor& in, int64_t dim, int64_t offset) {
  static const KernelSet rows("cat_rows"), columns("cat_columns");
  const bool dense =
      in.scalar_type() == out.scalar_type() && movable(in) && movable(out) && out.is_contiguous() && in.is_contiguous();
  if (!dense) {
    const Tensor place = narrowed(out, dim, offset, in.size(dim));
    if (!copy_on_device(place, in)) place.copy_(in);
    return;
  }
  const Blocks to(out.sizes(), dim), from(in.sizes(), dim);
  const int64_t row = from.size * from.inner;
  if (row < kShortRow && from.outer > 1) {
    const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? uint32_t(kCatTile) : 1;
    const CatParams p{to.size * to.inner, uint32_t(row), grid_size("cat", from.outer)};
    Launch(columns.get(bits_tag(out)))
        .pointer(static_cast<char*>(out.data_ptr()) + offset * to.inner * out.element_size())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .threads((p.rows + tile - 1) / tile)
        .work(uint64_t(tile) * p.row)
        .run();
    return;
  }
  const uint32_t lanes = runtime::lanes(size_t(out.element_size()));
  // One long row is cut.
  for (int64_t begin = 0; begin < row; begin += kMaxRow) {
    CatParams p{};
    p.pitch = to.size * to.inner;
    p.row = uint32_t(std::min(kMaxRow, row - begin));
    TORCH_CHECK(row <= kMaxRow || from.outer == 1, "cat: rows of ", row, " elements pass the limit of 2^30");
    Launch(rows.get(bits_tag(out)))
        .pointer(static_cast<char*>(out.data_ptr()) + (offset * to.inner + begin) * out.element_size())
        .pointer(static_cast<const char*>(in.const_data_ptr()) + begin * in.element_size())
        .bytes(p)
        .threads((p.row + lanes - 1) / lanes, grid_size("cat", from.outer))
        .work(lanes)
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

// A launch for every kCatInputs inputs, where it costs as much as they do: on a CPU if they are small. False: some lie
// in another way, or have rows that are worth kernels of their own.
bool put_few(const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  if (tensors.size() < 2 || !tensors.front().is_contiguous()) return false;
  static const KernelSet kernels("cat_few");
  constexpr int64_t kSmall = 16384;
  const bool host = runtime::driver().info().vector_bytes == 0;
  if ((host && out.numel() > kSmall) || !movable(out) || !out.is_contiguous()) return false;
  const Blocks to(out.sizes(), dim);
  for (const Tensor& t : tensors) {
    if (skipped(t) || t.numel() == 0) continue;
    const int64_t row = t.size(dim) * to.inner;
    if (!movable(t) || t.scalar_type() != out.scalar_type() || !t.is_contiguous() || row > kMaxRow) return false;
    if (row < kShortRow && to.outer > 1) return false;
  }
  const uint32_t per_thread = host ? uint32_t(kCatPiece) : runtime::lanes(size_t(out.element_size()));
  CatFewParams p{to.size * to.inner, {}, {}};
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
        .threads((longest + per_thread - 1) / per_thread, grid_size("cat", to.outer), count)
        .work(std::min(longest, per_thread))
        .run();
    count = longest = 0;
  };
  int64_t offset = 0;
  for (const Tensor& t : tensors) {
    if (skipped(t) || t.numel() == 0) continue;
    p.offset[count] = offset;
    p.row[count] = uint32_t(t.size(dim) * to.inner);
    data[count] = t.const_data_ptr();
    offset += p.row[count];
    longest = std::max(longest, p.row[count]);
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

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
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
