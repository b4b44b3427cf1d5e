#include "driver/metal/tensor_queue.h"

#include <objc/runtime.h>

#include <algorithm>
#include <cstring>

#include "driver/dispatch_check.h"
#include "driver/tensor_argument.h"

// SDKs before macOS 26 do not declare Metal 4.
#if !defined(__MAC_OS_X_VERSION_MAX_ALLOWED) || __MAC_OS_X_VERSION_MAX_ALLOWED >= 260000
#define MPSX_METAL_4 1
#pragma clang diagnostic ignored "-Wunguarded-availability-new"
#endif

namespace mpsx::driver::metal {
namespace {

// Returns the argument bound to buffer `index`, or null if there is none.
const Argument* buffer_argument(const Argument* arguments, size_t count, size_t index) {
  for (size_t i = 0, k = 0; i < count; ++i)
    if (arguments[i].kind != Argument::Kind::threadgroup && k++ == index) return &arguments[i];
  return nullptr;
}

const TensorArgument& as_tensor(const Argument& a) { return *static_cast<const TensorArgument*>(a.data); }

std::string text(const int64_t* values, size_t count) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += (i ? ", " : "") + (values[i] < 0 ? "any" : std::to_string(values[i]));
  return list;
}

// Returns the strides of the tensor. In dimensions of size 1, where PyTorch allows any stride, returns packed strides,
// as Metal requires.
std::vector<int64_t> packed_strides(const TensorArgument& t) {
  std::vector<int64_t> strides(t.strides, t.strides + t.rank);
  for (uint32_t d = 0; d < t.rank; ++d)
    if (t.sizes[d] == 1) strides[d] = d ? strides[d - 1] * t.sizes[d - 1] : 1;
  return strides;
}

// Returns whether the tensor meets the requirements of MTLTensorDescriptor for tensors in buffers.
bool are_supported(const TensorArgument& t, const std::vector<int64_t>& strides) {
  for (uint32_t d = 0; d < t.rank; ++d)
    if (t.sizes[d] < 1 || strides[d] < (d ? strides[d - 1] * t.sizes[d - 1] : 1)) return false;
  return t.rank > 0 && strides[0] == 1;
}

}  // namespace

void check_tensors(const MetalKernel& kernel, const Argument* arguments, size_t count) {
  for (const TensorBinding& b : kernel.tensors) {
    const Argument* a = buffer_argument(arguments, count, b.index);
    const auto fail = [&](const std::string& what) {
      throw Error(kernel.name + ": parameter '" + b.name + "' (buffer " + std::to_string(b.index) + "): " + what);
    };
    if (!a || !a->data) fail("expected a tensor, got none");
    if (a->kind != Argument::Kind::bytes || a->size != sizeof(TensorArgument)) fail("expected a tensor, got a buffer");
    const TensorArgument& t = as_tensor(*a);
    bool same = b.sizes.size() == t.rank && (b.element.empty() || b.element == t.element);
    for (size_t d = 0; same && d < t.rank; ++d) same = b.sizes[d] < 0 || b.sizes[d] == t.sizes[d];
    if (!same)
      fail("expected a tensor of rank " + std::to_string(b.sizes.size()) + " and " + b.element + " with extents " +
           text(b.sizes.data(), b.sizes.size()) + ", got rank " + std::to_string(t.rank) + " and " + t.element +
           " with extents " + text(t.sizes, t.rank));
    const auto strides = packed_strides(t);
    if (!are_supported(t, strides))
      fail("Metal's tensors have at least one element, stride 1 in dimension 0, and in the others a stride of at least "
           "the size times the stride of the dimension before; got extents " +
           text(t.sizes, t.rank) + " and strides " + text(strides.data(), t.rank) + "; pass tensor.contiguous()");
  }
}

