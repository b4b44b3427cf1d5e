// kaiser_window. PyTorch's operator writes the positions of the samples and then calls the device's DispatchStub to
// compute the window.
#include <ATen/TensorIterator.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/i0.h>
#include <ATen/ops/scalar_tensor.h>

#include "ops/operator.h"

namespace mpsx::ops {
namespace {

void kaiser_window(at::TensorIteratorBase& iter, int64_t length, double beta) {
  const Tensor positions = iter.tensor(1);
  const Tensor wide = positions.scalar_type() == at::kDouble ? positions : positions.to(at::kFloat);
  const double center = double(length - 1) / 2.0;
  const Tensor x = wide.sub(center).div_(center);
  const Tensor peak = at::i0(at::scalar_tensor(beta, wide.options()));
  iter.tensor(0).copy_(at::i0(x.square_().neg_().add_(1.0).sqrt_().mul_(beta)).div_(peak));
}

}  // namespace
}  // namespace mpsx::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &mpsx::ops::kaiser_window)
}
