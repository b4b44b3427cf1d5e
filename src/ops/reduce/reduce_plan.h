// Plans and launches reductions. A reduction over any set of dimensions of a strided tensor is expressed as the loops
// that reduce/params.h describes.
#pragma once

#include <bitset>
#include <string>

#include "ops/operator.h"
#include "reduce/params.h"

namespace mpsx::ops {

using DimMask = std::bitset<64>;

// The kernels of one reduction: <name>_rows_<tag>, <name>_columns_<tag> and <name>_merge_<tag>.
struct ReduceKernels {
  explicit ReduceKernels(const std::string& name)
      : rows(name + "_rows"), columns(name + "_columns"), merge(name + "_merge") {}
  KernelSet rows, columns, merge;
};

struct ReducePlan {
  ReduceParams params{};
  Tensor input;          // the given tensor, or a copy if loops cannot express its strides
  bool columns = false;  // whether to use the columns kernel, not the rows kernel
  uint64_t column_blocks = 1, kept = 1;

  uint64_t groups() const { return columns ? column_blocks * kept : params.outputs; }
  // Returns how many elements one threadgroup reads. The driver uses this to split work between cores.
  uint64_t work() const;
};

enum class ReduceOrder { free, kept };  // kept: the elements are numbered in index order, as argmax requires

// Plans loops that reduce the dimensions in `mask` of a non-empty tensor. The result is contiguous.
ReducePlan plan_reduction(const Tensor& x, DimMask mask, ReduceOrder order = ReduceOrder::free);

// Allocates memory for the partial results of a plan, followed by `extra_rows` rows with one value for each output.
// Returns an undefined tensor if the plan has no splits.
Tensor reduce_parts(const ReducePlan& plan, size_t bytes_each, uint32_t extra_rows = 0);

// Launches the kernel that reads the input and, if there are splits, the kernel that merges them.
void run_plan(const ReduceKernels& kernels, ReducePlan& plan, std::initializer_list<Tensor> out, const Tensor& parts,
              Tag in, Tag second = Tag::none);

// Runs a reduction in metal/reduce/reduce.def on `x`. `out` must be contiguous and have the shape of the result.
void run_reduction(const ReduceKernels& kernels, const Tensor& out, const Tensor& x, DimMask mask, Tag in, Tag second,
                   float p = 0);

// Throws unless the output of an extremum has the type of the input and the reduced dimensions are not empty.
void check_extremum(const char* name, const Tensor& x, at::IntArrayRef dim, const Tensor& out);

}  // namespace mpsx::ops