#ifdef MPSX_METAL_4
namespace {

// Creates an object of a class that older systems lack. The class is looked up by name, to avoid linking to it.
template <typename T>
Owned<T> make(const char* name) {
  return Owned<T>::adopt([[objc_getClass(name) alloc] init]);
}

constexpr struct {
  const char* name;
  MTLTensorDataType type;
} kElements[] = {
    {"half", MTLTensorDataTypeFloat16}, {"bfloat", MTLTensorDataTypeBFloat16}, {"float", MTLTensorDataTypeFloat32},
    {"char", MTLTensorDataTypeInt8},    {"uchar", MTLTensorDataTypeUInt8},     {"short", MTLTensorDataTypeInt16},
    {"ushort", MTLTensorDataTypeUInt16}, {"int", MTLTensorDataTypeInt32},      {"uint", MTLTensorDataTypeUInt32},
};

Owned<MTLTensorExtents*> extents(const int64_t* values, uint32_t rank) {
  NSInteger numbers[TensorArgument::kMaxRank];
  std::copy_n(values, rank, numbers);
  return Owned<MTLTensorExtents*>::adopt([[objc_getClass("MTLTensorExtents") alloc] initWithRank:rank values:numbers]);
}

// The bindings of one dispatch: an argument table, and a residency set with all memory that the kernel can access.
class Bindings {
 public:
  Bindings(id<MTLDevice> device, const MetalKernel& kernel, size_t buffers, TensorDispatch& work)
      : device_(device), kernel_(kernel), work_(work) {
    NSError* error = nil;
    const auto table = make<MTL4ArgumentTableDescriptor*>("MTL4ArgumentTableDescriptor");
    table.get().maxBufferBindCount = buffers;
    table_ = keep([device newArgumentTableWithDescriptor:table.get() error:&error], "an argument table", error);
    const auto residency = make<MTLResidencySetDescriptor*>("MTLResidencySetDescriptor");
    residency_ = keep([device newResidencySetWithDescriptor:residency.get() error:&error], "a residency set", error);
  }
  void buffer(id<MTLBuffer> buffer, size_t offset, NSUInteger index) {
    work_.kept.push_back(Owned<id>::retain(buffer));
    [residency_ addAllocation:buffer];
    [table_ setAddress:buffer.gpuAddress + offset atIndex:index];
  }
  void bytes(const void* data, size_t size, NSUInteger index) {
    NSError* error = nil;
    id<MTLBuffer> copy = keep([device_ newBufferWithLength:size options:MTLResourceStorageModeShared],
                              "a buffer for an argument", error);
    std::memcpy([copy contents], data, size);
    buffer(copy, 0, index);
  }
  void tensor(const TensorArgument& t, NSUInteger index) {
    const auto found = std::find_if(std::begin(kElements), std::end(kElements),
                                    [&](const auto& e) { return std::string_view(e.name) == t.element; });
    if (found == std::end(kElements))
      throw Error(kernel_.name + ": Metal has no tensors of " + t.element + " (buffer " + std::to_string(index) + ")");
    const auto descriptor = make<MTLTensorDescriptor*>("MTLTensorDescriptor");
    descriptor.get().dimensions = extents(t.sizes, t.rank).get();
    descriptor.get().strides = extents(packed_strides(t).data(), t.rank).get();
    descriptor.get().dataType = found->type;
    descriptor.get().usage = MTLTensorUsageCompute;
    descriptor.get().storageMode = MTLStorageModeShared;
    id<MTLBuffer> storage = as_buffer(t.handle);
    NSError* error = nil;
    id<MTLTensor> tensor = keep([storage newTensorWithDescriptor:descriptor.get() offset:t.offset error:&error],
                                "a tensor for buffer " + std::to_string(index), error);
    work_.kept.push_back(Owned<id>::retain(storage));
    [residency_ addAllocation:storage];
    [residency_ addAllocation:tensor];
    [table_ setResource:tensor.gpuResourceID atBufferIndex:index];
  }
  id<MTL4ArgumentTable> table() const { return table_; }
  id<MTLResidencySet> residency() const {
    [residency_ commit];
    return residency_;
  }
  // Takes ownership of a new object. Throws Error if the object is null.
  template <typename T>
  T keep(T object, const std::string& what, NSError* error) {
    if (!object) throw Error(kernel_.name + ": Metal cannot create " + what + ": " + describe(error));
    work_.kept.push_back(Owned<id>::adopt(object));
    return object;
  }

 private:
  id<MTLDevice> device_;
  const MetalKernel& kernel_;
  TensorDispatch& work_;
  id<MTL4ArgumentTable> table_;
  id<MTLResidencySet> residency_;
};

MTLSize to_metal(const Size& size) { return MTLSizeMake(size.x, size.y, size.z); }

}  // namespace

