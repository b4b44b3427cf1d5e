// Functions of torch.ops.mpsx without a kernel, for the Python package.
#include <torch/library.h>

#include "backend/alias.h"
#include "backend/generator.h"
#include "backend/mps.h"
#include "backend/storage.h"

namespace mpsx::backend {
namespace {

// Boxed: the schema that torch infers from a C++ function returning a Generator says "Generator?".
void push_default_generator(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  stack->emplace_back(default_generator());
}

// The CPU's view of `self` was moved to other memory, which the device takes from now on.
void follow_twin(const at::Tensor& self) {
  auto* storage = self.storage().unsafeGetStorageImpl();
  rebind(storage, cpu_twin(storage));
}

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  m.def("_default_generator() -> Generator", torch::CppFunction::makeFromBoxedFunction<&push_default_generator>());
  // Not declared as views: autograd would want them to be on their base's device.
  m.def("_follow_twin(Tensor self) -> ()", follow_twin);
  m.def("_cpu_view(Tensor self) -> Tensor", cpu_view);
  m.def("_device_view(Tensor self) -> Tensor", device_view);
  m.def("_from_mps(Tensor self) -> Tensor", from_mps);
  m.def("_to_mps(Tensor self) -> Tensor", to_mps);
}

}  // namespace
}  // namespace mpsx::backend
