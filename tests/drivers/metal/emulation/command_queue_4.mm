// The command queue and compute encoder of Metal 4. Arguments are bound through an argument table.
#include <functional>

#include "blocks.h"
#include "tensors.h"

using emulation::Launch;
using emulation::Table;

@interface EmulatedAllocator : NSObject <MTL4CommandAllocator>
@end

namespace {
struct Commands4 {
  enum { created, recording, encoding, ended, committed } state = created;
  EmulatedAllocator* allocator = nil;
  std::vector<EmulatedResidencySet*> residency;
  std::vector<Launch> launches;
  std::vector<id> used;  // not retained
  std::set<emulation::SharedMemory*> owned;
};
}  // namespace

@interface EmulatedCommandBuffer4 : NSObject <MTL4CommandBuffer> {
 @public
  Commands4* commands;
}
@end

@interface EmulatedEncoder4 : NSObject <MTL4ComputeCommandEncoder> {
 @public
  EmulatedCommandBuffer4* buffer;
  EmulatedPipeline* pipeline;
  EmulatedArgumentTable* arguments;
  std::vector<size_t>* threadgroup_bytes;
  unsigned groups;
}
@end

namespace {

// Runs a queue's work in order, on a separate thread.
struct Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool closing = false;
  emulation::Order order{true};  // used only by the queue's thread

  void push(std::function<void()> item) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      work.push_back(std::move(item));
    }
    changed.notify_all();
  }
  void serve() {
    for (;;) {
      std::function<void()> next;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return closing || !work.empty(); });
        if (work.empty()) return;
        next = std::move(work.front());
        work.pop_front();
      }
      NSAutoreleasePool* pool = [NSAutoreleasePool new];
      next();
      [pool drain];
    }
  }
};

// Returns the buffer that contains a GPU address. The buffer must be in a residency set.
EmulatedBuffer* resident(const Commands4& commands, uint64_t address, const char* kernel) {
  std::lock_guard<std::mutex> lock(emulation::live().mutex);
  auto found = emulation::live().buffers.upper_bound(address);
  EMULATION_REQUIRE(found != emulation::live().buffers.begin(), "kernel %s: no buffer at a GPU address", kernel);
  auto* buffer = (EmulatedBuffer*)(--found)->second;
  EMULATION_REQUIRE(address - found->first < buffer->size, "kernel %s: no buffer at a GPU address", kernel);
  for (auto* set : commands.residency)
    if (set->committed->count(buffer)) return buffer;
  emulation::invalid("kernel %s: a buffer is in no residency set", kernel);
}

void use(Commands4& commands, EmulatedBuffer* buffer) {
  commands.used.push_back(buffer);
  if (buffer->shared && commands.owned.insert(buffer->shared).second) buffer->shared->give_to_gpu();
}

// Converts a slot of an argument table to a kernel argument.
Launch::Buffer argument(Commands4& commands, const Table::Slot& slot, const emulation::KernelBinding* binding,
                        const char* kernel) {
  if (!binding || !binding->tensor) {
    EMULATION_REQUIRE(slot.kind == Table::Slot::address, "kernel %s: expected an address, got a tensor", kernel);
    EmulatedBuffer* buffer = resident(commands, slot.value, kernel);
    use(commands, buffer);
    const uint64_t address = [buffer gpuAddress];
    return {reinterpret_cast<void*>(address), size_t(slot.value - address), buffer->size};
  }
  EMULATION_REQUIRE(slot.kind == Table::Slot::tensor, "kernel %s: expected a tensor at index %u", kernel,
                    binding->index);
  EmulatedTensor* tensor;
  {
    std::lock_guard<std::mutex> lock(emulation::live().mutex);
    const auto found = emulation::live().tensors.find(slot.value);
    EMULATION_REQUIRE(found != emulation::live().tensors.end(), "kernel %s: no tensor of that resource ID", kernel);
    tensor = (EmulatedTensor*)found->second;
  }
  EMULATION_REQUIRE(tensor->rank == binding->sizes.size() && tensor->type == binding->element,
                    "kernel %s: a tensor of rank %u and type %ld at index %u, expected rank %zu and type %ld", kernel,
                    tensor->rank, long(tensor->type), binding->index, binding->sizes.size(), long(binding->element));
  bool is_resident = false;
  for (auto* set : commands.residency) is_resident = is_resident || set->committed->count(tensor);
  EMULATION_REQUIRE(is_resident, "kernel %s: a tensor is in no residency set", kernel);
  commands.used.push_back(tensor);
  use(commands, tensor->buffer);
  const auto* bytes = reinterpret_cast<const unsigned char*>(tensor->value);
  return {.base = reinterpret_cast<void*>([tensor->buffer gpuAddress]),
          .size = tensor->buffer->size,
          .value = {bytes, bytes + sizeof(emulation::TensorValue)}};
}

