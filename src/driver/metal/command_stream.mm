#include "driver/metal/command_stream.h"

#include <time.h>

#include <cstdlib>

namespace mpsx::driver::metal {
namespace {

constexpr size_t kMaxBuffers = 31;     // Metal's limit of buffers a kernel
constexpr size_t kMaxBytes = 4096;     // … and of setBytes
constexpr size_t kThreadgroupUnit = 16;  // what lengths of threadgroup memory are multiples of

// A command buffer is committed after this many kernels or bytes of bound buffers; earlier when the GPU is idle.
constexpr size_t kBatch = 64, kFirstBatch = 8;
constexpr uint64_t kBatchBytes = uint64_t(1) << 30;

// Seconds of the clock that GPUStartTime and GPUEndTime count in: mach_absolute_time on macOS.
double host_seconds() {
#ifdef CLOCK_UPTIME_RAW
  constexpr clockid_t kClock = CLOCK_UPTIME_RAW;
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec now{};
  clock_gettime(kClock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value && std::string_view(value) != "0";
}

MTLSize to_metal(const Size& size) { return MTLSizeMake(size.x, size.y, size.z); }

size_t round_up(size_t bytes) { return (bytes + kThreadgroupUnit - 1) / kThreadgroupUnit * kThreadgroupUnit; }

bool finished(id<MTLCommandBuffer> buffer) { return buffer.status >= MTLCommandBufferStatusCompleted; }

// Checks that a user's kernel has all its arguments.
void check_bindings(const MetalKernel& kernel, const Argument* arguments, size_t count, size_t buffers) {
  const auto nothing = [&](const Binding& b, const char* kind) {
    return "nothing is given for " + b.name + " [[" + kind + "(" + std::to_string(b.index) + ")]]";
  };
  for (const Binding& b : kernel.buffers) {
    if (b.index >= buffers)
      throw Error(kernel.name + ": expects " + std::to_string(kernel.buffers.back().index + 1) + " buffers, got " +
                  std::to_string(buffers) + ": " + nothing(b, "buffer"));
    size_t at = 0;  // of that buffer among the arguments
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].kind != Argument::Kind::threadgroup && at++ == b.index && !arguments[i].data)
        throw Error(kernel.name + ": " + nothing(b, "buffer"));
  }
  for (const Binding& b : kernel.threadgroups) {
    size_t at = 0, bytes = 0;
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].kind == Argument::Kind::threadgroup && at++ == b.index) bytes = arguments[i].size;
    if (!bytes) throw Error(kernel.name + ": " + nothing(b, "threadgroup"));
  }
}

}  // namespace

// "softmax_f32, add_f32 x3 in forward/attention"
std::string CommandStream::list(const std::vector<Encoded>& kernels) {
  std::string text;
  for (size_t i = 0, n; i < kernels.size(); i += n) {
    for (n = 1; i + n < kernels.size() && kernels[i + n] == kernels[i];) ++n;
    text += (i ? ", " : "") + kernels[i].kernel->name + (n > 1 ? " x" + std::to_string(n) : "");
    if (kernels[i].label) text += " in " + *kernels[i].label;
  }
  return text;
}

CommandStream::CommandStream(Owned<id<MTLDevice>> device)
    : device_(std::move(device)),
      queue_(Owned<id<MTLCommandQueue>>::taking([device_.get() newCommandQueue])),
      absent_(Owned<id<MTLBuffer>>::taking([device_.get() newBufferWithLength:kThreadgroupUnit
                                                                      options:MTLResourceStorageModeShared])),
      progress_(Owned<id<MTLSharedEvent>>::taking([device_.get() newSharedEvent])),
      threadgroup_limit_(device_.get().maxThreadgroupMemoryLength),
      one_by_one_(is_set("MPSX_METAL_DEBUG")) {
  if (!queue_ || !absent_ || !progress_) throw Error("Metal gave no command queue");
  queue_.get().label = @"mpsx";
}

CommandStream::~CommandStream() {
  if (!is_forked()) finish();
}

void CommandStream::finish() noexcept {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();
  for (const Batch& batch : flying_) [batch.buffer.get() waitUntilCompleted];
  collect();
}

