#include "ops/reduce/reduce_plan.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/row_params.h"
#include "ops/strided.h"
#include "runtime/lane_groups.h"
#include "runtime/tuning.h"

namespace mpsx::ops {
namespace {

// Bytes of a row that each thread reads, to amortize the fixed cost of a row.
constexpr uint64_t kReadBytes = 256;

// Uses the dimension with stride 1 for the inner loop. It may be reduced (rows) or kept (columns). Returns false if
// there are more dimensions or lines than the parameters support.
bool fill_params(ReducePlan& plan, const Strided<2>& kept, const Strided<1>& reduced) {
  ReduceParams& p = plan.params;
  size_t dense = 0;
  while (dense < kept.rank() && kept.strides[0][dense] != 1) ++dense;
  plan.columns = dense < kept.rank() && (reduced.rank() == 0 || reduced.inner(0) != 1);
  const size_t lines = reduced.rank() > 0 && !plan.columns ? 1 : 0;
  if (kept.rank() > (plan.columns ? 5 : 4) || reduced.rank() > lines + 3) return false;
  p.inner_size = uint64_t(plan.columns ? kept.sizes[dense] : reduced.size(0));
  p.inner_stride = plan.columns ? 1 : reduced.inner(0);
  p.inner_out = plan.columns ? kept.strides[1][dense] : 0;
  for (size_t d = 0, k = 0; d < 4; ++d, ++k) {
    if (plan.columns && k == dense) ++k;
    const bool used = k < kept.rank();
    p.kept_size[d] = uint32_t(kept.size(k));
    p.kept_stride[d] = used ? kept.strides[0][k] : 0;
    p.kept_out[d] = used ? kept.strides[1][k] : 0;
    plan.kept *= uint64_t(p.kept_size[d]);
  }
  p.lines = 1;
  for (size_t d = 0; d < 3; ++d) {
    p.line_size[d] = uint32_t(reduced.size(lines + d));
    p.line_stride[d] = lines + d < reduced.rank() ? reduced.strides[0][lines + d] : 0;
    p.lines *= p.line_size[d];
  }
  if (!plan.columns && p.lines > UINT32_MAX) return false;  // kernels count lines in 32 bits
  plan.column_blocks = ceil_div(p.inner_size, kReduceColumns);
  return true;
}

// Splits long reductions with few results, so that they occupy every CPU core or the whole GPU.
void split(ReducePlan& plan) {
  ReduceParams& p = plan.params;
  p.split_lines = p.lines, p.split_inner = p.inner_size, p.splits = 1;
  const auto enough = uint64_t(runtime::tuning().reduce_groups),
             least = uint64_t(runtime::tuning().reduce_split_elements);
  const uint64_t groups = plan.groups();
  if (groups >= enough) return;
  const uint64_t elements = p.lines * (plan.columns ? std::min<uint64_t>(p.inner_size, kReduceColumns) : p.inner_size);
  const uint64_t wanted = std::min(ceil_div(enough, groups), elements / least);
  if (wanted <= 1) return;
  if (plan.columns || p.lines >= wanted) {
    p.split_lines = ceil_div(p.lines, wanted);
    p.splits = uint32_t(ceil_div(p.lines, p.split_lines));
  } else {
    p.split_lines = 1;
    p.split_inner = ceil_div(p.inner_size, ceil_div(wanted, p.lines));
    p.splits = uint32_t(p.lines * ceil_div(p.inner_size, p.split_inner));
  }
}

// Determines the alignment of the 16-byte vectors that kernels load.
void find_alignment(ReducePlan& plan) {
  ReduceParams& p = plan.params;
  const uint64_t bytes = plan.input.element_size(), vec_size = std::max<uint64_t>(1, 16 / bytes);
  p.offset = uint32_t(reinterpret_cast<uintptr_t>(plan.input.const_data_ptr()) / bytes % vec_size);
  int64_t all = int64_t(p.offset | p.inner_size);
  for (int64_t stride : p.kept_stride) all |= stride;
  for (int64_t stride : p.line_stride) all |= stride;
  p.aligned = plan.columns && all % int64_t(vec_size) == 0;
}

}  // namespace

uint64_t ReducePlan::work() const {
  return params.split_lines * (columns ? std::min<uint64_t>(params.inner_size, kReduceColumns) : params.split_inner);
}

ReducePlan plan_reduction(const Tensor& x, DimMask mask, ReduceOrder order) {
  ReducePlan plan;
  plan.input = x;
  Strided<2> kept;  // strides of the input and of the result
  at::DimVector sizes, strides;
  int64_t out = 1, count = 1;
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    if (mask[size_t(d)]) {
      sizes.insert(sizes.begin(), x.size(d));
      strides.insert(strides.begin(), x.stride(d));
      count *= x.size(d);
    } else {
      kept.push(x.size(d), {x.stride(d), out});
      out *= x.size(d);
    }
  }
  const auto reduced =
      order == ReduceOrder::free ? Strided<1>::ordered(sizes, {strides}) : Strided<1>(sizes, {strides});
  const bool numbered = order == ReduceOrder::kept && reduced.rank() > 1;
  if (numbered || !fill_params(plan, kept, reduced)) {
    at::DimVector dims;
    for (bool last : {false, true})
      for (int64_t d = 0; d < x.dim(); ++d)
        if (mask[size_t(d)] == last) dims.push_back(d);
    plan = ReducePlan{};
    plan.input = x.permute(dims).contiguous();
    Strided<2> rows;
    Strided<1> row;
    rows.push(out, {count, 1});
    row.push(count, {1});
    fill_params(plan, rows, row);
  }
  plan.params.outputs = uint64_t(out);
  plan.params.count = float(count);
  split(plan);
  find_alignment(plan);
  return plan;
}

