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
  std::vector<id> retained;
  std::set<SharedMemory*> owned;
  id signals = nil;  // the event to signal at the end, and its value
  uint64_t signal_value = 0;
  id awaits = nil;  // the event to wait for at the start, and its value
  uint64_t awaited_value = 0;
};

// Command buffers in flight, shared by the queue and its command buffers.
struct Line {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<id> committed;
  unsigned alive = 0;  // number of command buffers that are neither complete nor freed
  bool closing = false;
  std::atomic<bool> lost{false};  // whether the device is lost, so that nothing runs any more
};
// Opens an archive from a file, or creates one if `path` is empty. Returns nil and sets the error if the file is
// invalid.
id<MTLBinaryArchive> open_archive(const std::string& path, NSError** error);

// tensors.mm
void add_buffer(id buffer);  // registers the buffer so that argument tables find it by GPU address
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

// Stands in for NSException, which does not derive from a C++ exception class.
struct Raised {};

constexpr unsigned kMaxCommandBuffers = 64;  // limit of newCommandQueue

struct Binding {
  Launch::Buffer argument;
  SharedMemory* shared = nullptr;
  bool fresh = false;  // whether it was set since the last dispatch
};
struct Encoding {
  Binding bindings[MPSX_MAX_BUFFERS];
  std::vector<size_t> threadgroup_bytes;
  bool ended = false;
  std::string label;
  unsigned groups = 0;  // open debug groups
};

}  // namespace emulation

@interface EmulatedBuffer : NSObject <MTLBuffer> {
 @public
  emulation::SharedMemory* shared;  // null if the buffer does not own its memory
  void* memory;
  NSUInteger size;
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
// Returns a pipeline's key in an archive, which consists of the function and the values of its constants.
std::string key_of(const EmulatedFunction* function);
// Returns the arguments to bind, or an empty list for libraries that were not compiled for the emulation.
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
  bool reflected;  // whether reflection was requested
  MTLSize required;  // threads per threadgroup of every dispatch; 0 for any
}
@end

namespace emulation {
// Checks a dispatch against requiredThreadsPerThreadgroup.
void check_required_threads(EmulatedPipeline* pipeline, MTLSize group, MTLSize grid, bool by_threads);
}

@interface EmulatedArchive : NSObject <MTLBinaryArchive> {
 @public
  std::set<std::string>* names;  // functions with a pipeline in the archive
}
@end

@interface EmulatedQueue : NSObject <MTLCommandQueue> {
 @public
  std::shared_ptr<emulation::Line>* line;
  std::thread* thread;
}
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
