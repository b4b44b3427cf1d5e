// histogram and histogramdd. They find the bin of each point by searching the bin edges, and then count the point.
#include <ATen/ops/diff.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>

#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using at::TensorList;
using OptionalRange = std::optional<at::ArrayRef<double>>;
using OptionalTensor = std::optional<Tensor>;

bool has_kernels(const Tensor& self, const OptionalTensor& weight) {
  const bool plain = is_plain(self) && self.scalar_type() == at::kFloat;
  return plain && !(weight && weight->defined() && !(is_plain(*weight) && weight->scalar_type() == at::kFloat));
}

// The points of a histogram. They have one coordinate per dimension and, optionally, weights.
struct Points {
  const char* op;
  Tensor rows;    // (points, dimensions)
  Tensor weight;  // one per point, or undefined

  Points(const char* name, const Tensor& self, const OptionalTensor& w, bool one_dimension) : op(name) {
    TORCH_CHECK(one_dimension || self.dim() >= 2, op, ": input tensor should have at least 2 dimensions, but got ",
                self.dim());
    rows = one_dimension ? self.reshape({-1, 1}) : self.reshape({-1, self.size(-1)});
    if (!w || !w->defined()) return;
    const IntArrayRef expected = one_dimension ? self.sizes() : self.sizes().slice(0, size_t(self.dim()) - 1);
    TORCH_CHECK(w->sizes() == expected, op, ": expected weight tensor of shape ", expected, ", got ", w->sizes());
    weight = w->reshape({-1});
  }
  // Returns equally spaced edges over a range. The default is the range of the points.
  std::vector<Tensor> edges(IntArrayRef bins, const OptionalRange& range) const {
    const auto count = rows.size(1);
    TORCH_CHECK(int64_t(bins.size()) == count,
                "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
    TORCH_CHECK(!range || int64_t(range->size()) == 2 * count, op, ": for a ", count,
                "-dimensional histogram range should have ", 2 * count, " elements, but got ",
                range ? range->size() : 0);
    std::vector<Tensor> result;
    for (int64_t d = 0; d < count; ++d) {
      TORCH_CHECK(bins[size_t(d)] > 0, op, ": bins must be > 0, but got ", bins[size_t(d)], " for dimension ", d);
      double low = 0, high = 1;
      if (range) {
        low = (*range)[size_t(2 * d)];
        high = (*range)[size_t(2 * d + 1)];
      } else if (rows.size(0) > 0) {
        low = rows.select(1, d).min().item<double>();
        high = rows.select(1, d).max().item<double>();
      }
      TORCH_CHECK(std::isfinite(low) && std::isfinite(high), op, ": dimension ", d, "'s range [", low, ", ", high,
                  "] is not finite");
      TORCH_CHECK(low <= high, op, ": min should not exceed max, but got min ", low, " max ", high, " for dimension ",
                  d);
      if (low == high) low -= 0.5, high += 0.5;
      result.push_back(at::linspace(low, high, bins[size_t(d)] + 1, rows.options()));
    }
    return result;
  }
  Tensor counts(TensorList edges, bool density) const {
    TORCH_CHECK(int64_t(edges.size()) == rows.size(1), op, ": expected ", rows.size(1),
                " sequences of bin edges for a ", rows.size(1), "-dimensional histogram but got ", edges.size());
    std::vector<int64_t> shape;
    Tensor bin_index, inside;  // for each point, its flat bin index and whether it is in range
    for (size_t d = 0; d < edges.size(); ++d) {
      const Tensor e = edges[d].contiguous(), x = rows.select(1, int64_t(d)).contiguous();
      TORCH_CHECK(e.dim() == 1 && e.numel() >= 2 && e.scalar_type() == rows.scalar_type(), op,
                  ": bins tensors should have one dimension, at least two elements and the type of the input, got ",
                  e.sizes(), " of ", e.scalar_type());
      const int64_t n = e.size(0) - 1;
      shape.push_back(n);
      const Tensor last = e.slice(0, n), first = e.slice(0, 0, 1);
      const Tensor here = x.ge(first).logical_and_(x.le(last));
      const Tensor bin =
          at::searchsorted(e, x, false, true).sub_(1).clamp_(0, n - 1);  // the last bin includes its upper edge
      bin_index = bin_index.defined() ? bin_index.mul_(n).add_(bin) : bin;
      inside = inside.defined() ? inside.logical_and_(here) : here;
    }
    const int64_t bins = c10::multiply_integers(shape);
    const Tensor point_weights = weight.defined() ? weight : at::ones({}, rows.options()).expand({rows.size(0)});
    Tensor result = at::zeros({bins + 1}, rows.options());
    // Count points that are out of range in an additional bin.
    result.scatter_add_(0, bin_index.masked_fill_(inside.logical_not(), bins), point_weights);
    result = result.slice(0, 0, bins).view(shape).contiguous();
    if (!density) return result;
    result.div_(result.sum());
    for (size_t d = 0; d < edges.size(); ++d) {
      std::vector<int64_t> along(edges.size(), 1);
      along[d] = shape[d];
      result.div_(at::diff(edges[d]).view(along));
    }
    return result;
  }
};

bool histogram_of_bins(const Tensor& self, const Tensor& bins, const OptionalTensor& weight, bool density, Tensor& hist,
                       Tensor& edges) {
  if (!has_kernels(self, weight) || !is_plain(bins)) return false;
  const Tensor counts = Points("torch.histogram()", self, weight, true).counts({bins}, density);
  return return_or_copy("histogram", counts, hist) &&
         (edges.is_same(bins) || return_or_copy("histogram", bins.clone(), edges));
}
bool histogram_of_count(const Tensor& self, int64_t bins, OptionalRange range, const OptionalTensor& weight,
                        bool density, Tensor& hist, Tensor& edges) {
  if (!has_kernels(self, weight)) return false;
  const Points points("torch.histogram()", self, weight, true);
  const std::vector<Tensor> parts = points.edges({bins}, range);
  return return_or_copy("histogram", points.counts(parts, density), hist) &&
         return_or_copy("histogram", parts[0], edges);
}

std::optional<std::vector<Tensor>> edges_dd(const Tensor& self, IntArrayRef bins, OptionalRange range,
                                            const OptionalTensor& weight, bool) {
  if (!has_kernels(self, weight)) return std::nullopt;
  return Points("torch.histogramdd()", self, weight, false).edges(bins, range);
}
std::optional<Tensor> equal_dd(const Tensor& self, IntArrayRef bins, OptionalRange range, const OptionalTensor& weight,
                               bool density) {
  if (!has_kernels(self, weight)) return std::nullopt;
  const Points points("torch.histogramdd()", self, weight, false);
  return points.counts(points.edges(bins, range), density);
}
std::optional<Tensor> given_dd(const Tensor& self, TensorList bins, const OptionalTensor& weight, bool density) {
  if (!has_kernels(self, weight)) return std::nullopt;
  return Points("torch.histogramdd()", self, weight, false).counts(bins, density);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"histogram.bins_tensor", &histogram_of_bins>(m);
  op<"histogram.bin_ct", &histogram_of_count>(m);
  op<"_histogramdd_bin_edges", &edges_dd>(m);
  op<"_histogramdd_from_bin_cts", &equal_dd>(m);
  op<"_histogramdd_from_bin_tensors", &given_dd>(m);
}

}  // namespace mpsx::ops
