// A stand-in for PyTorch's mps device, for machines that do not have one. Storages are emulated MTLBuffers. The queue
// runs work only when a thread waits. Implements the hooks that torch/mps.h uses.
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>
#include <functional>
#include <mutex>

extern "C" {
void* mpsx_emulation_new_buffer(unsigned long bytes);
void* mpsx_emulation_contents(void* buffer);
void mpsx_emulation_release(void* buffer);
}

namespace {

struct Queue {
  std::mutex mutex;
  std::vector<std::function<void()>> work;

  void synchronize() {
    std::lock_guard lock(mutex);
    for (auto& f : work) f();
    work.clear();
  }
};
Queue& queue() {
  static auto* q = new Queue;
  return *q;
}

struct Hooks final : at::MPSHooksInterface {
  bool hasMPS() const override { return true; }
  void deviceSynchronize() const override { queue().synchronize(); }
};

at::Tensor make(c10::IntArrayRef size, at::ScalarType dtype) {
  const size_t bytes = size_t(c10::multiply_integers(size)) * c10::elementSize(dtype);
  void* buffer = mpsx_emulation_new_buffer(std::max<size_t>(bytes, 1));
  c10::DataPtr data(buffer, buffer, &mpsx_emulation_release, c10::Device(c10::kMPS, 0));
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::MPS),
                                                   c10::scalarTypeToTypeMeta(dtype));
  impl->set_sizes_contiguous(size);
  return at::Tensor(std::move(impl));
}

// Returns a CPU tensor that shares the memory of an mps tensor.
at::Tensor seen(const at::Tensor& mps) {
  auto* bytes = static_cast<char*>(mpsx_emulation_contents(const_cast<void*>(mps.storage().data())));
  return at::from_blob(bytes + mps.storage_offset() * int64_t(mps.itemsize()), mps.sizes(), mps.strides(),
                       at::dtype(mps.scalar_type()));
}

at::Tensor from_cpu(const at::Tensor& cpu) {
  at::Tensor made = make(cpu.sizes(), cpu.scalar_type());
  seen(made).copy_(cpu);
  return made;
}
at::Tensor to_cpu(const at::Tensor& mps) {
  queue().synchronize();
  return seen(mps).clone();
}
void fill_later(const at::Tensor& mps, double value) {
  std::lock_guard lock(queue().mutex);
  queue().work.push_back([=] { seen(mps).fill_(value); });
}
void synchronize() { queue().synchronize(); }

TORCH_LIBRARY(mps_stand_in, m) {
  m.def("from_cpu(Tensor cpu) -> Tensor", from_cpu);
  m.def("to_cpu(Tensor mps) -> Tensor", to_cpu);
  m.def("fill_later(Tensor mps, float value) -> ()", fill_later);
  m.def("synchronize() -> ()", synchronize);
}

TORCH_LIBRARY_IMPL(aten, MPS, m) { m.impl("as_strided", at::native::as_strided_tensorimpl); }

C10_REGISTER_GUARD_IMPL(MPS, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::MPS>);

}  // namespace

// at::detail::getMPSHooks() looks up this name.
namespace at {
using MPSHooks = Hooks;
REGISTER_MPS_HOOKS(MPSHooks)
}  // namespace at
