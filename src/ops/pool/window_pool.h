// Max pooling over windows from a table (metal/pool/window_pool.metal), and writes at its indices.
#pragma once

#include <vector>

#include "ops/launch_table.h"
#include "ops/pool/pool.h"
#include "pool/window_params.h"

namespace mpsx::ops {

// Windows of `dims` dimensions, as kernels read them.
struct Windows {
  WindowPoolParams p{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0};
  std::vector<int32_t> begins, ends;
  LaunchTable table;  // begins, then ends

  Windows(at::IntArrayRef in, at::IntArrayRef out, size_t dims) {
    int64_t plane = 1;
    for (size_t d = 0; d < dims; ++d) {
      p.in[3 - dims + d] = pool_size(in[in.size() - dims + d]);
      p.out[3 - dims + d] = pool_size(out[out.size() - dims + d]);
      plane *= p.in[3 - dims + d];
      TORCH_CHECK(plane <= INT32_MAX, "max_pool: expected planes of at most 2^31-1 elements, got ", in);
    }
    const size_t windows = size_t(p.out[0]) + size_t(p.out[1]) + size_t(p.out[2]);
    begins.reserve(2 * windows);  // room for the ends
    ends.reserve(windows);
    if (dims == 2) add(0, 1);
  }
  void add(int64_t begin, int64_t end) {
    begins.push_back(int32_t(begin));
    ends.push_back(int32_t(end));
  }
  void upload(const Tensor& like);
};

// Writes outputs and indices of any layout.
void window_max(const Tensor& in, const Windows& windows, const Tensor& out, const Tensor& indices);

// The planes of a tensor, of `dims` dimensions each, as rows.
Tensor planes_as_rows(const Tensor& t, size_t dims);
// Sums the gradient at the indices of the maxima and writes all of `grad_input`. `disjoint`: no element is in two
// windows. `op`: the name for an out-of-range error.
void scatter_grad(const char* op, const Tensor& grad, const Tensor& indices, const Tensor& grad_input, size_t dims,
                  bool disjoint);

}  // namespace mpsx::ops
