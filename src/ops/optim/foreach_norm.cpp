// Implements torch._foreach_norm, which gradient clipping uses. Kernels exist for the 1, 2 and infinity norms of
// floating-point tensors.
#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "ops/operator.h"
#include "ops/optim/lists.h"

namespace mpsx::ops {
namespace {

struct NormKernels {
  KernelSet chunk, finish;
  explicit NormKernels(const std::string& stem) : chunk(stem + "_chunk"), finish(stem + "_finish") {}
};

const NormKernels* norm_kernels(double order) {
  static const NormKernels one("foreach_norm_one"), two("foreach_norm_two"), inf("foreach_norm_inf");
  return order == 1 ? &one : order == 2 ? &two : std::isinf(order) && order > 0 ? &inf : nullptr;
}

bool any_empty(at::TensorList tensors) {
  for (const Tensor& t : tensors)
    if (t.numel() == 0) return true;
  return false;
}

std::vector<Tensor> foreach_norm(at::TensorList self, const at::Scalar& order, std::optional<at::ScalarType> dtype) {
  at::native::check_foreach_api_restrictions(self);
  const NormKernels* kernels = order.isComplex() ? nullptr : norm_kernels(order.toDouble());
  if (!kernels || (dtype && *dtype != self[0].scalar_type()) || any_empty(self) || !fits_list_kernels({self}))
    return at::compositeexplicitautograd::_foreach_norm(self, order, dtype);
  std::vector<Tensor> results;
  results.reserve(self.size());
  for (size_t i = 0; i < self.size(); ++i) results.push_back(at::empty({}, self[0].options()));

  const Tag tag = tag_of(self[0]);
  constexpr uint32_t buffers = kListBuffers - 1;
  const at::TensorList out = results;
  for_each_batch(
      {self, out},
      [&](ListBatch& batch) {
        // for_each_batch needs the inputs as the first list, to determine the sizes, but the kernels expect the results
        // first.
        const uint32_t count = batch.params.tensors;
        std::rotate(batch.pointers.begin(), batch.pointers.begin() + count, batch.pointers.begin() + 2 * count);
        const Tensor partial = at::empty({int64_t(batch.groups())}, self[0].options().dtype(at::kFloat));
        Launch chunk(kernels->chunk.get(tag));
        batch.bind(chunk, 0, buffers);
        batch.over_chunks(chunk.outputs(partial).bytes(batch.params)).run();
        Launch finish(kernels->finish.get(tag));
        batch.bind(finish, 1, buffers);
        finish.inputs(partial).bytes(batch.params).groups({count}, 32);
        finish.work(batch.groups() / count).run();
      },
      buffers);
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "_foreach_norm.Scalar", &foreach_norm); }

}  // namespace mpsx::ops
