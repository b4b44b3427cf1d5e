// MTLCommandQueue and MTLCommandBuffer. Each queue has its own thread, which runs the committed work.
#include "objects.h"

using emulation::Commands;
using emulation::Line;

namespace {

void leave(Line& line) {
  {
    std::lock_guard<std::mutex> lock(line.mutex);
    --line.alive;
  }
  line.changed.notify_all();
}

// Runs on the queue's thread until the queue is freed.
void serve(const std::shared_ptr<Line>& line) {
  for (;;) {
    EmulatedCommandBuffer* next;
    {
      std::unique_lock<std::mutex> lock(line->mutex);
      line->changed.wait(lock, [&] { return line->closing || !line->committed.empty(); });
      if (line->committed.empty()) return;
      next = (EmulatedCommandBuffer*)line->committed.front();
      line->committed.pop_front();
    }
    NSAutoreleasePool* pool = [NSAutoreleasePool new];
    [next runCommands];
    leave(*line);
    [next release];
    [pool drain];
  }
}

// Runs the dispatches between two barriers in random order, as a GPU may. Unlike hardware, the emulation detects faults
// in kernels.
NSError* run_all(std::vector<emulation::Launch>& launches) {
  std::vector<emulation::Launch*> order;
  for (auto& launch : launches) order.push_back(&launch);
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && order[end]->interval == order[begin]->interval;) ++end;
    for (size_t i = end - begin; i > 1; --i)
      std::swap(order[begin + i - 1], order[begin + emulation::random_number() % i]);
  }
  try {
    for (auto* launch : order) launch->run();
    return nil;
  } catch (const mpsx::driver::Error& e) {
    return emulation::error(MTLCommandBufferErrorPageFault, e.what());
  }
}

}  // namespace

@implementation EmulatedQueue
- (instancetype)init {
  line = new std::shared_ptr<Line>(std::make_shared<Line>());
  thread = new std::thread(serve, *line);
  return self;
}
- (NSString*)label {
  return nil;
}
- (void)setLabel:(NSString*)label {
  EMULATION_REQUIRE(label, "a queue's label is nil");
}
- (void)addResidencySet:(id<MTLResidencySet>)set {
  emulation::add_resident(set);
}
- (void)removeResidencySet:(id<MTLResidencySet>)set {
  emulation::remove_resident(set);
}
- (id<MTLCommandBuffer>)commandBuffer {
  return [self commandBufferThatRetains:true];
}
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  return [self commandBufferThatRetains:false];
}
- (id<MTLCommandBuffer>)commandBufferThatRetains:(bool)retains {
  if (emulation::fails("exception")) throw emulation::Raised();
  if (emulation::fails("queue")) return nil;
  Line& own = **line;
  {
    std::unique_lock<std::mutex> lock(own.mutex);
    own.changed.wait(lock, [&] { return own.alive < emulation::kMaxCommandBuffers; });
    ++own.alive;
  }
  EmulatedCommandBuffer* made = [EmulatedCommandBuffer alloc];
  made->commands = new Commands;
  made->commands->retains = retains;
  made->line = new std::shared_ptr<Line>(*line);
  made->queue = [self retain];
  return [made autorelease];
}
- (void)dealloc {
  {
    std::lock_guard<std::mutex> lock((*line)->mutex);
    (*line)->closing = true;
  }
  (*line)->changed.notify_all();
  if (thread->get_id() == std::this_thread::get_id())
    thread->detach();
  else
    thread->join();
  delete thread;
  delete line;
  [super dealloc];
}
@end

@implementation EmulatedFence
@end

@implementation EmulatedSharedEvent
- (uint64_t)signaledValue {
  return *value;
}
- (void)setSignaledValue:(uint64_t)signaled {
  if (emulation::Order::completing) emulation::Order::completing->signal(self, signaled);
  *value = signaled;
}
- (void)dealloc {
  emulation::Order::forget(self);
  delete value;
  [super dealloc];
}
@end

