// segment_reduce, forward and backward. The backward pass finds the segment of each element in the offsets.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "index/params.h"
#include "ops/indexing.h"
#include "ops/narrow.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using at::native::ReductionType;
using OptionalScalar = std::optional<Scalar>;
using OptionalTensor = std::optional<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_index(const OptionalTensor& t) {
  return !t || !t->defined() || (is_plain(*t) && (t->scalar_type() == at::kLong || t->scalar_type() == at::kInt));
}

const char* scatter_name(ReductionType type) {
  switch (type) {
    case ReductionType::MAX: return "amax";
    case ReductionType::MIN: return "amin";
    case ReductionType::PROD: return "prod";
    default: return "sum";
  }
}
double identity(ReductionType type) {
  switch (type) {
    case ReductionType::MAX: return -kInfinity;
    case ReductionType::MIN: return kInfinity;
    default: return type == ReductionType::PROD ? 1 : 0;
  }
}

// The bounds of the segments. `data` is viewed as (outer, segmented dimension, inner).
struct Offsets {
  int64_t axis, outer = 1, size, inner = 1, count = 0;
  Tensor offsets;  // (outer, count + 1)

  Offsets(const Tensor& data, const OptionalTensor& lengths_, const OptionalTensor& offsets_, int64_t axis_)
      : axis(at::maybe_wrap_dim(axis_, data.dim())), size(data.size(axis)) {
    const bool by_lengths = lengths_ && lengths_->defined();
    TORCH_CHECK(by_lengths || (offsets_ && offsets_->defined()),
                "segment_reduce(): Either lengths or offsets must be defined.");
    const Tensor given = (by_lengths ? *lengths_ : *offsets_).to(at::kLong);
    TORCH_CHECK(axis == given.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ",
                by_lengths ? "lengths" : "offsets", " but got ", axis, ".");
    for (int64_t d = 0; d < data.dim(); ++d)
      if (d != axis) (d < axis ? outer : inner) *= data.size(d);
    const Tensor rows = given.reshape({outer, given.size(-1)});
    count = rows.size(1) - (by_lengths ? 0 : 1);
    offsets = by_lengths ? at::zeros({outer, count + 1}, rows.options()) : rows.contiguous();
    if (by_lengths && rows.numel() > 0) {
      Tensor ends = narrowed(offsets, 1, 1, count);
      at::cumsum_out(ends, rows, 1);
    }
  }
  // Returns the lengths of the segments, with shape (outer, count, 1).
  Tensor lengths() const { return offsets.slice(1, 1).sub(offsets.slice(1, 0, -1)).unsqueeze(2); }
};

// Assigns each element to its segment. Elements outside all segments are assigned to an additional last segment.
struct Segments : Offsets {
  Tensor segment;  // (outer, size, inner)

  Segments(const Tensor& data, const OptionalTensor& lengths_, const OptionalTensor& offsets_, int64_t axis_)
      : Offsets(data, lengths_, offsets_, axis_) {
    const Tensor all = at::arange(size, offsets.options()).expand({outer, size}).contiguous();
    Tensor of = at::searchsorted(offsets, all, false, true).sub_(1);
    of = at::where(of.lt(0), count, of);
    segment = of.unsqueeze(2).expand({outer, size, inner});
  }
  Tensor elements(const Tensor& data) const { return data.reshape({outer, size, inner}); }
  Tensor reduce(const Tensor& elements, ReductionType type, double start) const {
    const Tensor result = at::full({outer, count + 1, inner}, start, elements.options());
    result.scatter_reduce_(1, segment, elements, scatter_name(type), true);
    return result;
  }
  // Broadcasts one number per segment to the elements of that segment, and 0 to elements outside all segments.
  Tensor broadcast_to_elements(const Tensor& numbers) const {
    const Tensor with_extra = at::cat({numbers, at::zeros({outer, 1, numbers.size(2)}, numbers.options())}, 1);
    return with_extra.expand({outer, count + 1, inner}).gather(1, segment);
  }
};

const KernelSet& kernels(ReductionType type) {
  static const KernelSet sum("segment_reduce_sum"), prod("segment_reduce_prod"), max("segment_reduce_max"),
      min("segment_reduce_min");
  switch (type) {
    case ReductionType::MAX: return max;
    case ReductionType::MIN: return min;
    default: return type == ReductionType::PROD ? prod : sum;
  }
}

