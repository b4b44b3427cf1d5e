// softmax and log_softmax of sparse tensors. Unspecified elements are treated as -inf.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/sparse/sparse.h"

namespace mpsx::ops::sparse {
namespace {

// A pool is a set of elements that differ only along one sparse dimension.
struct Pools {
  static constexpr int64_t kFewPools = 2;  // with more pools per element, empty ones are removed
  Tensor of;
  int64_t count;
  Pools(const Tensor& sparse, int64_t dim) {
    at::DimVector others;
    for (int64_t d = 0; d < sparse.sparse_dim(); ++d)
      if (d != dim) others.push_back(d);
    of = flat_index(sparse._indices(), sparse.sizes(), others);
    count = index_range(sparse.sizes(), others);
    if (count <= kFewPools * sparse._nnz()) return;
    const Grouped groups(of, count);
    of = at::empty_like(groups.of).scatter_(0, groups.order, groups.of);
    count = groups.count;
  }
  Tensor none(const Tensor& values) const {
    at::DimVector sizes(values.sizes());
    sizes[0] = count;
    return at::zeros(sizes, values.options());
  }
  Tensor sums(const Tensor& values) const { return none(values).index_add_(0, of, values); }
  Tensor maxima(const Tensor& values) const {
    at::DimVector shape(size_t(values.dim()), 1);
    shape[0] = of.numel();
    return none(values).scatter_reduce_(0, of.view(shape).expand(values.sizes()), values, "amax", false);
  }
  Tensor spread(const Tensor& of_pools) const { return of_pools.index_select(0, of); }
};

// Checks the arguments and returns the dimension as a nonnegative index.
int64_t check(const char* op, const Tensor& t, int64_t dim, bool half_to_float) {
  TORCH_CHECK(!half_to_float, op, ": half to float conversion is not supported on mpsx");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(t.scalar_type()), op, ": expected a floating-point input, got ",
                              t.scalar_type());
  return at::maybe_wrap_dim(dim, t.dim());
}

template <bool logarithm>
Tensor softmax(const Tensor& self, int64_t dim_, bool half_to_float) {
  constexpr const char *op = logarithm ? "log_softmax" : "softmax",
                       *name = logarithm ? "aten::_sparse_log_softmax" : "aten::_sparse_softmax";
  const int64_t dim = check(op, self, dim_, half_to_float);
  if (tag_of(self) == Tag::none) return on_cpu<Tensor>(name, "", self, dim, half_to_float);
  const Tensor input = self.coalesce(), indices = input._indices().clone(), values = input._values();
  const auto result = [&](const Tensor& v) { return make_sparse(indices, v, input.sizes(), true); };
  if (values.numel() == 0) return result(at::empty_like(values));
  if (dim >= input.sparse_dim()) {
    const int64_t d = dim - input.sparse_dim() + 1;
    return result(logarithm ? at::_log_softmax(values, d, false) : at::_softmax(values, d, false));
  }
  const Pools pools(input, dim);
  const Tensor x = values.to(at::kFloat), top = pools.maxima(x);
  const Tensor powers = at::sub(x, pools.spread(top)).exp_(), sums = pools.sums(powers);
  const Tensor out = logarithm ? at::sub(x, pools.spread(sums.log().add_(top))) : powers.div_(pools.spread(sums));
  return result(out.to(values.scalar_type()));
}

template <bool logarithm>
Tensor backward(const Tensor& grad_, const Tensor& output_, int64_t dim_, const Tensor& input) {
  constexpr const char *op = logarithm ? "log_softmax_backward" : "softmax_backward",
                       *name = logarithm ? "aten::_sparse_log_softmax_backward_data"
                                         : "aten::_sparse_softmax_backward_data";
  check_same_device(op, {&grad_, &output_});
  const int64_t dim = check(op, output_, dim_, false);
  TORCH_CHECK(grad_.is_sparse() && output_.is_sparse(), op, ": expected sparse tensors, got layouts ", grad_.layout(),
              " and ", output_.layout());
  TORCH_CHECK(grad_.sizes() == output_.sizes() && grad_.sparse_dim() == output_.sparse_dim(), op,
              ": grad and output sizes must be equal, got ", grad_.sizes(), " and ", output_.sizes());
  if (tag_of(output_) == Tag::none) return on_cpu<Tensor>(name, "", grad_, output_, dim, input);
  const Tensor grad = grad_.coalesce(), output = output_.coalesce();
  const Tensor indices = output._indices().clone(), values = output._values();
  const auto result = [&](const Tensor& v) { return make_sparse(indices, v, output.sizes(), true); };
  if (values.numel() == 0) return result(at::empty_like(values));
  const Lookup lookup(flat_index(grad._indices(), grad.sizes()), flat_index(indices, output.sizes()));
  const Tensor there = lookup.rows(grad._values());
  if (dim >= output.sparse_dim()) {
    const int64_t d = dim - output.sparse_dim() + 1;
    return result(logarithm ? at::_log_softmax_backward_data(there, values, d, values.scalar_type())
                            : at::_softmax_backward_data(there, values, d, values.scalar_type()));
  }
  const Pools pools(output, dim);
  const Tensor y = values.to(at::kFloat), g = there.to(at::kFloat);
  const Tensor out = logarithm ? at::sub(g, at::exp(y).mul_(pools.spread(pools.sums(g))))
                               : at::sub(g, pools.spread(pools.sums(at::mul(y, g)))).mul_(y);
  return result(out.to(values.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_sparse_softmax", &softmax<false>);
  m.impl("_sparse_log_softmax", &softmax<true>);
  m.impl("_sparse_softmax_backward_data", &backward<false>);
  m.impl("_sparse_log_softmax_backward_data", &backward<true>);
}

}  // namespace mpsx::ops::sparse
