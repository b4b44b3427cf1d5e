// scatter, scatter_add, scatter_reduce.
#include "ops/index/scatter.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "ops/elementwise/elementwise.h"
#include "ops/index/index_add.h"
#include "ops/index/segment.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/strided.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kLongRow = 1024;  // for shorter rows, sorting the index does not pay off
constexpr uint32_t kLanes = 32;     // SIMD width; for shorter rows, lanes would be idle

const KernelSet& kernels(Scatter op, bool value) {
  static const KernelSet set("scatter_set"), fill("scatter_fill"), add("scatter_add"), prod("scatter_prod"),
      amax("scatter_amax"), amin("scatter_amin");
  switch (op) {
    case Scatter::set: return value ? fill : set;
    case Scatter::add: return add;
    case Scatter::prod: return prod;
    case Scatter::amax: return amax;
    default: return amin;
  }
}

// Returns whether to compute a long scatter_add to a single dense row as a segment sum.
bool supports_segments(Scatter op, const ScatterOperands& o) {
  return op == Scatter::add && o.self.dim() == 1 && o.index.numel() > kLongRow && o.self.is_contiguous() &&
         o.source.is_contiguous() && o.index.is_contiguous() && o.source.numel() == o.index.numel() &&
         fits_segments(o.index.numel(), o.self.numel()) && should_sort_index(1);
}

// Plans the loops over rows, which extend along `dim`, and over the elements of each row.
Strided<3> plan(ScatterParams& p, const ScatterOperands& o, int64_t dim) {
  at::DimVector sizes, strides[3];
  const Tensor* operands[3] = {&o.self, &o.index, &o.source};
  for (int64_t d = 0; d < o.index.dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(o.index.size(d));
    for (int k = 0; k < 3; ++k) strides[k].push_back(k == 2 && o.value ? 0 : operands[k]->stride(d));
  }
  p.count = o.index.dim() ? grid_size("scatter", o.index.size(dim)) : 1;
  p.dim_size = o.self.dim() ? o.self.size(dim) : 1;
  for (int k = 0; k < 3; ++k) p.step[k] = (k == 2 && o.value) || operands[k]->dim() == 0 ? 0 : operands[k]->stride(dim);
  return {sizes, {strides[0], strides[1], strides[2]}};
}

// Returns whether SIMD groups should sum long contiguous rows in threadgroup memory.
bool supports_rows(Scatter op, const ScatterOperands& o, const ScatterParams& p) {
  constexpr int64_t kMaxSelfPerSource = 8;  // maximum ratio of the sizes, because the kernel copies all of self
  return op == Scatter::add && is_float_tag(tag_of(o.self)) && p.step[0] == 1 && p.step[1] == 1 && p.count >= kLanes &&
         p.dim_size <= std::min<int64_t>(kScatterSums, kMaxSelfPerSource * p.count);
}

// Launches threadgroups that each process p.rows_per_group rows.
void launch_rows(runtime::KernelEntry& kernel, const ScatterOperands& o, ScatterParams p, const Strided<3>& loops,
                 uint32_t threads) {
  loops.each(p, 3, [&](const auto& offsets) {
    Launch(kernel)
        .pointer(at_element(o.self, offsets[0]))
        .pointer(at_const_element(o.index, offsets[1]))
        .pointer(at_const_element(o.source, offsets[2]))
        .bytes(p)
        .groups({uint32_t(ceil_div(p.size[0], p.rows_per_group)), p.size[1], p.size[2]}, threads)
        .work(uint64_t(p.count) * std::min(p.rows_per_group, p.size[0]))
        .run();
  });
}

}  // namespace

