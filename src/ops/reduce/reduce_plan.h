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
  Tensor input;          // the given tensor, or a copy of it if its strides fit no loop
  bool columns = false;  // the columns kernel, not the rows kernel
  uint64_t column_blocks = 1, kept = 1;

  uint64_t groups() const { return columns ? column_blocks * kept : params.outputs; }
  // Elements that one threadgroup reads, to distribute work to cores.
  uint64_t work() const;
};

enum class ReduceOrder { free, kept };  // kept: elements are numbered (argmax)

// The loops that reduce the dimensions in `mask` of a non-empty tensor to a contiguous result.
ReducePlan plan_reduction(const Tensor& x, DimMask mask, ReduceOrder order = ReduceOrder::free);

// Memory for the partial results of a plan (undefined without splits), followed by extra rows of [output].
Tensor reduce_parts(const ReducePlan& plan, size_t bytes_each, uint32_t extra_rows = 0);

// Launches the kernel that reads the input, and the one that merges splits.
void launch_reduction(runtime::KernelEntry& kernel, Launch& launch, ReducePlan& plan);
void launch_merge(Launch& launch, const ReducePlan& plan);

// Runs a reduction of metal/reduce/reduce.def from `x` into `out` (contiguous, of the result's shape).
void run_reduction(const ReduceKernels& kernels, const Tensor& out, const Tensor& x, DimMask mask, Tag in, Tag second,
                   float p = 0);

// Checks that an extremum has the input's type and that the reduced dimensions are not empty.
void check_extremum(const char* name, const Tensor& x, at::IntArrayRef dim, const Tensor& out);


}  // namespace mpsx::ops
