// unique and unique_consecutive over all elements, which find runs of equal adjacent elements. unique_dim shares this
// code.
#include "ops/index/unique.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/any.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "index/params.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "runtime/stream.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kMinRunChunk = 1024, kMaxRunChunks = 65536;

// Runs of equal adjacent elements in a dense vector. If the vector was sorted, `order` holds the original indices of
// the elements. Otherwise it is undefined.
struct FlatRuns {
  Tensor values;   // the first element of each run
  Tensor inverse;  // for each element, the index of its run; empty if not requested
  Tensor lengths;  // empty if not requested

  FlatRuns(const Tensor& x, const Tensor& order, bool with_inverse, bool with_lengths) {
    static const KernelSet count("unique_count"), scan("nonzero_scan"), fill("unique_fill");
    const auto longs = x.options().dtype(at::kLong);
    const int64_t n = x.numel(), chunk = std::max(kMinRunChunk, (n + kMaxRunChunks - 1) / kMaxRunChunks);
    const auto chunks = uint32_t((n + chunk - 1) / chunk);
    inverse = at::empty({with_inverse ? n : 0}, longs);
    lengths = at::empty({0}, longs);
    if (n == 0) {
      values = at::empty({0}, x.options());
      return;
    }
    const UniqueParams p{uint64_t(n), grid_size("unique", chunk), with_lengths, with_inverse, order.defined()};
    const Tensor starts = at::empty({int64_t(chunks) + 1}, longs);
    const Tag tag = tag_of(x);
    Launch(count.get(tag)).outputs(starts).inputs(x).bytes(p).threads(chunks).work(p.chunk).run();
    Launch(scan.get()).outputs(starts).bytes(chunks).groups({1}).run();
    int64_t total = 0;
    runtime::read_number(&total, starts.const_data_ptr<int64_t>() + chunks, sizeof total);
    values = at::empty({total}, x.options());
    const Tensor firsts = at::empty({with_lengths ? total + 1 : 0}, longs);
    Launch(fill.get(tag))
        .outputs(values, firsts, inverse)
        .inputs(starts, x, order)
        .bytes(p)
        .threads(chunks)
        .work(p.chunk)
        .run();
    if (with_lengths) lengths = firsts.slice(0, 1).sub(firsts.slice(0, 0, -1));
  }
};

std::optional<Triple> unique(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  if (!has_number_kernel(self)) return std::nullopt;
  const auto [values, order] = self.flatten().sort();
  const FlatRuns runs(values, order, return_inverse, return_counts);
  return Triple(runs.values, return_inverse ? runs.inverse.view(self.sizes()) : runs.inverse, runs.lengths);
}
std::optional<std::tuple<Tensor, Tensor>> unique_without_counts(const Tensor& self, bool sorted, bool return_inverse) {
  const auto found = unique(self, sorted, return_inverse, false);
  if (!found) return std::nullopt;
  return std::tuple<Tensor, Tensor>(std::get<0>(*found), std::get<1>(*found));
}

std::optional<Triple> unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                                         std::optional<int64_t> dim) {
  if (!has_number_kernel(self)) return std::nullopt;
  const bool rows = dim && self.dim() > 1;
  if (dim) at::maybe_wrap_dim(*dim, self.dim());
  if (!rows) {
    const FlatRuns runs(self.flatten().contiguous(), {}, return_inverse, return_counts);
    return Triple(runs.values, return_inverse ? runs.inverse.view(self.sizes()) : runs.inverse, runs.lengths);
  }
  const UniqueRows u(self, *dim);
  if (u.rows.size(0) == 0) return u.none();
  const Runs runs(u.rows, return_counts);
  return Triple(u.restored(u.rows.index_select(0, runs.firsts)),
                return_inverse ? runs.of : at::empty({0}, runs.of.options()), runs.lengths);
}
std::optional<Triple> unique_dim_consecutive(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  return ops::unique_consecutive(self, return_inverse, return_counts, dim);
}

}  // namespace

Runs::Runs(const Tensor& x, bool counts) {
  const auto longs = x.options().dtype(at::kLong);
  lengths = at::empty({0}, longs);
  if (x.size(0) == 0) {
    firsts = of = lengths;
    return;
  }
  Tensor differs = x.slice(0, 1).ne(x.slice(0, 0, -1));
  if (x.dim() > 1) differs = differs.any(1);
  const Tensor starts = at::cat({at::ones({1}, differs.options()), differs});
  firsts = starts.nonzero().squeeze(1);
  of = starts.cumsum(0, at::kLong).sub_(1);
  if (counts) lengths = at::cat({firsts.slice(0, 1), at::full({1}, x.size(0), longs)}).sub_(firsts);
}

UniqueRows::UniqueRows(const Tensor& self, int64_t d) : dim(at::maybe_wrap_dim(d, self.dim())) {
  const Tensor moved = self.dim() == 0 ? self.unsqueeze(0) : self.movedim(dim, 0);
  sizes = moved.sizes().vec();
  for (size_t i = 1; i < sizes.size(); ++i)
    TORCH_CHECK(sizes[i] > 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  rows = moved.reshape({sizes[0], sizes[0] > 0 ? -1 : 1}).contiguous();
}
Tensor UniqueRows::restored(const Tensor& some) const {
  std::vector<int64_t> shape(sizes);
  shape[0] = some.size(0);
  return some.view(shape).movedim(0, dim).contiguous();
}
Triple UniqueRows::none() const {
  const Tensor longs = at::empty({0}, rows.options().dtype(at::kLong));
  return {at::empty(sizes, rows.options()).movedim(0, dim).contiguous(), longs, longs.clone()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_unique2", &ops::unique>(m);
  op<"_unique", &unique_without_counts>(m);
  op<"unique_consecutive", &ops::unique_consecutive>(m);
  op<"unique_dim_consecutive", &unique_dim_consecutive>(m);
}

}  // namespace mpsx::ops
