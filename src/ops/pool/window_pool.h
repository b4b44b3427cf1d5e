// Max pooling with a table of windows (metal/pool/window_pool.metal), and scattering to the indices of maxima.
#pragma once

#include <vector>

#include "ops/launch_table.h"
#include "ops/pool/pool.h"
#include "pool/window_params.h"

namespace mpsx::ops {

// Windows over `dims` dimensions, in the format that kernels read.
struct Windows {
  WindowPoolParams p{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0};
  std::vector<int32_t> begins, ends;
  LaunchTable table;  // begins, followed by ends

  Windows(at::IntArrayRef in, at::IntArrayRef out, size_t dims) {
    int64_t plane = 1;
    for (size_t d = 0; d < dims; ++d) {
      p.in[3 - dims + d] = pool_size(in[in.size() - dims + d]);
      p.out[3 - dims + d] = pool_size(out[out.size() - dims + d]);
      plane *= p.in[3 - dims + d];
      TORCH_CHECK(plane <= INT32_MAX, "max_pool: expected planes of at most 2^31-1 elements, got ", in);
    }
    const size_t windows = size_t(p.out[0]) + size_t(p.out[1]) + size_t(p.out[2]);
    begins.reserve(2 * windows);  // the ends are appended later
    ends.reserve(windows);
    if (dims == 2) add(0, 1);
  }
  void add(int64_t begin, int64_t end) {
    begins.push_back(int32_t(begin));
    ends.push_back(int32_t(end));
  }
  void upload(const Tensor& like);
};

// Computes the maxima and their indices. `out` and `indices` may have any layout.
void window_max(const Tensor& in, const Windows& windows, const Tensor& out, const Tensor& indices);

// Flattens every plane of a tensor (its last `dims` dimensions) into a row.
Tensor planes_as_rows(const Tensor& t, size_t dims);
// Sums gradients at the indices of the maxima. Writes all of `grad_input`. `disjoint` means that no element is in two
// windows. `op` is the name of the operator in error messages about out-of-range indices.
void scatter_grad(const char* op, const Tensor& grad, const Tensor& indices, const Tensor& grad_input, size_t dims,
                  bool disjoint);

}  // namespace mpsx::ops
