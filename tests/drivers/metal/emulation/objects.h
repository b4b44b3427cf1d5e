// The emulated Metal objects.
#pragma once

#import <Metal/Metal.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "foundation.h"
#include "hazards.h"
#include "kernels.h"
#include "memory.h"
#include "validation.h"

namespace emulation {

// The state of a command buffer. The queue's thread processes it after the commit.
struct Commands {
  std::mutex mutex;
  std::condition_variable changed;
  MTLCommandBufferStatus status = MTLCommandBufferStatusNotEnqueued;
  NSError* error = nil;
  double start = 0, end = 0;
  std::string label;
  bool encoding = false;  // whether an encoder is open
  std::vector<Launch> launches;
  bool concurrent = false;  // the encoder's type
  bool retains = true;      // whether it retains what it uses
  std::vector<id> retained;
  std::vector<id> unretained;  // used without a reference
  std::vector<id> awaited_fences, updated_fences;
  std::set<SharedMemory*> owned;
  id signals = nil;  // event to signal at the end, and its value
  uint64_t signal_value = 0;
  id awaits = nil;  // event to wait for at the start, and its value
  uint64_t awaited_value = 0;
};

// Command buffers in flight. The queue shares this object with its command buffers.
struct Line {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<id> committed;
  unsigned alive = 0;  // number of command buffers that are neither complete nor freed
  bool closing = false;
  std::atomic<bool> lost{false};  // the device is lost and no longer runs anything
  Order order{false};             // used only by the queue's thread
};
// Opens an archive file, or creates an empty archive if `path` is empty. If the file is invalid, returns nil and sets
// the error.
id<MTLBinaryArchive> open_archive(const std::string& path, NSError** error);

// Implemented in tensors.mm.
void add_buffer(id buffer);  // lets argument tables find the buffer by its GPU address
void remove_buffer(id buffer);
void wait_for_event(id event, uint64_t value);
id<MTLTensor> make_tensor(id buffer, MTLTensorDescriptor* descriptor, NSUInteger offset, NSError** error);
id<MTL4CommandQueue> new_queue_4(void);
id<MTL4CommandAllocator> new_allocator(void);
id<MTL4CommandBuffer> new_command_buffer_4(void);
id<MTL4ArgumentTable> new_argument_table(MTL4ArgumentTableDescriptor* descriptor);
id<MTLResidencySet> new_residency_set(void);

id<MTLComputePipelineState> pipeline_of(id<MTLFunction> function);
MTLComputePipelineReflection* reflection_of(id<MTLFunction> function);  // autoreleased

// Stands in for NSException, which is not a C++ exception.
struct Raised {};

constexpr unsigned kMaxCommandBuffers = 64;  // limit for newCommandQueue

struct Binding {
  Launch::Buffer argument;
  SharedMemory* shared = nullptr;
  bool tracked = true;
  bool fresh = false;  // whether it was set since the last dispatch
};
struct Encoding {
  Binding bindings[MPSX_MAX_BUFFERS];
  std::vector<size_t> threadgroup_bytes;
  bool ended = false;
  std::string label;
  unsigned groups = 0;    // number of open debug groups
  unsigned barriers = 0;  // number of barriers so far
};

}  // namespace emulation

@interface EmulatedBuffer : NSObject <MTLBuffer> {
 @public
  emulation::SharedMemory* shared;  // null if the buffer does not own its memory
  void* memory;
  NSUInteger size;
  bool tracked;  // whether Metal orders the encoders that use it
}
@end

@interface EmulatedFunction : NSObject <MTLFunction> {
 @public
  std::shared_ptr<emulation::KernelImage>* image;
  const mpsx_kernel_record* record;
  emulation::ConstantValues* constants;
}
@end

namespace emulation {
// Returns the key of the pipeline in an archive: the function and the values of its constants.
std::string key_of(const EmulatedFunction* function);
// Returns the arguments that must be bound. Empty for libraries that were not compiled for the emulation.
std::vector<const KernelBinding*> bindings_of(const EmulatedFunction* function);
}

@interface EmulatedLibrary : NSObject <MTLLibrary> {
 @public
  std::shared_ptr<emulation::KernelImage>* image;
}
@end

@interface EmulatedPipeline : NSObject <MTLComputePipelineState> {
 @public
  EmulatedFunction* function;
  bool reflected;  // whether the caller requested reflection
  MTLSize required;  // required threads per threadgroup, or 0 for any number
}
@end

namespace emulation {
// Checks a dispatch against requiredThreadsPerThreadgroup.
void check_required_threads(EmulatedPipeline* pipeline, MTLSize group, MTLSize grid, bool by_threads);
}

@interface EmulatedArchive : NSObject <MTLBinaryArchive> {
 @public
  std::set<std::string>* names;  // functions whose pipelines are in the archive
}
@end

@interface EmulatedQueue : NSObject <MTLCommandQueue> {
 @public
  std::shared_ptr<emulation::Line>* line;
  std::thread* thread;
}
- (id<MTLCommandBuffer>)commandBufferThatRetains:(bool)retains;
@end

@interface EmulatedFence : NSObject <MTLFence>
@end

@interface EmulatedSharedEvent : NSObject <MTLSharedEvent> {
 @public
  std::atomic<uint64_t>* value;
}
@end

@interface EmulatedCommandBuffer : NSObject <MTLCommandBuffer> {
 @public
  emulation::Commands* commands;
  std::shared_ptr<emulation::Line>* line;
  EmulatedQueue* queue;
}
- (void)runCommands;
@end

@interface EmulatedEncoder : NSObject <MTLComputeCommandEncoder> {
 @public
  EmulatedCommandBuffer* buffer;
  EmulatedPipeline* pipeline;
  emulation::Encoding* encoding;
}
@end

@interface EmulatedDevice : NSObject <MTLDevice>
@end
