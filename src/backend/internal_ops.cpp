// Internal torch.ops.mpsx functions that the Python package calls.
#include <ATen/core/CachingHostAllocator.h>
#include <torch/library.h>

#include <vector>

#include "backend/alias.h"
#include "backend/device.h"
#include "backend/generator.h"
#include "backend/mps_interop.h"
#include "backend/storage.h"

namespace mpsx::backend {
namespace {

// The function is boxed, because PyTorch would infer the return type "Generator?" for a C++ function that returns a
// Generator.
void push_default_generator(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  stack->emplace_back(default_generator());
}

// Makes `self` use its CPU view's current memory. Call this after CPU code has replaced that memory.
void follow_twin(const at::Tensor& self) {
  auto* storage = self.storage().unsafeGetStorageImpl();
  rebind(storage, cpu_twin(storage));
}

// Returns pinned-memory statistics for torch.mpsx.host_memory_stats. Each statistic consists of four values: current,
// peak, allocated and freed.
std::vector<int64_t> host_memory_stats() {
  const at::HostStats stats = at::getHostAllocator(kDeviceType)->get_stats();
  std::vector<int64_t> values;
  for (const auto* s : {&stats.active_bytes, &stats.active_requests, &stats.allocated_bytes, &stats.allocations})
    values.insert(values.end(), {s->current, s->peak, s->allocated, s->freed});
  return values;
}

void reset_host_memory_stats(bool peak) {
  auto* allocator = at::getHostAllocator(kDeviceType);
  peak ? allocator->reset_peak_stats() : allocator->reset_accumulated_stats();
}

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  m.def("_host_memory_stats() -> int[]", host_memory_stats);
  m.def("_reset_host_memory_stats(bool peak) -> ()", reset_host_memory_stats);
  m.def("_default_generator() -> Generator", torch::CppFunction::makeFromBoxedFunction<&push_default_generator>());
  // These are not declared as views, because autograd expects a view to be on the same device as its base.
  m.def("_follow_twin(Tensor self) -> ()", follow_twin);
  m.def("_cpu_view(Tensor self) -> Tensor", cpu_view);
  m.def("_device_view(Tensor self) -> Tensor", device_view);
  m.def("_from_mps(Tensor self) -> Tensor", from_mps);
  m.def("_to_mps(Tensor self) -> Tensor", to_mps);
}

}  // namespace
}  // namespace mpsx::backend