bool scatter_along(Scatter op, const ScatterOperands& o, int64_t dim, bool negative) {
  if (o.index.numel() == 0 || o.self.numel() == 0) return true;
  if (op == Scatter::add && o.self.is_complex()) {  // view as real numbers, with a last dimension of 2
    const auto halves = [](const Tensor& t) { return at::view_as_real(t.dim() == 0 ? t.unsqueeze(0) : t); };
    const Tensor index = o.index.dim() == 0 ? o.index.unsqueeze(0) : o.index;
    c10::DimVector both(index.sizes());
    both.push_back(2);
    return scatter_along(op, {halves(o.self), index.unsqueeze(-1).expand(both), halves(o.source)}, dim, negative);
  }
  if (supports_segments(op, o)) {
    SegmentParams p{};
    p.pitch = 1;
    p.padding = -1;
    p.add = true;
    launch_segment_sum(o.self, o.source, o.index, o.self.size(0), 1, 1, p);
    return true;
  }
  ScatterParams p{};
  const Strided<3> loops = plan(p, o, dim);
  p.negative = negative;
  if (supports_rows(op, o, p)) {
    static const KernelSet rows("scatter_add_rows");
    constexpr int64_t kMaxRows = 8;
    p.rows_per_group = uint32_t(std::clamp<int64_t>(kScatterSums / p.dim_size, 1, kMaxRows));
    launch_rows(rows.get(tag_of(o.self)), o, p, loops, p.rows_per_group * kLanes);
    return true;
  }
  const KernelSet& set = kernels(op, o.value);
  const bool half = o.self.scalar_type() == at::kHalf || o.self.scalar_type() == at::kBFloat16;
  const bool wide_sums = (op == Scatter::add || op == Scatter::prod) && half;
  if (wide_sums) {
    // An element may receive many values, so accumulate in float and round only once.
    ScatterOperands wide = o;
    wide.self = o.self.to(at::kFloat);
    wide.source = o.source.to(at::kFloat);
    if (!scatter_along(op, wide, dim, negative)) return false;
    o.self.copy_(wide.self);
    return true;
  }
  // For bool tensors, compute the product, maximum or minimum of bytes that are 0 or 1.
  const bool bytes = o.self.scalar_type() == at::kBool && op != Scatter::add;
  const Tag tag = op == Scatter::set ? bits_tag(o.self) : (bytes ? Tag::u8 : tag_of(o.self));
  if (tag == Tag::none || !set.has(tag)) return false;
  p.rows_per_group = kScatterRows;
  launch_rows(set.get(tag), o, p, loops, kScatterRows);
  return true;
}

namespace {

// Copies self to the output, unless they are the same tensor, and then scatters.
template <typename Outputs>
bool run(const char* name, Outputs& outputs, Scatter op, const Tensor& self, int64_t dim, const Tensor& indices,
         const Tensor& source, bool value, Tensor& out) {
  check_same_device(name, self, indices, source);
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor &result = outputs.result(), index = dense_index(indices);
  check_index(name, index, self.dim() ? self.size(dim) : 1, dim, false);
  if (!result.is_same(self)) result.copy_(self);
  scatter_along(op, {result, index, source, value}, dim, false);
  return outputs.return_or_copy(out);
}

bool supported(Scatter op, const Tensor& self) {
  if (!is_plain(self)) return false;
  if (op == Scatter::set) return bits_tag(self) != Tag::none;
  const Tag tag = tag_of(self);
  return tag != Tag::none && (tag != Tag::c64 || op == Scatter::add);
}

Tensor value_tensor(const Tensor& self, const at::Scalar& value) { return at::full({}, value, self.options()); }
// Converts a scalar value to a tensor. Throws if the dtype cannot represent the value.
Tensor checked_value(const Tensor& self, const at::Scalar& value) {
  check_holds(self.scalar_type(), value);
  return value_tensor(self, value);
}

bool scatter_src(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Tensor& out) {
  if (!supported(Scatter::set, self) || !is_plain(src)) return false;
  Structured<at::meta::structured_scatter_src> outputs(out);
  outputs.meta(self, dim, index, src);
  return run("scatter", outputs, Scatter::set, self, dim, index, src, false, out);
}

bool scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value, Tensor& out) {
  if (!supported(Scatter::set, self)) return false;
  Structured<at::meta::structured_scatter_value> outputs(out);
  outputs.meta(self, dim, index, value);
  return run("scatter", outputs, Scatter::set, self, dim, index, checked_value(self, value), true, out);
}

Scatter op_of(at::native::ReductionType type) {
  switch (type) {
    case at::native::ReductionType::SUM: return Scatter::add;
    case at::native::ReductionType::PROD: return Scatter::prod;
    case at::native::ReductionType::MAX: return Scatter::amax;
    case at::native::ReductionType::MIN: return Scatter::amin;
    default: return Scatter::add;  // a mean is computed from a sum
  }
}

// Returns the operation for the `reduce` argument of scatter, which is "add" or "multiply".
Scatter op_of(std::string_view reduce) { return reduce == "multiply" ? Scatter::prod : Scatter::add; }

bool scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                    Tensor& out) {
  if (!supported(op_of(reduce), self) || !is_plain(src)) return false;
  Structured<at::meta::structured_scatter_reduce> outputs(out);
  outputs.meta(self, dim, index, src, reduce);
  return run("scatter", outputs, op_of(reduce), self, dim, index, src, false, out);
}

bool scatter_value_reduce(const Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value,
                          std::string_view reduce, Tensor& out) {
  if (!supported(op_of(reduce), self)) return false;
  Structured<at::meta::structured_scatter_value_reduce> outputs(out);
  outputs.meta(self, dim, index, value, reduce);
  const Tensor source = checked_value(self, value).expand(index.sizes());
  return run("scatter", outputs, op_of(reduce), self, dim, index, source, false, out);
}

bool scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Tensor& out) {
  if (!supported(Scatter::add, self) || !is_plain(src)) return false;
  Structured<at::meta::structured_scatter_add> outputs(out);
  outputs.meta(self, dim, index, src);
  return run("scatter_add", outputs, Scatter::add, self, dim, index, src, false, out);
}

