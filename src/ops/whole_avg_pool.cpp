#include "ops/whole_avg_pool.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/div.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <vector>

#include "ops/pool.h"

namespace mpsx::ops {
Tensor whole_avg_pool(const Tensor& in, at::IntArrayRef out, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor, size_t dims) {
  const auto first = size_t(in.dim()) - dims;
  std::vector<int64_t> pads(2 * dims), summed;
  Tensor counts = at::ones({}, at::kLong), windows = in;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t n = in.size(int64_t(first + d)), size = window_argument(kernel, d, 1),
                  step = window_argument(stride, d, size), pad = window_argument(padding, d, 0);
    std::vector<int64_t> count;
    for (int64_t o = 0; o < out[first + d]; ++o) {
      const int64_t begin = o * step - pad, end = std::min(begin + size, n + pad);
      count.push_back(count_include_pad ? end - begin : std::min(end, n) - std::max<int64_t>(begin, 0));
    }
    counts = counts.unsqueeze(-1).mul(at::from_blob(count.data(), {int64_t(count.size())}, at::kLong));
    pads[2 * (dims - 1 - d)] = pad;
    pads[2 * (dims - 1 - d) + 1] = std::max<int64_t>((out[first + d] - 1) * step + size - n - pad, 0);
    summed.push_back(int64_t(first + dims + d));
  }
  windows = at::constant_pad_nd(windows, pads, 0);
  for (size_t d = 0; d < dims; ++d) {
    const int64_t size = window_argument(kernel, d, 1);
    windows = windows.unfold(int64_t(first + d), size, window_argument(stride, d, size));
  }
  const Tensor sums = windows.sum(summed);
  return divisor ? at::div(sums, *divisor, "trunc") : at::div(sums, counts.to(in.device()), "trunc");
}

}  // namespace mpsx::ops
