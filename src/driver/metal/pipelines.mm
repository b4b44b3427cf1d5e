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
  NSError* error = nil;
  id<MTLComputePipelineState> pipeline = [device_.get() newComputePipelineStateWithFunction:function.get() error:&error];
  if (!pipeline) throw Error("cannot prepare the kernel " + name + ": " + describe(error));
  auto kernel = std::make_unique<MetalKernel>();
  kernel->name = name;
  kernel->max_threads = uint32_t(pipeline.maxTotalThreadsPerThreadgroup);
  kernel->simd_width = uint32_t(pipeline.threadExecutionWidth);
  kernel->static_threadgroup_bytes = uint32_t(pipeline.staticThreadgroupMemoryLength);
  kernel->pipeline = Owned<id<MTLComputePipelineState>>::taking(pipeline);
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

}  // namespace mpsx::driver::metal