void encode(EmulatedEncoder4* encoder, MTLSize grid, MTLSize group, bool by_threads) {
  Commands4& commands = *encoder->buffer->commands;
  EMULATION_REQUIRE(commands.state == Commands4::encoding, "a dispatch after endEncoding");
  EMULATION_REQUIRE(encoder->pipeline && encoder->arguments, "a dispatch without a pipeline or an argument table");
  Launch launch;
  EmulatedFunction* function = encoder->pipeline->function;
  launch.image = *function->image;
  launch.record = function->record;
  launch.constants = *function->constants;
  const char* name = launch.record->name;
  const NSUInteger size = group.width * group.height * group.depth;
  EMULATION_REQUIRE(size > 0 && size <= encoder->pipeline.maxTotalThreadsPerThreadgroup,
                    "kernel %s: %lu threads per threadgroup", name, size);
  emulation::check_required_threads(encoder->pipeline, group, grid, by_threads);
  std::map<unsigned, const emulation::KernelBinding*> bindings;
  for (const auto* b : emulation::bindings_of(function))
    if (!b->threadgroup) bindings[b->index] = b;
  const auto& slots = encoder->arguments->table->slots;
  for (const auto& [index, binding] : bindings)
    EMULATION_REQUIRE(index < slots.size() && slots[index].kind, "kernel %s: nothing is bound at index %u", name,
                      index);
  launch.buffers.resize(slots.size());
  for (unsigned i = 0; i < slots.size(); ++i) {
    const auto found = bindings.find(i);
    if (slots[i].kind)
      launch.buffers[i] = argument(commands, slots[i], found == bindings.end() ? nullptr : found->second, name);
  }
  launch.threadgroup_bytes = *encoder->threadgroup_bytes;
  launch.shape = {{uint32_t(grid.width), uint32_t(grid.height), uint32_t(grid.depth)},
                  {uint32_t(group.width), uint32_t(group.height), uint32_t(group.depth)}, by_threads, 1};
  commands.used.push_back(encoder->pipeline);
  commands.used.push_back(encoder->arguments);
  commands.launches.push_back(std::move(launch));
  ++emulation::counts().dispatches;
}

}  // namespace

@interface EmulatedFeedback : NSObject <MTL4CommitFeedback> {
 @public
  NSError* failure;
}
@end

@implementation EmulatedFeedback
- (NSError*)error {
  return failure;
}
- (void)dealloc {
  [failure release];
  [super dealloc];
}
@end

@interface EmulatedQueue4 : NSObject <MTL4CommandQueue> {
 @public
  std::shared_ptr<Worker>* worker;
  std::thread* thread;
}
@end

@implementation EmulatedAllocator
@end

@implementation EmulatedCommandBuffer4
- (void)beginCommandBufferWithAllocator:(id<MTL4CommandAllocator>)allocator {
  EMULATION_REQUIRE(commands->state == Commands4::created && allocator, "beginCommandBufferWithAllocator: twice");
  commands->state = Commands4::recording;
  commands->allocator = (EmulatedAllocator*)allocator;
}
- (void)useResidencySet:(id<MTLResidencySet>)set {
  EMULATION_REQUIRE(commands->state == Commands4::recording, "useResidencySet: outside of recording");
  commands->residency.push_back((EmulatedResidencySet*)set);
}
- (id<MTL4ComputeCommandEncoder>)computeCommandEncoder {
  EMULATION_REQUIRE(commands->state == Commands4::recording, "an encoder outside of recording");
  commands->state = Commands4::encoding;
  EmulatedEncoder4* made = [EmulatedEncoder4 alloc];
  made->buffer = [self retain];
  made->threadgroup_bytes = new std::vector<size_t>;
  return [made autorelease];
}
- (void)endCommandBuffer {
  EMULATION_REQUIRE(commands->state == Commands4::recording, "endCommandBuffer while an encoder is open");
  commands->state = Commands4::ended;
}
- (void)dealloc {
  for (auto* memory : commands->owned) memory->take_from_gpu();
  delete commands;
  [super dealloc];
}
@end

