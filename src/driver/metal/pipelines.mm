#include "driver/metal/pipelines.h"

#include <algorithm>

namespace mpsx::driver::metal {
namespace {

// MTLBindingTypeTensor, which SDKs before macOS 26 do not declare.
constexpr MTLBindingType kTensorBinding = MTLBindingType(37);

// The element types of tensors (MTLTensorDataType).
constexpr struct {
  NSInteger type;
  const char* name;
} kElements[] = {{16, "half"}, {121, "bfloat"}, {3, "float"},   {45, "char"}, {49, "uchar"},
                 {37, "short"}, {41, "ushort"}, {29, "int"}, {33, "uint"}};

TensorBinding describe_tensor(const Binding& binding, id<MTLBinding> reflected) {
  TensorBinding tensor{binding, "", {}};
#if !defined(__MAC_OS_X_VERSION_MAX_ALLOWED) || __MAC_OS_X_VERSION_MAX_ALLOWED >= 260000
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunguarded-availability-new"
  id<MTLTensorBinding> from = (id<MTLTensorBinding>)reflected;
  for (const auto& element : kElements)
    if (NSInteger(from.tensorDataType) == element.type) tensor.element = element.name;
  for (NSUInteger d = 0; d < from.dimensions.rank; ++d)
    tensor.sizes.push_back([from.dimensions extentAtDimensionIndex:d]);
#pragma clang diagnostic pop
#else
  (void)reflected;
#endif
  return tensor;
}

// Stores the required bindings. Reflection does not list buffers that a function constant disables.
void set_bindings(MetalKernel& kernel, MTLComputePipelineReflection* reflection) {
  NSArray<id<MTLBinding>>* bindings = reflection.bindings;
  for (NSUInteger i = 0; i < bindings.count; ++i) {
    id<MTLBinding> binding = [bindings objectAtIndex:i];
    if (!binding.used) continue;
    const Binding found{uint32_t(binding.index), to_string(binding.name)};
    if (binding.type == kTensorBinding) kernel.tensors.push_back(describe_tensor(found, binding));
    if (binding.type == MTLBindingTypeBuffer) kernel.buffers.push_back(found);
    if (binding.type == MTLBindingTypeThreadgroupMemory) kernel.threadgroups.push_back(found);
  }
  const auto by_index = [](const Binding& a, const Binding& b) { return a.index < b.index; };
  for (auto* list : {&kernel.buffers, &kernel.threadgroups}) std::sort(list->begin(), list->end(), by_index);
  std::sort(kernel.tensors.begin(), kernel.tensors.end(), by_index);
  kernel.reflected = true;
}

// Compiles a pipeline for threadgroups of exactly size `group`. Returns null if Metal cannot compile it.
Owned<id<MTLComputePipelineState>> make_required(id<MTLDevice> device, id<MTLFunction> function, const Size& group) {
  auto descriptor = Owned<MTLComputePipelineDescriptor*>::adopt([[MTLComputePipelineDescriptor alloc] init]);
#if !defined(__MAC_OS_X_VERSION_MAX_ALLOWED) || __MAC_OS_X_VERSION_MAX_ALLOWED >= 260000
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunguarded-availability-new"
  if ([descriptor.get() respondsToSelector:@selector(setRequiredThreadsPerThreadgroup:)]) {
    NSError* error = nil;
    descriptor.get().computeFunction = function;
    descriptor.get().requiredThreadsPerThreadgroup = MTLSizeMake(group.x, group.y, group.z);
    return Owned<id<MTLComputePipelineState>>::adopt(
        [device newComputePipelineStateWithDescriptor:descriptor.get()
                                              options:MTLPipelineOptionNone
                                           reflection:nullptr
                                                error:&error]);
  }
#pragma clang diagnostic pop
#else
  (void)device, (void)function, (void)group;
#endif
  return {};
}

}  // namespace

id<MTLComputePipelineState> MetalKernel::required_pipeline(const Dispatch& dispatch) const {
  const Size &grid = dispatch.grid, &group = dispatch.group;
  const bool whole = !dispatch.by_threads || (grid.x % group.x == 0 && grid.y % group.y == 0 && grid.z % group.z == 0);
  if (!whole) return pipeline.get();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, is_new] = required_.try_emplace({group.x, group.y, group.z});
  if (is_new) found->second = make_required(device.get(), function.get(), group);
  return found->second ? found->second.get() : pipeline.get();
}

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
  if (functions_.uses_tensors()) {
    kernel->device = device_;
    kernel->function = function;
  }
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

}  // namespace mpsx::driver::metal
