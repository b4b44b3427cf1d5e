// Random permutations. The kernels are in metal/random/randperm.metal.
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <c10/util/llvmMathExtras.h>
#include <torch/library.h>

#include "backend/generator.h"
#include "ops/operator.h"
#include "ops/random/random.h"
#include "runtime/random_argument.h"

namespace mpsx::ops {
namespace {

void permute(int64_t n, const std::optional<at::Generator>& generator, const Tensor& out) {
  static const KernelSet kernels("randperm");
  const auto state = backend::next_philox(generator, kFeistelRounds / 4 + 1);
  PermutationParams params{state.seed, state.offset, uint64_t(n), 0, 0};
  const uint32_t bits = c10::llvm::Log2_64_Ceil(n);
  params.low_bits = bits / 2;
  params.high_bits = bits - params.low_bits;
  Launch launch(kernels.get(tag_of(out)));
  launch.outputs(out).bytes(runtime::random_argument(params));
  launch.groups({uint32_t(random_chunks(n))}, kRandomBlocks).work(kRandomChunk * 16).run();
}

Tensor& randperm_out(c10::SymInt size, std::optional<at::Generator> generator, Tensor& out) {
  const int64_t n = size.expect_int();
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  TORCH_CHECK(!generator || !generator->defined() || out.device() == generator->device(), "Expected a '", out.device(),
              "' generator device but found '", generator->device(), "'");
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n <= 1) return out.zero_();
  const Tag tag = tag_of(out);
  const bool direct = is_plain(out) && out.is_contiguous() && (tag == Tag::i64 || tag == Tag::i32);
  const Tensor target = direct ? out : at::empty({n}, out.options().dtype(at::kLong));
  permute(n, generator, target);
  if (!direct) out.copy_(target);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "randperm.generator_out", &randperm_out); }

}  // namespace mpsx::ops
