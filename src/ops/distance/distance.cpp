// cdist, pdist, and their gradients.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "distance/params.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

enum Norm { kZero, kOne, kTwo, kAny, kInfinite };
Norm norm_of(double p) {
  return p == 0 ? kZero : (p == 1 ? kOne : (p == 2 ? kTwo : (std::isinf(p) ? kInfinite : kAny)));
}
runtime::KernelEntry& kernel(const KernelSet (&sets)[5], double p) { return sets[norm_of(p)].get(); }

bool has_kernel(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kFloat; }
uint32_t length(int64_t n) {
  TORCH_CHECK(n <= int64_t(UINT32_MAX), "cdist: expected sizes below 2^32, got ", n);
  return uint32_t(n);
}
// Returns the cost of processing one coordinate difference, relative to an addition.
uint64_t cost(double p) { return norm_of(p) == kAny ? 16 : 1; }

// Two batches of points. Their batch dimensions are broadcast, as in PyTorch.
struct Points {
  std::vector<int64_t> batch;
  Tensor a, b;  // (batch, points, coordinates), dense

  Points(const Tensor& x, const Tensor& y) {
    const auto outer = [](const Tensor& t) { return t.sizes().slice(0, size_t(t.dim()) - 2); };
    batch = at::infer_size(outer(x), outer(y));
    const int64_t count = c10::multiply_integers(batch);
    const auto dense = [&](const Tensor& t) {
      std::vector<int64_t> sizes(batch);
      sizes.insert(sizes.end(), {t.size(-2), t.size(-1)});
      return t.expand(sizes).contiguous().view({count, t.size(-2), t.size(-1)});
    };
    a = dense(x);
    b = dense(y);
  }
  Tensor empty(int64_t rows, int64_t columns) const {
    std::vector<int64_t> sizes(batch);
    sizes.insert(sizes.end(), {rows, columns});
    return at::empty(sizes, a.options());
  }
};

std::optional<Tensor> cdist(const Tensor& x, const Tensor& y, double p, std::optional<int64_t> compute_mode) {
  static const KernelSet kernels[] = {KernelSet("distance_norm_0"), KernelSet("distance_norm_1"),
                                      KernelSet("distance_norm_2"), KernelSet("distance_norm_p"),
                                      KernelSet("distance_norm_inf")};
  if (!has_kernel(x) || !has_kernel(y)) return std::nullopt;
  TORCH_CHECK(x.dim() >= 2 && y.dim() >= 2, "cdist only supports at least 2D tensors, got X1: ", x.dim(),
              "D and X2: ", y.dim(), "D");
  TORCH_CHECK(x.size(-1) == y.size(-1), "X1 and X2 must have the same number of columns. X1: ", x.size(-1),
              " X2: ", y.size(-1));
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  const Points points(x, y);
  const int64_t rows = x.size(-2), others = y.size(-2), size = x.size(-1);
  // For more points than this, use a matmul, like PyTorch.
  constexpr int64_t kMany = 25;
  if (p == 2 && size > 0 && (mode == 1 || (mode == 0 && (rows > kMany || others > kMany))) && rows > 0 && others > 0)
    return points.a.numel() == 0 ? points.empty(rows, others)
                                 : at::_euclidean_dist(points.a, points.b).view(points.empty(rows, others).sizes());
  const Tensor out = points.empty(rows, others);
  if (out.numel() == 0) return out;
  const DistanceParams q{length(rows), length(others), length(size), float(p), 0};
  Launch(kernel(kernels, p))
      .outputs(out)
      .inputs(points.a, points.b)
      .bytes(q)
      .threads(q.others, q.rows, uint64_t(points.a.size(0)))
      .work(1 + q.size * cost(p))
      .run();
  return out;
}