id<MTLComputeCommandEncoder> CommandStream::encoder() {
  if (encoder_) return encoder_.get();
  // Retains bound objects until it completes. Blocks when too many command buffers are in flight.
  auto buffer = Owned<id<MTLCommandBuffer>>::sharing([queue_.get() commandBuffer]);
  if (!buffer) throw Error("Metal gave no command buffer");
  encoder_ = Owned<id<MTLComputeCommandEncoder>>::sharing(
      [buffer.get() computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial]);
  if (!encoder_) throw Error("Metal gave no command encoder");
  open_ = {committed_ + 1, std::move(buffer), {}, 0};
  open_.kernels.reserve(kBatch);
  NSString* label = to_ns("mpsx " + std::to_string(open_.number));
  open_.buffer.get().label = label;
  encoder_.get().label = label;
  return encoder_.get();
}

// The encoder's next dispatches are shown under `label`.
void CommandStream::group(const Label& label) {
  if (label == group_) return;
  if (group_) [encoder_.get() popDebugGroup];
  group_ = label;
  if (!group_) return;
  NSString* name = to_ns(*group_);
  [encoder_.get() pushDebugGroup:name ? name : @"(a label that is not UTF-8)"];
}

// Checks for everything that makes Metal end the process.
void CommandStream::check(const MetalKernel& kernel, const Argument* arguments, size_t count,
                          const Dispatch& dispatch) const {
  size_t buffers = 0, threadgroup = kernel.static_threadgroup_bytes;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::threadgroup) {
      threadgroup += round_up(a.size);
      continue;
    }
    ++buffers;
    if (a.kind == Argument::Kind::bytes && (a.size == 0 || a.size > kMaxBytes))
      throw Error(kernel.name + ": an argument by value has 1 to 4096 bytes, got " + std::to_string(a.size));
    if (a.kind == Argument::Kind::buffer && a.data && a.size >= as_buffer(a.data).length)
      throw Error(kernel.name + ": offset " + std::to_string(a.size) + " lies outside buffer " +
                  std::to_string(buffers - 1) + " of " + std::to_string(as_buffer(a.data).length) + " bytes");
  }
  if (buffers > kMaxBuffers) throw Error(kernel.name + ": more than 31 buffers");
  if (kernel.reflected) check_bindings(kernel, arguments, count, buffers);
  if (threadgroup > threadgroup_limit_)
    throw Error(kernel.name + ": needs " + std::to_string(threadgroup) + " bytes of threadgroup memory, the limit is " +
                std::to_string(threadgroup_limit_));
  const uint64_t axes[][2] = {{dispatch.grid.x, dispatch.group.x}, {dispatch.grid.y, dispatch.group.y},
                              {dispatch.grid.z, dispatch.group.z}};
  for (const auto& [grid, group] : axes)
    if (grid * (dispatch.by_threads ? 1 : group) > UINT32_MAX)
      throw Error(kernel.name + ": a grid has at most 4294967295 threads an axis, got " + std::to_string(grid * group));
  if (dispatch.group.count() == 0 || dispatch.group.count() > kernel.max_threads)
    throw Error(kernel.name + ": expected 1 to " + std::to_string(kernel.max_threads) +
                " threads per threadgroup, got " + std::to_string(dispatch.group.count()));
}

