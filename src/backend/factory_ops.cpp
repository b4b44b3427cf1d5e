// The factory functions empty and empty_strided.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include "backend/allocator.h"
#include "backend/device.h"
#include "backend/shared_device.h"

namespace mpsx::backend {
namespace {

constexpr c10::DispatchKeySet kDense(c10::DispatchKey::PrivateUse1);

void check_factory(const char* op, std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), op, ": only CPU tensors can be pinned, got device mpsx");
  TORCH_CHECK(!device || device->index() < 0 || is_device_index(device->index()), op, ": expected device mpsx:0, got ",
              *device);
}

// In deterministic mode, fills new memory, like the CPU's factory functions.
at::Tensor filled_if_deterministic(at::Tensor t) {
  auto& context = at::globalContext();
  if (C10_LIKELY(!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory())) return t;
  return at::native::fill_empty_deterministic_(t);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> format) {
  check_factory("empty", device, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_generic(size, device_allocator(), kDense, c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_factory("empty_strided", device, pin_memory);
  return filled_if_deterministic(
      at::detail::empty_strided_generic(size, stride, device_allocator(), kDense, c10::dtype_or_default(dtype)));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
}

}  // namespace
}  // namespace mpsx::backend
