// multinomial. If rows are not too long, one kernel sums and searches the weights. It draws a single sample, or several
// samples with replacement. Otherwise, several samples with replacement are drawn by searching the prefix sums of the
// weights. All other samples are drawn by dividing the weights by exponential random numbers and selecting the largest
// quotients.
#include <ATen/ops/aminmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/searchsorted.h>
#include <torch/library.h>

#include <algorithm>

#include "backend/generator.h"
#include "ops/operator.h"
#include "random/params.h"
#include "runtime/device_error.h"
#include "runtime/random_argument.h"

namespace mpsx::ops {
namespace {

using Generator = std::optional<at::Generator>;

constexpr int64_t kMinBlock = 64;

// Returns how many columns a block of the kernel should have, or 0 if prefix sums of all elements are faster.
int64_t block_of(int64_t columns, int64_t samples) {
  const int64_t block = std::max(kMinBlock, (columns + kMultinomialBlocks - 1) / kMultinomialBlocks);
  if (block > 4 * kMinBlock) return 0;  // a single thread reads each block
  return samples * block <= 4 * columns + (1 << 16) ? block : 0;
}

void draw_by_blocks(const Tensor& weights, int64_t block, int64_t samples, const Generator& generator,
                    const Tensor& out) {
  static const KernelSet kernels("multinomial");
  const int64_t columns = weights.size(-1), rows = weights.numel() / columns;
  TORCH_CHECK(rows <= int64_t(UINT32_MAX), "multinomial: expected fewer than 2^32 rows, got ", rows);
  const auto state = backend::next_philox(generator, uint64_t(rows * samples));
  MultinomialParams p{};
  p.seed = state.seed;
  p.offset = state.offset;
  p.columns = uint32_t(columns);
  p.samples = uint32_t(samples);
  p.block = uint32_t(block);
  p.blocks = uint32_t((columns + block - 1) / block);
  Launch(kernels.get(tag_of(weights)))
      .outputs(out)
      .inputs(weights)
      .bytes(runtime::random_argument(p))
      .pointer(runtime::device_error_record("multinomial"))
      .groups({uint32_t(rows), 1, 1}, runtime::threads_for_row(p.blocks))
      .work(uint64_t(columns + samples * block))
      .run();
  runtime::wait_for_device_errors();
}

// Draws samples for each row of float weights. Every row must have a positive weight.
Tensor draw(const Tensor& weights, int64_t samples, bool replacement, const Generator& generator) {
  if (!replacement || samples == 1) {
    // argmax(weight / exponential) selects each element with a probability proportional to its weight. The next largest
    // quotients are further draws without replacement.
    Tensor order = at::empty_like(weights).exponential_(1, generator);
    at::div_out(order, weights, order);
    return samples == 1 ? order.argmax(-1, true) : std::get<1>(order.topk(samples, -1));
  }
  const Tensor sums = weights.cumsum(-1);
  std::vector<int64_t> shape(weights.sizes().vec());
  shape.back() = samples;
  // An element of weight zero is never drawn, because random numbers are below 1 and the search skips equal sums.
  const Tensor wanted = at::empty(shape, weights.options()).uniform_(0, 1, generator).mul_(sums.slice(-1, -1));
  // With rounding, the random number may equal the total. So clamp to the last element with a nonzero weight.
  const Tensor last = at::searchsorted(sums, sums.slice(-1, -1).contiguous());
  return at::searchsorted(sums, wanted, false, true).minimum(last);
}

bool multinomial(const Tensor& self, int64_t samples, bool replacement, Generator generator, Tensor& out) {
  if (!has_float_kernel(self)) return false;
  TORCH_CHECK(accepts(out, at::kLong), "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= int64_t(1) << 24, "number of categories cannot exceed 2^24");
  std::vector<int64_t> shape(self.sizes().vec());
  shape.back() = samples;
  const Tensor result = prepare_output(out, shape, self.options().dtype(at::kLong));
  if (result.numel() == 0) return return_or_copy("multinomial", result, out);
  const int64_t block = self.size(-1) > 0 && (replacement || samples == 1) ? block_of(self.size(-1), samples) : 0;
  if (block > 0) {
    draw_by_blocks(self.contiguous(), block, samples, generator, result);
    return return_or_copy("multinomial", result, out);
  }
  const Tensor weights = self.to(at::kFloat).contiguous();
  // Launch all reductions before waiting for the first result. If a weight is NaN, both extrema are NaN and fail every
  // comparison.
  const auto [least, most] = at::aminmax(weights);
  const Tensor sum = weights.sum(-1), smallest = sum.dim() == 0 ? sum : sum.amin();
  TORCH_CHECK(least.item<float>() >= 0 && most.item<float>() < INFINITY,
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(smallest.item<float>() > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  return return_or_copy("multinomial", draw(weights, samples, replacement, generator), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"multinomial", &multinomial>(m); }

}  // namespace mpsx::ops
