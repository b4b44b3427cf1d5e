#include "driver/metal/pipelines.h"

namespace mpsx::driver::metal {

const MetalKernel* Pipelines::get(std::string_view key) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string name(key);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second.get();

  const auto function = functions_.function(FunctionKey::parse(key));
  if (!function) return kernels_.emplace(name, nullptr).first->second.get();
  std::string reason;
  auto made = archive_.make(function.get(), &reason);
  if (!made) throw Error("cannot prepare the kernel " + name + ": " + reason);
  id<MTLComputePipelineState> pipeline = made.get();
  auto kernel = std::make_unique<MetalKernel>();
  kernel->name = name;
  kernel->max_threads = uint32_t(pipeline.maxTotalThreadsPerThreadgroup);
  kernel->simd_width = uint32_t(pipeline.threadExecutionWidth);
  kernel->static_threadgroup_bytes = uint32_t(pipeline.staticThreadgroupMemoryLength);
  kernel->pipeline = std::move(made);
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

}  // namespace mpsx::driver::metal