std::optional<Tensor> segment_reduce(const Tensor& data, std::string_view reduce, const OptionalTensor& lengths,
                                     const OptionalTensor& indices, const OptionalTensor& offsets, int64_t axis,
                                     bool unsafe, const OptionalScalar& initial) {
  if (!has_float_kernel(data) || !is_index(lengths) || !is_index(offsets) || (indices && indices->defined()))
    return std::nullopt;
  const auto type = at::native::get_reduction_enum(reduce);
  const double start = initial ? initial->toDouble() : identity(type);
  const Offsets s(data, lengths, offsets, axis);
  if (!unsafe && lengths && lengths->defined() && lengths->numel() > 0) {
    TORCH_CHECK(lengths->min().item<int64_t>() >= 0, "lengths contains negative value!");
    TORCH_CHECK(lengths->sum(-1).eq(s.size).all().item<bool>(),
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                "!unsafe.");
  }
  c10::DimVector sizes(data.sizes());
  sizes[size_t(s.axis)] = s.count;
  const Tensor out = at::empty(sizes, data.options()), in = data.contiguous();
  if (out.numel() == 0) return out;
  SegmentReduceParams p{};
  p.size = s.size;
  p.count = grid_size("segment_reduce", s.count);
  p.inner = grid_size("segment_reduce", s.inner);
  p.start = float(start);
  p.empty = initial ? p.start : std::numeric_limits<float>::quiet_NaN();
  p.mean = type == ReductionType::MEAN;
  const bool narrow = p.inner == 1;
  Launch(kernels(type).get(tag_of(data)))
      .outputs(out)
      .inputs(in, s.offsets)
      .bytes(p)
      .threads(narrow ? p.count : ceil_div(p.inner, kSegmentColumns), narrow ? 1 : p.count,
               grid_size("segment_reduce", s.outer))
      .work(uint64_t(std::min<uint32_t>(kSegmentColumns, p.inner)) * uint64_t(std::max<int64_t>(1, s.size / s.count)))
      .run();
  return out;
}

// Returns, for each element, the product of all other elements in its segment.
Tensor product_of_others(const Segments& s, const Tensor& x, const Tensor& product, double start) {
  const Tensor zero = x.eq(0), nan = x.isnan();
  const Tensor rest = s.reduce(at::where(zero.logical_or(nan), 1.0, x), ReductionType::PROD, start);
  const auto others = [&](const Tensor& which) {
    const Tensor each = which.to(at::kFloat);
    return s.reduce(each, ReductionType::SUM, 0).gather(1, s.segment).sub_(each).gt(0);
  };
  const Tensor alone = at::where(others(nan), std::numeric_limits<double>::quiet_NaN(),
                                 at::where(others(zero), 0.0, rest.gather(1, s.segment)));
  return at::where(zero.logical_or(nan), alone, product.div(x));
}

std::optional<Tensor> segment_reduce_backward(const Tensor& grad, const Tensor& output, const Tensor& data,
                                              std::string_view reduce, const OptionalTensor& lengths,
                                              const OptionalTensor& offsets, int64_t axis,
                                              const OptionalScalar& initial) {
  if (!has_float_kernel(grad) || !has_float_kernel(output) || !has_float_kernel(data) || !is_index(lengths) ||
      !is_index(offsets))
    return std::nullopt;
  const auto type = at::native::get_reduction_enum(reduce);
  const Segments s(data, lengths, offsets, axis);
  const auto numbers = [&](const Tensor& t) {
    return s.broadcast_to_elements(t.reshape({s.outer, s.count, s.inner}).to(at::kFloat));
  };
  const Tensor g = numbers(grad), x = s.elements(data).to(at::kFloat);
  const Tensor inside = s.segment.lt(s.count);
  Tensor result = g;
  if (type == ReductionType::MEAN) {
    result = g.div(s.broadcast_to_elements(s.lengths()).clamp_min_(1));
  } else if (type == ReductionType::MAX || type == ReductionType::MIN) {
    const Tensor found = x.eq(numbers(output)).logical_or_(x.isnan()).logical_and_(inside);
    const Tensor ties = s.reduce(found.to(at::kFloat), ReductionType::SUM, 0).gather(1, s.segment);
    // Like the CPU kernel, divide the gradient among tied elements only if it is positive.
    result = at::where(found, at::where(g.gt(0), g.div(ties), g), 0.0);
  } else if (type == ReductionType::PROD) {
    result = g.mul(product_of_others(s, x, numbers(output), initial ? initial->toDouble() : 1));
  }
  return at::where(inside, result, 0.0).to(data.scalar_type()).reshape(data.sizes()).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"segment_reduce", &segment_reduce>(m);
  op<"_segment_reduce_backward", &segment_reduce_backward>(m);
}

}  // namespace mpsx::ops
