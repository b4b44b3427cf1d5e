// embedding_bag. Its backward pass runs the backward pass of embedding, with one gradient row per index.
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "index/bag_params.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "runtime/stream.h"

namespace mpsx::ops {
namespace {

using OptionalTensor = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

enum Mode : int64_t { kSum, kMean, kMax };

template <bool FORWARD_ONLY>
std::optional<Four> embedding_bag(const Tensor& weight, const Tensor& indices_, const Tensor& offsets_, bool,
                                  int64_t mode, bool, const OptionalTensor& per_sample_weights,
                                  bool include_last_offset, int64_t padding_idx) {
  static const KernelSet kernels("embedding_bag");
  const auto type = c10::promoteTypes(indices_.scalar_type(), offsets_.scalar_type());
  const bool is_index = type == at::kLong || type == at::kInt;
  if (!has_float_kernel(weight) || !is_plain(indices_) || !is_plain(offsets_) || !is_index) return std::nullopt;
  TORCH_CHECK(indices_.dim() == 1 && offsets_.dim() == 1,
              "embedding_bag: expected input and offsets of one dimension, got ", indices_.sizes(), " and ",
              offsets_.sizes());
  TORCH_CHECK(weight.dim() == 2, "embedding_bag: expected a weight of two dimensions, got ", weight.sizes());
  TORCH_CHECK(mode >= kSum && mode <= kMax, "embedding_bag: expected mode 0, 1 or 2, got ", mode);
  TORCH_CHECK(!include_last_offset || offsets_.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
  const Tensor indices = dense_index(indices_), offsets = dense_index(offsets_), table = weight.contiguous();
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0), width = table.size(1);
  const Tensor out = at::empty({bags, width}, table.options());
  const Tensor sizes = at::empty({bags}, indices.options());
  const Tensor maxima =
      at::empty(mode == kMax ? std::vector<int64_t>{bags, width} : std::vector<int64_t>{bags}, indices.options());
  if (mode != kMax) maxima.zero_();
  Tensor samples;
  if (per_sample_weights && per_sample_weights->defined()) {
    samples = per_sample_weights->contiguous();
    TORCH_CHECK(mode == kSum, "embedding_bag: per_sample_weights only supported with mode='sum'");
    TORCH_CHECK(samples.scalar_type() == table.scalar_type() && samples.sizes() == indices.sizes(),
                "embedding_bag: expected per_sample_weights of the weight's type and the input's shape, got ",
                samples.scalar_type(), " and ", samples.sizes());
  }
  if (offsets.size(0) > 0) {
    const auto* ends = offsets.const_data_ptr<int64_t>();
    int64_t first = 0, last = 0;
    runtime::read_number(&first, ends, sizeof first);
    runtime::read_number(&last, ends + offsets.size(0) - 1, sizeof last);
    TORCH_CHECK(first == 0,
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                "position 0. However, got ",
                first);
    TORCH_CHECK(last <= indices.size(0), "offsets[-1] can not be greater than input's length({", indices.size(0),
                "}) but got offsets[-1] of {", last, "}");
  }
  check_index("embedding_bag", indices, table.size(0), 0, false);
  TORCH_CHECK(indices.size(0) <= int64_t(UINT32_MAX) && width <= int64_t(UINT32_MAX) && bags < int64_t(UINT32_MAX) &&
                  table.size(0) <= INT32_MAX,
              "embedding_bag: expected sizes below 2^31");
  // For every index, the bag that contains it, which is the last bag that does not start after the index. The backward
  // pass needs this.
  Tensor bag_of = at::empty({0}, indices.options());
  if (!FORWARD_ONLY && bags == 0) bag_of = at::zeros(indices.sizes(), indices.options());
  if (!FORWARD_ONLY && bags > 0) {
    const Tensor positions = at::arange(indices.size(0), indices.options());
    bag_of = at::searchsorted(offsets.slice(0, 0, bags), positions, false, true).sub_(1);
  }
  if (bags > 0) {
    const BagParams p{table.size(0),
                      padding_idx,
                      uint32_t(width),
                      uint32_t(mode),
                      uint32_t(indices.size(0)),
                      uint32_t(bags),
                      samples.defined()};
    Launch(kernels.get(tag_of(table)))
        .outputs(out, sizes, maxima)
        .inputs(table, indices, offsets, samples)
        .bytes(p)
        .groups({p.bags, 1, 1}, runtime::threads_for_row(uint64_t(width) * 4))
        .work(uint64_t(width) * (1 + p.count / p.bags))
        .run();
  }
  return Four(out, bag_of.to(type), sizes.to(type), maxima.to(type));
}

std::optional<Tensor> dense_backward(const Tensor& grad, const Tensor& indices, const Tensor& bag_of,
                                     const Tensor& sizes, const Tensor& maxima, int64_t rows, bool scale_grad_by_freq,
                                     int64_t mode, const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  if (!has_float_kernel(grad) || !is_plain(indices)) return std::nullopt;
  if (grad.numel() == 0 || indices.numel() == 0) return at::zeros({rows, grad.size(1)}, grad.options());
  if (mode == kMax) {
    const Tensor of_bags = at::mul(grad, sizes.gt(0).unsqueeze(1));  // an empty bag has no maximum
    return at::zeros({rows, grad.size(1)}, grad.options()).scatter_add_(0, maxima.to(at::kLong), of_bags);
  }
  // Compute in float and convert only at the end, so that half types are rounded only once.
  Tensor rows_of = grad.to(at::kFloat);
  if (mode == kMean) rows_of = rows_of.div(sizes.clamp_min(1).unsqueeze(1));
  rows_of = rows_of.index_select(0, bag_of);
  if (per_sample_weights && per_sample_weights->defined()) rows_of.mul_(per_sample_weights->unsqueeze(1));
  const Tensor wide = dense_index(indices);
  return at::embedding_dense_backward(rows_of, wide, rows, padding_idx, scale_grad_by_freq).to(grad.scalar_type());
}

std::optional<Tensor> backward(const Tensor& grad, const Tensor& indices, const Tensor& offsets, const Tensor& bag_of,
                               const Tensor& sizes, const Tensor& maxima, int64_t rows, bool scale_grad_by_freq,
                               int64_t mode, bool sparse, const OptionalTensor& per_sample_weights,
                               int64_t padding_idx) {
  if (!has_float_kernel(grad) || !is_plain(indices)) return std::nullopt;
  if (sparse) {
    const Tensor wide = indices.to(c10::promoteTypes(indices.scalar_type(), offsets.scalar_type()));
    return at::_embedding_bag_sparse_backward(grad, wide, offsets, bag_of, sizes, rows, scale_grad_by_freq, mode,
                                              per_sample_weights, padding_idx);
  }
  return dense_backward(grad, indices, bag_of, sizes, maxima, rows, scale_grad_by_freq, mode, per_sample_weights,
                        padding_idx);
}

std::optional<Tensor> per_sample_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                                                  const Tensor&, const Tensor& bag_of, int64_t mode,
                                                  int64_t padding_idx) {
  if (!has_float_kernel(grad) || !has_float_kernel(weight) || grad.scalar_type() != weight.scalar_type() ||
      !is_plain(indices))
    return std::nullopt;
  TORCH_CHECK(mode == kSum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  if (indices.numel() == 0) return at::zeros(indices.sizes(), grad.options());
  const Tensor rows_of = weight.index_select(0, dense_index(indices)).to(at::kFloat);
  const Tensor products = rows_of.mul(grad.index_select(0, bag_of));
  return products.sum(1).masked_fill_(indices.eq(padding_idx), 0).to(grad.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_embedding_bag", &embedding_bag<false>>(m);
  op<"_embedding_bag_forward_only", &embedding_bag<true>>(m);
  op<"_embedding_bag_backward", &backward>(m);
  op<"_embedding_bag_dense_backward", &dense_backward>(m);
  op<"_embedding_bag_per_sample_weights_backward", &per_sample_weights_backward>(m);
}

}  // namespace mpsx::ops