// `pairs` has the same meaning as in DistanceParams.
Tensor launch_backward(const Tensor& grad, const Tensor& a, const Tensor& b, double p, const Tensor& distances,
                       bool pairs) {
  static const KernelSet kernels[] = {KernelSet("distance_bwd_norm_0"), KernelSet("distance_bwd_norm_1"),
                                      KernelSet("distance_bwd_norm_2"), KernelSet("distance_bwd_norm_p"),
                                      KernelSet("distance_bwd_norm_inf")};
  const Tensor result = at::empty(a.sizes(), a.options());
  if (p == 0 || distances.numel() == 0) return result.zero_();
  if (result.numel() == 0) return result;
  const DistanceParams q{length(a.size(1)), length(b.size(1)), length(a.size(2)), float(p), pairs};
  const Tensor g = grad.contiguous(), d = distances.contiguous();
  Launch(kernel(kernels, p))
      .outputs(result)
      .inputs(g, a, b, d)
      .bytes(q)
      .threads(ceil_div(q.size, kDistanceTile), q.rows, uint64_t(a.size(0)))
      .work(uint64_t(kDistanceTile) * q.others * cost(p))
      .run();
  return result;
}

std::optional<Tensor> cdist_backward(const Tensor& grad, const Tensor& x, const Tensor& y, double p,
                                     const Tensor& distances) {
  if (!has_kernel(grad) || !has_kernel(x) || !has_kernel(y) || !has_kernel(distances)) return std::nullopt;
  TORCH_CHECK(x.dim() >= 2 && y.dim() >= 2 && x.size(-1) == y.size(-1),
              "_cdist_backward: expected points of the same number of columns, got ", x.sizes(), " and ", y.sizes());
  const Points points(x, y);
  const auto matrices = [&](const Tensor& t) {
    return t.expand(points.empty(x.size(-2), y.size(-2)).sizes()).reshape({-1, x.size(-2), y.size(-2)});
  };
  const bool none = x.size(-2) == 0 || y.size(-2) == 0 || x.size(-1) == 0 || points.a.numel() == 0;
  const Tensor result = points.empty(x.size(-2), x.size(-1));
  if (none) return result.zero_();
  return launch_backward(matrices(grad), points.a, points.b, p, matrices(distances), false).view(result.sizes());
}

std::optional<Tensor> pdist(const Tensor& self, double p) {
  static const KernelSet kernels[] = {KernelSet("pair_distance_norm_0"), KernelSet("pair_distance_norm_1"),
                                      KernelSet("pair_distance_norm_2"), KernelSet("pair_distance_norm_p"),
                                      KernelSet("pair_distance_norm_inf")};
  if (!has_kernel(self)) return std::nullopt;
  TORCH_CHECK(self.dim() == 2 && p >= 0, "_pdist_forward: expected a matrix and p >= 0, got ", self.sizes(), " and ",
              p);
  const int64_t n = self.size(0);
  const Tensor out = at::empty({n <= 1 ? 0 : n * (n - 1) / 2}, self.options());
  if (out.numel() == 0) return out;
  const Tensor x = self.contiguous();
  const DistanceParams q{length(n), length(n), length(x.size(1)), float(p), 1};
  Launch(kernel(kernels, p))
      .outputs(out)
      .inputs(x)
      .bytes(q)
      .threads(q.others, q.rows)
      .work(1 + q.size * cost(p) / 2)
      .run();
  return out;
}
std::optional<Tensor> pdist_backward(const Tensor& grad, const Tensor& self, double p, const Tensor& distances) {
  if (!has_kernel(grad) || !has_kernel(self) || !has_kernel(distances)) return std::nullopt;
  const int64_t n = self.size(0);
  if (self.numel() == 0 || distances.numel() == 0) return at::zeros(self.sizes(), self.options());
  TORCH_CHECK(distances.numel() == n * (n - 1) / 2 && grad.numel() == distances.numel(),
              "_pdist_backward: expected a distance and a gradient of each pair of ", n, " points, got ",
              distances.sizes(), " and ", grad.sizes());
  const Tensor points = self.contiguous().unsqueeze(0);
  return launch_backward(grad, points, points, p, distances, true).squeeze(0);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_cdist_forward", &cdist>(m);
  op<"_cdist_backward", &cdist_backward>(m);
  op<"_pdist_forward", &pdist>(m);
  op<"_pdist_backward", &pdist_backward>(m);
}

}  // namespace mpsx::ops
