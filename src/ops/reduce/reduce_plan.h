// Plans and launches reductions: any set of dimensions of any strided tensor becomes the loops of reduce/params.h.
#pragma once

#include <bitset>
#include <string>

#include "ops/operator.h"
#include "reduce/params.h"

namespace mpsx::ops {

using DimMask = std::bitset<64>;

// The kernels of one reduction: <name>_rows_<tag>, <name>_columns_<tag>, <name>_merge_<tag>.
struct ReduceKernels {
  explicit ReduceKernels(const std::string& name)
      : rows(name + "_rows"), columns(name + "_columns"), merge(name + "_merge") {}
  KernelSet rows, columns, merge;
};

struct ReducePlan {
  ReduceParams params{};
  Tensor input;          // the tensor given, or a copy of it where its strides fit no loop
  bool columns = false;  // which kernel
  uint64_t column_blocks = 1, kept = 1;

  uint64_t groups() const { return columns ? column_blocks * kept : params.outputs; }
  // Elements one threadgroup reads, for splitting between cores.
  uint64_t work() const;
};

enum class ReduceOrder { free, kept };  // kept: elements are numbered, so that a line's order counts (argmax)

// Loops for reducing the dimensions in `mask`; the result lies contiguous. `x` has elements.
ReducePlan plan_reduction(const Tensor& x, DimMask mask, ReduceOrder order = ReduceOrder::free);

// Memory for the partial results of a plan (undefined without splits), and for more rows of [output] after them.
Tensor reduce_parts(const ReducePlan& plan, size_t bytes_each, uint32_t extra_rows = 0);

// Grids and threadgroups of the kernel that reads the input: of rows a team of threads for each output and split.
void launch_reduction(runtime::KernelEntry& kernel, Launch& launch, ReducePlan& plan);
void launch_merge(Launch& launch, const ReducePlan& plan);

// Runs a reduction of metal/reduce/reduce.def from `x` into `out` (contiguous, of the result's shape).
void run_reduction(const ReduceKernels& kernels, const Tensor& out, const Tensor& x, DimMask mask, Tag in, Tag second,
                   float p = 0);

// Extrema have the input's type, and none of nothing.
void check_extremum(const char* name, const Tensor& x, at::IntArrayRef dim, const Tensor& out);


}  // namespace mpsx::ops