Tensor reduce_parts(const ReducePlan& plan, size_t bytes_each, uint32_t extra_rows) {
  if (plan.params.splits == 1) return Tensor();
  const uint64_t bytes = (plan.params.splits + extra_rows) * plan.params.outputs * bytes_each;
  return at::empty({int64_t(ceil_div(bytes, 8))}, plan.input.options().dtype(at::kLong));
}

void run_plan(const ReduceKernels& kernels, ReducePlan& plan, std::initializer_list<Tensor> out, const Tensor& parts,
              Tag in, Tag second) {
  ReduceParams& p = plan.params;
  TORCH_CHECK(plan.groups() <= UINT32_MAX, "reduction: ", plan.groups(), " results pass the limit of 2^32-1");
  auto& kernel = (plan.columns ? kernels.columns : kernels.rows).get(in, second);
  Launch launch(kernel);
  for (const Tensor& t : out) launch.outputs(t);
  launch.outputs(parts).inputs(plan.input).bytes(p);
  if (plan.columns) {
    launch.groups({uint32_t(plan.column_blocks), p.splits, uint32_t(plan.kept)}, kReduceColumns).work(plan.work());
  } else {
    const uint64_t bytes = plan.input.element_size(), vec_size = std::max<uint64_t>(1, 16 / bytes);
    const auto lane_groups =
        runtime::lane_groups_for(kernel, p.outputs * p.splits, p.split_inner, vec_size, kReadBytes / bytes);
    p.row_threads = lane_groups.lanes;
    const auto groups = uint32_t(ceil_div(p.outputs, lane_groups.rows_per_threadgroup));
    launch.groups({groups, p.splits}, lane_groups.threadgroup_size);
    launch.work(plan.work() * lane_groups.rows_per_threadgroup);
  }
  launch.run();
  if (!parts.defined()) return;
  Launch merge(kernels.merge.get(in, second));
  for (const Tensor& t : out) merge.outputs(t);
  merge.outputs(parts)
      .bytes(p)
      .groups({uint32_t(ceil_div(p.outputs, kMergeColumns))}, kReduceColumns)
      .work(p.splits * std::min<uint64_t>(p.outputs, kMergeColumns))
      .run();
}

void run_reduction(const ReduceKernels& kernels, const Tensor& out, const Tensor& x, DimMask mask, Tag in, Tag second,
                   float exponent) {
  ReducePlan plan = plan_reduction(x, mask);
  plan.params.p = exponent;
  run_plan(kernels, plan, {out}, reduce_parts(plan, sizeof(int64_t)), in, second);
}

void check_extremum(const char* name, const Tensor& x, at::IntArrayRef dim, const Tensor& out) {
  if (x.numel() == 0) at::native::zero_numel_check_dims(x, dim, name);
  TORCH_CHECK(!out.defined() || out.scalar_type() == x.scalar_type(),
              "Expected the dtype for input and out to match, but got ", x.scalar_type(), " for input's dtype and ",
              out.scalar_type(), " for out's dtype.");
}

}  // namespace mpsx::ops