// Returns the initial value of elements in a reduction that does not include `self`.
at::Scalar identity(Scatter op, at::ScalarType type) {
  if (op == Scatter::add) return 0;
  if (op == Scatter::prod) return 1;
  const bool low = op == Scatter::amax;
  constexpr double inf = std::numeric_limits<double>::infinity();
  switch (type) {
    case at::kLong: return low ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    case at::kInt: return low ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
    case at::kShort: return low ? std::numeric_limits<int16_t>::min() : std::numeric_limits<int16_t>::max();
    case at::kChar: return low ? std::numeric_limits<int8_t>::min() : std::numeric_limits<int8_t>::max();
    case at::kByte: return low ? 0 : 255;
    case at::kBool: return !low;
    default: return low ? -inf : inf;
  }
}

// Divides sums by counts. A count of 0 is treated as 1.
void finalize_means(const Tensor& sum, const Tensor& counts) {
  counts.clamp_min_(1);
  sum.copy_(at::isIntegralType(sum.scalar_type(), true) ? at::div(sum, counts, "floor") : at::div(sum, counts));
}

// Divides each element by the number of times that it was indexed.
void divide_by_counts(const Tensor& sum, int64_t dim, const Tensor& index, bool include_self) {
  const auto type = at::isIntegralType(sum.scalar_type(), true) ? at::kLong : at::kFloat;
  const Tensor counts = at::full(sum.sizes(), include_self ? 1 : 0, sum.options().dtype(type));
  counts.scatter_add_(dim, index, at::ones({}, counts.options()).expand(index.sizes()));
  finalize_means(sum, counts);
}

bool scatter_reduce_two(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                        std::string_view reduce, bool include_self, Tensor& out) {
  const auto type = at::native::get_operator_enum(reduce, true);
  const bool mean = type == at::native::ReductionType::MEAN;
  const Scatter op = op_of(type);
  if (!supported(op, self) || !is_plain(src)) return false;
  Structured<at::meta::structured_scatter_reduce_two> outputs(out);
  outputs.meta(self, dim, index, src, reduce, include_self);
  const Tensor result = outputs.result();
  if (include_self) {
    run("scatter_reduce", outputs, op, self, dim, index, src, false, out);
  } else {
    const Tensor start = value_tensor(self, identity(op, self.scalar_type()));
    run("scatter_reduce", outputs, Scatter::set, self, dim, index, start, true, out);
    run("scatter_reduce", outputs, op, result, dim, index, src, false, out);
  }
  if (!mean || index.numel() == 0) return true;
  divide_by_counts(result, dim, index, include_self);
  return outputs.return_or_copy(out);
}

// Reduces like scatter_reduce, but with the same index for all rows.
bool index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                  bool include_self, Tensor& out) {
  const Scatter op = op_of(at::native::get_operator_enum(reduce, true));
  if (!supported(op, self) || !is_plain(source) || !is_plain(index) || self.scalar_type() == at::kBool) return false;
  if (!out.defined()) out = at::empty({0}, self.options());  // the meta function needs a defined output
  Structured<at::meta::structured_index_reduce> outputs(out);
  outputs.meta(self, dim, index, source, reduce, include_self);
  const Tensor result = outputs.result();
  const at::ScalarType type = self.scalar_type();
  if (!result.is_same(self)) result.copy_(self);
  const Tensor from = source.dim() == 0 && self.dim() > 0 ? source.unsqueeze(0) : source;
  const int64_t d = at::maybe_wrap_dim(dim, self.dim()), size = self.dim() ? self.size(d) : 1;
  const Tensor where = dense_index(index), each = expand_index(where, from, d);
  check_index("index_reduce", where, size, d, false);
  if (!include_self)
    scatter_along(Scatter::set, {result, each, value_tensor(self, identity(op, type)), true}, d, false);
  scatter_along(op, {result, each, from}, d, false);
  if (reduce == "mean") {
    const Tensor counts = at::full({size}, include_self ? 1 : 0, where.options());
    scatter_along(Scatter::add, {counts, where.view(-1), at::ones({}, where.options()).expand({where.numel()})}, 0,
                  false);
    at::DimVector shape(size_t(self.dim()), 1);
    if (self.dim() > 0) shape[size_t(d)] = size;
    finalize_means(result, counts.view(shape));
  }
  return outputs.return_or_copy(out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"scatter.src", &scatter_src>(m);
  op<"scatter.value", &scatter_value>(m);
  op<"scatter.reduce", &scatter_reduce>(m);
  op<"scatter.value_reduce", &scatter_value_reduce>(m);
  op<"scatter_add", &scatter_add>(m);
  op<"scatter_reduce.two", &scatter_reduce_two>(m);
  op<"index_reduce", &index_reduce>(m);
}

}  // namespace mpsx::ops