@implementation EmulatedEncoder4
- (void)pushDebugGroup:(NSString*)name {
  EMULATION_REQUIRE(name, "a debug group without a name");
  ++groups;
  ++emulation::counts().debug_groups;
}
- (void)popDebugGroup {
  EMULATION_REQUIRE(groups > 0, "popDebugGroup without pushDebugGroup:");
  --groups;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  pipeline = (EmulatedPipeline*)state;
}
- (void)setArgumentTable:(id<MTL4ArgumentTable>)table {
  arguments = (EmulatedArgumentTable*)table;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  EMULATION_REQUIRE(length > 0 && length % 16 == 0, "setThreadgroupMemoryLength: of %lu", length);
  if (index >= threadgroup_bytes->size()) threadgroup_bytes->resize(index + 1);
  (*threadgroup_bytes)[index] = length;
}
- (void)dispatchThreadgroups:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
  encode(self, grid, group, false);
}
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group {
  encode(self, threads, group, true);
}
- (void)endEncoding {
  EMULATION_REQUIRE(buffer->commands->state == Commands4::encoding && !groups, "endEncoding");
  buffer->commands->state = Commands4::recording;
}
- (void)dealloc {
  delete threadgroup_bytes;
  [buffer release];
  [super dealloc];
}
@end

@implementation MTL4CommitOptions
- (instancetype)init {
  state = new std::vector<MTL4CommitFeedbackHandler>;
  return self;
}
- (void)addFeedbackHandler:(MTL4CommitFeedbackHandler)block {
  static_cast<std::vector<MTL4CommitFeedbackHandler>*>(state)->push_back(
      (MTL4CommitFeedbackHandler)emulation::copy_block((const void*)block));
}
- (void)dealloc {
  auto* handlers = static_cast<std::vector<MTL4CommitFeedbackHandler>*>(state);
  for (auto handler : *handlers) emulation::release_block((void*)handler);
  delete handlers;
  [super dealloc];
}
@end

@implementation EmulatedQueue4
- (instancetype)init {
  worker = new std::shared_ptr<Worker>(std::make_shared<Worker>());
  thread = new std::thread([own = *worker] { own->serve(); });
  return self;
}
- (void)waitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [(id)event retain];
  Worker* const own = worker->get();
  (*worker)->push([=] {
    emulation::wait_for_event(event, value);
    own->order.wait(event, value);
    [(id)event release];
  });
}
- (void)commit:(const id<MTL4CommandBuffer>*)buffers
         count:(NSUInteger)count
       options:(MTL4CommitOptions*)options {
  EMULATION_REQUIRE(count == 1 && options, "only one command buffer with options is emulated");
  Commands4* commands = ((EmulatedCommandBuffer4*)buffers[0])->commands;
  EMULATION_REQUIRE(commands->state == Commands4::ended, "commit: of a command buffer that has not ended");
  commands->state = Commands4::committed;
  id buffer = buffers[0];
  [options retain];
  Worker* const own = worker->get();
  (*worker)->push([=] {
    emulation::lag();
    // If the object was freed, this ends the process.
    [buffer retainCount];
    [commands->allocator retainCount];
    for (id set : commands->residency) [set retainCount];
    for (id object : commands->used) [object retainCount];
    EmulatedFeedback* feedback = [[EmulatedFeedback alloc] autorelease];
    if (emulation::fails("tensor_commands")) {
      feedback->failure = [emulation::error(MTL4CommandQueueErrorTimeout, "injected timeout") retain];
    } else {
      own->order.run(commands->launches, {}, {}, "of a Metal 4 queue");
      try {
        for (Launch& launch : commands->launches) launch.run();
      } catch (const mpsx::driver::Error& e) {
        feedback->failure = [emulation::error(MTL4CommandQueueErrorTimeout, e.what()) retain];
      }
    }
    for (auto* memory : commands->owned) memory->take_from_gpu();
    commands->owned.clear();
    emulation::Order::completing = &own->order;
    for (auto handler : *static_cast<std::vector<MTL4CommitFeedbackHandler>*>(options->state)) handler(feedback);
    emulation::Order::completing = nullptr;
    [options release];
  });
}
- (void)dealloc {
  {
    std::lock_guard<std::mutex> lock((*worker)->mutex);
    (*worker)->closing = true;
  }
  (*worker)->changed.notify_all();
  thread->join();
  delete thread;
  delete worker;
  [super dealloc];
}
@end

id<MTL4CommandQueue> emulation::new_queue_4(void) { return [[EmulatedQueue4 alloc] init]; }
id<MTL4CommandAllocator> emulation::new_allocator(void) { return [EmulatedAllocator alloc]; }
id<MTL4CommandBuffer> emulation::new_command_buffer_4(void) {
  EmulatedCommandBuffer4* made = [EmulatedCommandBuffer4 alloc];
  made->commands = new Commands4;
  return made;
}