@implementation EmulatedCommandBuffer
- (NSString*)label {
  return emulation::string(commands->label);
}
- (void)setLabel:(NSString*)label {
  commands->label = emulation::text(label);
}
- (MTLCommandBufferStatus)status {
  std::lock_guard<std::mutex> lock(commands->mutex);
  return commands->status;
}
- (NSError*)error {
  std::lock_guard<std::mutex> lock(commands->mutex);
  return commands->error;
}
- (CFTimeInterval)GPUStartTime {
  std::lock_guard<std::mutex> lock(commands->mutex);
  return commands->start;
}
- (CFTimeInterval)GPUEndTime {
  std::lock_guard<std::mutex> lock(commands->mutex);
  return commands->end;
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
  EMULATION_REQUIRE(self.status < MTLCommandBufferStatusCommitted, "an encoder of a committed command buffer");
  EMULATION_REQUIRE(!commands->encoding, "an encoder while another is open");
  EMULATION_REQUIRE(!commands->signals, "an encoder after a signal is not emulated");
  EMULATION_REQUIRE(commands->launches.empty(), "only one encoder per command buffer is emulated");
  if (emulation::fails("encoder")) return nil;
  commands->encoding = true;
  commands->concurrent = type == MTLDispatchTypeConcurrent;
  EmulatedEncoder* made = [EmulatedEncoder alloc];
  made->buffer = [self retain];
  made->encoding = new emulation::Encoding;
  return [made autorelease];
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  EMULATION_REQUIRE(event, "encodeSignalEvent: of nil");
  EMULATION_REQUIRE(self.status < MTLCommandBufferStatusCommitted, "encodeSignalEvent: after commit");
  EMULATION_REQUIRE(!commands->encoding, "encodeSignalEvent: while an encoder is open");
  EMULATION_REQUIRE(!commands->signals, "only one signal a command buffer is emulated");
  commands->signals = [(id)event retain];
  commands->signal_value = value;
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  EMULATION_REQUIRE(event, "encodeWaitForEvent: of nil");
  EMULATION_REQUIRE(self.status < MTLCommandBufferStatusCommitted, "encodeWaitForEvent: after commit");
  EMULATION_REQUIRE(!commands->encoding && commands->launches.empty() && !commands->awaits,
                    "only one wait, at the start of a command buffer, is emulated");
  commands->awaits = [(id)event retain];
  commands->awaited_value = value;
}
- (void)commit {
  EMULATION_REQUIRE(!commands->encoding, "commit while an encoder is open");
  {
    std::lock_guard<std::mutex> lock(commands->mutex);
    EMULATION_REQUIRE(commands->status < MTLCommandBufferStatusCommitted, "a second commit");
    commands->status = MTLCommandBufferStatusCommitted;
  }
  ++emulation::counts().command_buffers;
  [self retain];
  {
    std::lock_guard<std::mutex> lock((*line)->mutex);
    (*line)->committed.push_back(self);
  }
  (*line)->changed.notify_all();
}
- (void)waitUntilCompleted {
  std::unique_lock<std::mutex> lock(commands->mutex);
  EMULATION_REQUIRE(commands->status >= MTLCommandBufferStatusCommitted, "waitUntilCompleted before commit never ends");
  if (commands->status < MTLCommandBufferStatusCompleted) ++emulation::counts().waits;
  commands->changed.wait(lock, [&] { return commands->status >= MTLCommandBufferStatusCompleted; });
}
- (void)runCommands {
  emulation::lag();
  if (commands->awaits) {
    emulation::wait_for_event(commands->awaits, commands->awaited_value);
    (*line)->order.wait(commands->awaits, commands->awaited_value);
  }
  {
    std::lock_guard<std::mutex> lock(commands->mutex);
    commands->status = MTLCommandBufferStatusScheduled;
    commands->start = emulation::seconds();
  }
  NSError* error = nil;
  [self touch];
  (*line)->order.run(commands->launches, commands->awaited_fences, commands->updated_fences, commands->label);
  if (emulation::fails("device_lost")) (*line)->lost = true;
  if ((*line)->lost)
    error = emulation::error(MTLCommandBufferErrorDeviceRemoved, "Internal Error (0000000e:Internal Error)");
  else if (emulation::fails("command_buffer"))
    error = emulation::error(MTLCommandBufferErrorTimeout,
                             "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)");
  else if (emulation::fails("gpu_memory"))
    error = emulation::error(MTLCommandBufferErrorOutOfMemory,
                             "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)");
  else if (!emulation::fails("execution"))
    error = run_all(commands->launches);
  [self touch];
  if (!error) [self signal];
  emulation::lag();
  emulation::wait_for_completions();
  for (auto* memory : commands->owned) memory->take_from_gpu();
  commands->owned.clear();
  for (id object : commands->retained) [object release];
  commands->retained.clear();
  std::lock_guard<std::mutex> lock(commands->mutex);
  commands->end = emulation::seconds();
  commands->error = [error retain];
  commands->status = error ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
  commands->changed.notify_all();
}
// Aborts if an object that the command buffer does not retain has been freed.
- (void)touch {
  for (id object : commands->unretained) [object retainCount];
  for (id fence : commands->awaited_fences) [fence retainCount];
  for (id fence : commands->updated_fences) [fence retainCount];
}
// Signals the event once all earlier work is done. From then on, the CPU may access the memory, even before the command
// buffer completes.
- (void)signal {
  if (!commands->signals) return;
  emulation::lag();
  for (auto* memory : commands->owned) memory->take_from_gpu();
  commands->owned.clear();
  (*line)->order.signal(commands->signals, commands->signal_value);
  const uint64_t before = ((EmulatedSharedEvent*)commands->signals)->value->exchange(commands->signal_value);
  EMULATION_REQUIRE(before < commands->signal_value, "a shared event goes from %llu to %llu",
                    (unsigned long long)before, (unsigned long long)commands->signal_value);
}
- (void)dealloc {
  if (commands->status < MTLCommandBufferStatusCommitted) {
    EMULATION_REQUIRE(!commands->encoding, "a command buffer is freed while its encoder is open");
    for (auto* memory : commands->owned) memory->take_from_gpu();
    for (id object : commands->retained) [object release];
    leave(**line);
  }
  [commands->error release];
  [commands->signals release];
  [commands->awaits release];
  delete commands;
  delete line;
  [queue release];
  [super dealloc];
}
@end