TensorQueue::TensorQueue(Owned<id<MTLDevice>> device) : device_(std::move(device)) {
  if ([device_.get() respondsToSelector:@selector(newMTL4CommandQueue)])
    queue_ = Owned<id>::adopt([device_.get() newMTL4CommandQueue]);
  done_ = Owned<id<MTLSharedEvent>>::adopt([device_.get() newSharedEvent]);
  if (!queue_ || !done_) throw Error("Metal could not create a command queue of Metal 4, which tensors need");
}

std::shared_ptr<TensorDispatch> TensorQueue::dispatch(const MetalKernel& kernel, const Argument* arguments,
                                                      size_t count, const Dispatch& dispatch, const Label& label,
                                                      id<MTLBuffer> null_buffer, id<MTLSharedEvent> event,
                                                      uint64_t after) {
  const auto work = std::make_shared<TensorDispatch>();
  const size_t buffers =
      std::count_if(arguments, arguments + count, [](const auto& a) { return a.kind != Argument::Kind::threadgroup; });
  Bindings bindings(device_.get(), kernel, buffers, *work);
  NSUInteger index = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::threadgroup) continue;
    const bool is_tensor = std::any_of(kernel.tensors.begin(), kernel.tensors.end(),
                                       [&](const TensorBinding& b) { return b.index == index; });
    if (is_tensor)
      bindings.tensor(as_tensor(a), index);
    else if (a.kind == Argument::Kind::bytes)
      bindings.bytes(a.data, a.size, index);
    else
      bindings.buffer(a.data ? as_buffer(a.data) : null_buffer, a.data ? a.size : 0, index);
    ++index;
  }
  // Each command buffer has its own allocator, because an allocator may be reset only after the GPU has finished. A
  // Metal 4 queue does not limit the number of command buffers.
  id<MTL4CommandAllocator> allocator = bindings.keep([device_.get() newCommandAllocator], "a command allocator", nil);
  id<MTL4CommandBuffer> commands = bindings.keep([device_.get() newCommandBuffer], "a command buffer", nil);
  [commands beginCommandBufferWithAllocator:allocator];
  [commands useResidencySet:bindings.residency()];
  id<MTL4ComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  NSString* name = label ? to_ns(*label) : nil;
  if (name) [encoder pushDebugGroup:name];
  [encoder setComputePipelineState:kernel.pipeline_for(dispatch)];
  [encoder setArgumentTable:bindings.table()];
  NSUInteger locals = 0;
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].kind != Argument::Kind::threadgroup) continue;
    if (const size_t bytes = arguments[i].size)
      [encoder setThreadgroupMemoryLength:round_up_threadgroup_memory(bytes) atIndex:locals];
    ++locals;
  }
  if (dispatch.by_threads)
    [encoder dispatchThreads:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  else
    [encoder dispatchThreadgroups:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  if (name) [encoder popDebugGroup];
  [encoder endEncoding];
  [commands endCommandBuffer];

  work->event = done_;
  work->value = ++last_;
  const auto options = make<MTL4CommitOptions*>("MTL4CommitOptions");
  const auto failure = work->failure;
  const auto done = done_;
  const uint64_t value = work->value;
  // The CPU signals the event after it has stored the error, if any. So the event is also signaled if the dispatch
  // fails.
  [options.get() addFeedbackHandler:^(id<MTL4CommitFeedback> feedback) {
    AutoreleasePool pool;
    if (NSError* error = feedback.error) {
      std::lock_guard<std::mutex> lock(failure->mutex);
      failure->message = describe(error);
      failure->out_of_memory = error.code == MTL4CommandQueueErrorOutOfMemory;
    }
    done.get().signaledValue = value;
  }];
  id<MTL4CommandQueue> queue = queue_.get();
  if (after) [queue waitForEvent:event value:after];
  [queue commit:&commands count:1 options:options.get()];
  return work;
}

#else
TensorQueue::TensorQueue(Owned<id<MTLDevice>>) {
  throw Error("tensors as arguments of kernels need mpsx to be built with the SDK of macOS 26 or later");
}
std::shared_ptr<TensorDispatch> TensorQueue::dispatch(const MetalKernel&, const Argument*, size_t, const Dispatch&,
                                                      const Label&, id<MTLBuffer>, id<MTLSharedEvent>, uint64_t) {
  return nullptr;
}
#endif

}  // namespace mpsx::driver::metal