uint64_t CommandStream::dispatch(const MetalKernel& kernel, const Argument* arguments, size_t count,
                                 const Dispatch& dispatch) {
  if (dispatch.grid.count() == 0) return 0;
  AutoreleasePool pool;
  check(kernel, arguments, count, dispatch);
  std::lock_guard<std::mutex> lock(mutex_);
  id<MTLComputeCommandEncoder> to = encoder();
  const Label label = current_label();
  group(label);
  [to setComputePipelineState:kernel.pipeline.get()];
  NSUInteger buffers = 0, locals = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    switch (a.kind) {
      case Argument::Kind::buffer: {
        id<MTLBuffer> buffer = a.data ? as_buffer(a.data) : absent_.get();
        open_.bytes += buffer.length;
        [to setBuffer:buffer offset:a.data ? a.size : 0 atIndex:buffers++];
        break;
      }
      case Argument::Kind::bytes: [to setBytes:a.data length:a.size atIndex:buffers++]; break;
      case Argument::Kind::threadgroup:
        if (a.size) [to setThreadgroupMemoryLength:round_up(a.size) atIndex:locals];
        ++locals;
        break;
    }
  }
  if (dispatch.by_threads)
    [to dispatchThreads:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  else
    [to dispatchThreadgroups:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  open_.kernels.push_back({&kernel, label});
  const uint64_t number = open_.number;
  if (full()) commit_open();
  return number;
}

bool CommandStream::full() {
  const size_t kernels = open_.kernels.size();
  if (kernels >= kBatch || open_.bytes >= kBatchBytes || one_by_one_) return true;
  if (kernels % kFirstBatch) return false;
  collect();
  return flying_.empty();
}

void CommandStream::commit_open() {
  if (!encoder_) return;
  group(nullptr);
  [encoder_.get() endEncoding];
  encoder_.reset();
  [open_.buffer.get() encodeSignalEvent:progress_.get() value:open_.number];
  [open_.buffer.get() commit];
  committed_ = open_.number;
  last_ = open_.buffer;
  flying_.push_back(std::move(open_));
  open_ = {};
}

// Drops the completed batches, and keeps their errors.
void CommandStream::collect() {
  while (!flying_.empty() && finished(flying_.front().buffer.get())) {
    const Batch& batch = flying_.front();
    id<MTLCommandBuffer> buffer = batch.buffer.get();
    if (buffer.status == MTLCommandBufferStatusError && failures_++ == 0) {
      failure_ = "the GPU failed in " + to_string(buffer.label) + ": " + describe(buffer.error) + "; " +
                 (batch.kernels.size() == 1 ? "kernel " : "among the kernels ") + list(batch.kernels);
      if (!one_by_one_ && batch.kernels.size() > 1) failure_ += " (MPSX_METAL_DEBUG=1 runs them one by one)";
      // Allocations succeed as long as there is address space; memory may run out only when the GPU needs it resident.
      out_of_memory_ = buffer.error.code == MTLCommandBufferErrorOutOfMemory;
    }
    flying_.pop_front();
  }
}

void CommandStream::throw_failure() {
  if (failures_ == 0) return;
  std::string message = std::exchange(failure_, {});
  const uint64_t others = std::exchange(failures_, 0) - 1;
  if (others) message += "; " + std::to_string(others) + " command buffers after it failed too";
  if (out_of_memory_) throw OutOfMemory(message);
  throw Error(message);
}

void CommandStream::commit() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();
}

void CommandStream::synchronize() {
  AutoreleasePool pool;
  std::vector<Owned<id<MTLCommandBuffer>>> waited;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    commit_open();
    for (const Batch& batch : flying_) waited.push_back(batch.buffer);
  }
  // Without the lock, so that other threads can encode.
  for (const auto& buffer : waited) [buffer.get() waitUntilCompleted];
  std::lock_guard<std::mutex> lock(mutex_);
  collect();
  throw_failure();
}

void CommandStream::finish(uint64_t batch) noexcept {
  AutoreleasePool pool;
  Owned<id<MTLCommandBuffer>> waited;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (batch > committed_) commit_open();
    for (const Batch& b : flying_)
      if (b.number <= batch) waited = b.buffer;
  }
  // Only the last one, as batches complete in order. Without the lock, as above.
  if (waited) [waited.get() waitUntilCompleted];
  std::lock_guard<std::mutex> lock(mutex_);
  collect();
}

void CommandStream::reach(uint64_t batch) {
  finish(batch);
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
}

bool CommandStream::reached(uint64_t batch) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  collect();
  return batch <= committed_ && (flying_.empty() || batch < flying_.front().number);
}

bool CommandStream::idle() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();  // whoever asks again and again waits for it
  collect();
  return flying_.empty();
}

Mark CommandStream::mark() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();
  return {committed_, progress_, last_, host_seconds()};
}

}  // namespace mpsx::driver::metal
