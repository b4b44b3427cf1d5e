#include "driver/metal/pipelines.h"

#include <algorithm>

namespace mpsx::driver::metal {
namespace {

// Records the required bindings. Reflection omits buffers that a function constant disables.
void set_bindings(MetalKernel& kernel, MTLComputePipelineReflection* reflection) {
  NSArray<id<MTLBinding>>* bindings = reflection.bindings;
  for (NSUInteger i = 0; i < bindings.count; ++i) {
    id<MTLBinding> binding = [bindings objectAtIndex:i];
    if (!binding.used) continue;
    const Binding found{uint32_t(binding.index), to_string(binding.name)};
    if (binding.type == MTLBindingTypeBuffer) kernel.buffers.push_back(found);
    if (binding.type == MTLBindingTypeThreadgroupMemory) kernel.threadgroups.push_back(found);
  }
  for (auto* list : {&kernel.buffers, &kernel.threadgroups})
    std::sort(list->begin(), list->end(), [](const Binding& a, const Binding& b) { return a.index < b.index; });
  kernel.reflected = true;
}

}  // namespace

const MetalKernel* Pipelines::get(std::string_view key) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string name(key);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second.get();

  const auto function = functions_.function(FunctionKey(key));
  if (!function) return kernels_.emplace(name, nullptr).first->second.get();
  std::string reason;
  MTLComputePipelineReflection* reflection = nil;
  auto made = archive_.make(function.get(), reflect_ ? &reflection : nullptr, &reason);
  if (!made) throw Error("cannot create a pipeline for kernel " + name + ": " + reason);
  id<MTLComputePipelineState> pipeline = made.get();
  auto kernel = std::make_unique<MetalKernel>();
  kernel->name = name;
  kernel->max_threads = uint32_t(pipeline.maxTotalThreadsPerThreadgroup);
  kernel->simd_width = uint32_t(pipeline.threadExecutionWidth);
  kernel->static_threadgroup_bytes = uint32_t(pipeline.staticThreadgroupMemoryLength);
  kernel->pipeline = std::move(made);
  if (reflection) set_bindings(*kernel, reflection);
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

}  // namespace mpsx::driver::metal
