#include "ops/reduce/reduce_plan.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

namespace mpsx::ops {
namespace {

// Groups that keep a GPU busy; elements worth a group of their own. Both are constants: a partition that depended on
// the number of cores would make results depend on it.
constexpr uint64_t kWantedGroups = 256, kSplitElements = 16384;
constexpr int64_t kMaxLoop = int64_t(1) << 31;

struct Loop {
  int64_t size, stride, out;
};
using Loops = c10::SmallVector<Loop, 8>;

// Loops whose elements follow each other become one. Innermost first.
void coalesce(Loops& loops) {
  Loops merged;
  for (const Loop& loop : loops) {
    if (!merged.empty()) {
      Loop& inner = merged.back();
      if (loop.stride == inner.stride * inner.size && inner.size * loop.size < kMaxLoop) {
        inner.size *= loop.size;
        continue;
      }
    }
    merged.push_back(loop);
  }
  loops = std::move(merged);
}

bool fill_params(ReducePlan& plan, Loops kept, Loops reduced) {
  ReduceParams& p = plan.params;
  const auto dense = std::find_if(kept.begin(), kept.end(), [](const Loop& l) { return l.stride == 1; });
  plan.columns = dense != kept.end() && (reduced.empty() || reduced.front().stride != 1);
  Loop inner{1, 1, 0};
  if (plan.columns) {
    inner = *dense;
    kept.erase(dense);
  } else if (!reduced.empty()) {
    inner = reduced.front();
    reduced.erase(reduced.begin());
  }
  if (kept.size() > 4 || reduced.size() > 3) return false;
  for (size_t d = 0; d < 4; ++d) {
    const Loop l = d < kept.size() ? kept[d] : Loop{1, 0, 0};
    p.kept_size[d] = uint32_t(l.size), p.kept_stride[d] = l.stride, p.kept_out[d] = l.out;
    plan.kept *= uint64_t(l.size);
  }
  p.lines = 1;
  for (size_t d = 0; d < 3; ++d) {
    const Loop l = d < reduced.size() ? reduced[d] : Loop{1, 0, 0};
    p.line_size[d] = uint32_t(l.size), p.line_stride[d] = l.stride;
    p.lines *= uint64_t(l.size);
  }
  p.inner_size = uint64_t(inner.size), p.inner_stride = inner.stride, p.inner_out = inner.out;
  plan.column_blocks = (p.inner_size + kReduceColumns - 1) / kReduceColumns;
  return true;
}

// Long reductions with few results are split, so that every core and every part of a GPU has work.
void split(ReducePlan& plan) {
  ReduceParams& p = plan.params;
  p.split_lines = p.lines, p.split_inner = p.inner_size, p.splits = 1;
  const uint64_t groups = plan.groups();
  if (groups >= kWantedGroups) return;
  const uint64_t elements = p.lines * (plan.columns ? std::min<uint64_t>(p.inner_size, kReduceColumns) : p.inner_size);
  const uint64_t wanted = std::min(ceil_div(kWantedGroups, groups), elements / kSplitElements);
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

}  // namespace

uint64_t ReducePlan::work() const {
  return params.split_lines * (columns ? std::min<uint64_t>(params.inner_size, kReduceColumns) : params.split_inner);
}

ReducePlan plan_reduction(const Tensor& x, DimMask mask, ReduceOrder order) {
  ReducePlan plan;
  plan.input = x;
  Loops kept, reduced;
  int64_t out = 1, count = 1;
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    const int64_t size = x.size(d);
    if (size == 1) continue;
    (mask[size_t(d)] ? reduced : kept).push_back({size, x.stride(d), out});
    (mask[size_t(d)] ? count : out) *= size;
  }
  if (order == ReduceOrder::free)  // broadcast dimensions last: nothing is gained by reading an element many times
    std::stable_sort(reduced.begin(), reduced.end(), [](const Loop& a, const Loop& b) {
      return (a.stride ? a.stride : INT64_MAX) < (b.stride ? b.stride : INT64_MAX);
    });
  coalesce(kept);
  coalesce(reduced);
  const bool numbered = order == ReduceOrder::kept && reduced.size() > 1;
  if (numbered || !fill_params(plan, kept, reduced)) {
    c10::SmallVector<int64_t, 8> dims;
    for (bool last : {false, true})
      for (int64_t d = 0; d < x.dim(); ++d)
        if (mask[size_t(d)] == last) dims.push_back(d);
    plan = ReducePlan{};
    plan.input = x.permute(dims).contiguous();
    fill_params(plan, out > 1 ? Loops{{out, count, 1}} : Loops{}, count > 1 ? Loops{{count, 1, 0}} : Loops{});
  }
  plan.params.outputs = uint64_t(out);
  plan.params.count = float(count);
  split(plan);
  ReduceParams& p = plan.params;
  p.short_rows = !plan.columns && p.lines == 1 && p.splits == 1 && p.inner_stride == 1 &&
                 p.inner_size <= kReduceBlock && p.kept_size[0] == p.outputs && p.kept_out[0] == 1;
  return plan;
}

Tensor reduce_parts(const ReducePlan& plan, size_t bytes_each, uint32_t extra_rows) {
  if (plan.params.splits == 1) return Tensor();
  const uint64_t bytes = (plan.params.splits + extra_rows) * plan.params.outputs * bytes_each;
  return at::empty({int64_t(ceil_div(bytes, 8))}, plan.input.options().dtype(at::kLong));
}

void launch_plan(Launch& launch, const ReducePlan& plan) {
  const ReduceParams& p = plan.params;
  TORCH_CHECK(plan.groups() <= UINT32_MAX, "reduction: ", plan.groups(), " results pass the limit of 2^32-1");
  if (plan.columns)
    launch.groups({uint32_t(plan.column_blocks), p.splits, uint32_t(plan.kept)}, kReduceColumns);
  else
    launch.groups({uint32_t(p.outputs), p.splits}, runtime::threads_for_row(p.split_inner));
  launch.work(plan.work()).run();
}

void launch_merge(Launch& launch, const ReducePlan& plan) {
  const uint64_t blocks = ceil_div(plan.params.outputs, kReduceColumns);
  launch.groups({uint32_t(blocks)}, kReduceColumns)
      .work(plan.params.splits * std::min<uint64_t>(plan.params.outputs, kReduceColumns))
      .run();
}

void run_reduction(const ReduceKernels& kernels, const Tensor& out, const Tensor& x, DimMask mask, Tag in, Tag second,
                   float exponent) {
  ReducePlan plan = plan_reduction(x, mask);
  plan.params.p = exponent;
  const Tensor parts = reduce_parts(plan, sizeof(int64_t));
  const void* parts_data = data_or_null(parts);
  Launch launch((plan.columns ? kernels.columns : kernels.rows).get(in, second));
  launch.pointer(out.mutable_data_ptr()).pointer(parts_data).pointer(plan.input.const_data_ptr()).bytes(plan.params);
  launch_plan(launch, plan);
  if (!parts.defined()) return;
  Launch merge(kernels.merge.get(in, second));
  merge.pointer(out.mutable_data_ptr()).pointer(parts_data).bytes(plan.params);
  launch_merge(merge, plan);
}

void check_extremum(const char* name, const Tensor& x, at::IntArrayRef dim, const Tensor& out) {
  if (x.numel() == 0) at::native::zero_numel_check_dims(x, dim, name);
  TORCH_CHECK(!out.defined() || out.scalar_type() == x.scalar_type(),
              "Expected the dtype for input and out to match, but got ", x.scalar_type(), " for input's dtype and ",
              out.scalar_type(), " for out's dtype.");
}

Tensor reduce_target(const Tensor& out, c10::IntArrayRef shape, const Tensor& x, at::ScalarType type) {
  if (!out.defined()) return at::empty(shape, x.options().dtype(type));
  at::native::resize_output(out, shape);
  const bool direct = out.scalar_type() == type && out.is_contiguous() && is_plain(out) && !out.is_alias_of(x);
  return direct ? out : at::empty(shape, x.options().dtype(type));
}

void reduce_deliver(const Tensor& result, const Tensor& out) {
  if (out.defined() && !result.is_same(out)) out.copy_(result);
}

}  // namespace mpsx::ops
