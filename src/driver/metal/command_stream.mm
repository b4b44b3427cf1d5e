#include "driver/metal/command_stream.h"

#include <time.h>

#include <algorithm>

#include "driver/dispatch_check.h"
#include "driver/environment.h"

namespace mpsx::driver::metal {
namespace {

// A command buffer is committed after kBatch kernels or this many bytes of bound buffers, or after kFirstBatch kernels
// if the GPU is idle.
constexpr size_t kBatch = 64, kFirstBatch = 8;
constexpr uint64_t kBatchBytes = uint64_t(1) << 30;

// Returns the current time in seconds, on the clock that Metal uses for GPUStartTime and GPUEndTime. On macOS, this is
// mach_absolute_time.
double host_time() {
#ifdef CLOCK_UPTIME_RAW
  constexpr clockid_t kClock = CLOCK_UPTIME_RAW;
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec now{};
  clock_gettime(kClock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

MTLSize to_metal(const Size& size) { return MTLSizeMake(size.x, size.y, size.z); }

bool finished(id<MTLCommandBuffer> buffer) { return buffer.status >= MTLCommandBufferStatusCompleted; }

[[noreturn]] void reject_offset(const MetalKernel& kernel, const Argument* arguments, const Argument& a) {
  const auto takes_index = [](const Argument& other) { return other.kind != Argument::Kind::threadgroup; };
  throw Error(kernel.name + ": expected an offset within the " + std::to_string(as_buffer(a.data).length) +
              " bytes of buffer " + std::to_string(std::count_if(arguments, &a, takes_index)) + ", got " +
              std::to_string(a.size));
}

// Checks that the caller has bound every argument of a user's kernel.
void check_bindings(const MetalKernel& kernel, const Argument* arguments, size_t count, size_t buffers) {
  const auto missing = [&](const Binding& b, const char* kind) {
    return "missing argument " + b.name + " [[" + kind + "(" + std::to_string(b.index) + ")]]";
  };
  for (const Binding& b : kernel.buffers) {
    if (b.index >= buffers)
      throw Error(kernel.name + ": expected " + std::to_string(kernel.buffers.back().index + 1) + " buffers, got " +
                  std::to_string(buffers) + ": " + missing(b, "buffer"));
    size_t index = 0;
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].kind != Argument::Kind::threadgroup && index++ == b.index && !arguments[i].data)
        throw Error(kernel.name + ": " + missing(b, "buffer"));
  }
  check_tensors(kernel, arguments, count);
  for (const Binding& b : kernel.threadgroups) {
    size_t index = 0, bytes = 0;
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].kind == Argument::Kind::threadgroup && index++ == b.index) bytes = arguments[i].size;
    if (!bytes) throw Error(kernel.name + ": " + missing(b, "threadgroup"));
  }
}

}  // namespace

// Returns a description such as "softmax_f32, add_f32 x3 in forward/attention".
std::string CommandStream::describe_kernels(const std::vector<Encoded>& kernels) {
  std::string text;
  for (size_t i = 0, n; i < kernels.size(); i += n) {
    for (n = 1; i + n < kernels.size() && kernels[i + n] == kernels[i];) ++n;
    text += (i ? ", " : "") + kernels[i].kernel->name + (n > 1 ? " x" + std::to_string(n) : "");
    if (kernels[i].label) text += " in " + *kernels[i].label;
  }
  return text;
}

CommandStream::CommandStream(Owned<id<MTLDevice>> device)
    : serial_(is_serial()),
      device_(std::move(device)),
      queue_(Owned<id<MTLCommandQueue>>::adopt([device_.get() newCommandQueue])),
      fence_(Owned<id<MTLFence>>::adopt([device_.get() newFence])),
      null_buffer_(Owned<id<MTLBuffer>>::adopt([device_.get() newBufferWithLength:16 options:buffer_options()])),
      progress_(Owned<id<MTLSharedEvent>>::adopt([device_.get() newSharedEvent])),
      threadgroup_limit_(device_.get().maxThreadgroupMemoryLength),
      synchronous_(env_flag("MPSX_METAL_DEBUG")),
      residency_(device_.get(), queue_.get()) {
  if (!queue_ || !fence_ || !null_buffer_ || !progress_) throw Error("Metal could not create a command queue");
  queue_.get().label = @"mpsx";
}

CommandStream::~CommandStream() {
  if (!is_forked()) wait_all_nothrow();
}

void CommandStream::wait_all_nothrow() noexcept {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();
  for (const Batch& batch : in_flight_) [batch.buffer.get() waitUntilCompleted];
  retire_completed();
}

// Blocks if too many command buffers are in flight.
Owned<id<MTLCommandBuffer>> CommandStream::new_command_buffer() {
  id<MTLCommandQueue> queue = queue_.get();
  auto buffer = Owned<id<MTLCommandBuffer>>::retain(serial_ ? [queue commandBuffer]
                                                            : [queue commandBufferWithUnretainedReferences]);
  if (!buffer) throw Error("Metal could not create a command buffer");
  return buffer;
}

id<MTLComputeCommandEncoder> CommandStream::open_encoder() {
  auto buffer = new_command_buffer();
  const MTLDispatchType type = serial_ ? MTLDispatchTypeSerial : MTLDispatchTypeConcurrent;
  encoder_ =
      Owned<id<MTLComputeCommandEncoder>>::retain([buffer.get() computeCommandEncoderWithDispatchType:type]);
  if (!encoder_) throw Error("Metal could not create a command encoder");
  if (fenced_) [encoder_.get() waitForFence:fence_.get()];
  open_ = {committed_ + 1, std::move(buffer), {}, 0, nullptr, {}};
  open_.kernels.reserve(kBatch);
  NSString* label = to_ns("mpsx " + std::to_string(open_.number));
  open_.buffer.get().label = label;
  encoder_.get().label = label;
  return encoder_.get();
}

// Groups the encoder's next dispatches under `label`, for debugging tools.
void CommandStream::set_debug_group(const Label& label) {
  if (debug_group_) [encoder_.get() popDebugGroup];
  debug_group_ = label;
  if (!debug_group_) return;
  NSString* name = to_ns(*debug_group_);
  [encoder_.get() pushDebugGroup:name ? name : @"(label is not UTF-8)"];
}

// Throws Error in all cases that would otherwise make Metal abort the process. Returns the total size of the memory
// that the kernel may access.
uint64_t CommandStream::check(const MetalKernel& kernel, const Argument* arguments, size_t count,
                              const Dispatch& dispatch) const {
  uint64_t bytes = 0;
  const auto check_offset = [&](const Argument& a) {
    if (!a.data) return;
    const size_t end = a.end == SIZE_MAX ? as_buffer(a.data).length : a.end;
    if (a.size >= end) reject_offset(kernel, arguments, a);
    bytes += end - a.begin;
  };
  const size_t buffers = check_dispatch(kernel, arguments, count, dispatch, threadgroup_limit_, check_offset);
  if (kernel.reflected) check_bindings(kernel, arguments, count, buffers);
  return bytes;
}

uint64_t CommandStream::dispatch(const MetalKernel& kernel, const Argument* arguments, size_t count,
                                 const Dispatch& dispatch) {
  if (dispatch.grid.count() == 0) return 0;
  AutoreleasePool pool;
  const uint64_t bytes = check(kernel, arguments, count, dispatch);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!kernel.tensors.empty()) return dispatch_tensors(kernel, arguments, count, dispatch);
  id<MTLComputeCommandEncoder> to = encoder_ ? encoder_.get() : open_encoder();
  const Label& label = current_label();
  if (label != debug_group_) set_debug_group(label);
  [to setComputePipelineState:kernel.pipeline_for(dispatch)];
  open_.bytes += bytes;
  NSUInteger index = 0, locals = 0;
  for (const Argument *a = arguments, *end = a + count; a != end;) {
    if (a->kind == Argument::Kind::buffer) {
      const size_t n = bind_buffers(to, a, end, index);
      a += n;
      index += n;
      continue;
    }
    if (a->kind == Argument::Kind::bytes) {
      [to setBytes:a->data length:a->size atIndex:index++];
    } else {
      if (a->size) [to setThreadgroupMemoryLength:round_up_threadgroup_memory(a->size) atIndex:locals];
      ++locals;
    }
    ++a;
  }
  if (!serial_ && hazards_.add(arguments, count, dispatch)) [to memoryBarrierWithScope:MTLBarrierScopeBuffers];
  if (dispatch.by_threads)
    [to dispatchThreads:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  else
    [to dispatchThreadgroups:to_metal(dispatch.grid) threadsPerThreadgroup:to_metal(dispatch.group)];
  open_.kernels.push_back({&kernel, label});
  const uint64_t number = open_.number;
  if (should_commit()) commit_open();
  return number;
}

// Binds the buffers at the start of the arguments with one message. Returns how many there are.
size_t CommandStream::bind_buffers(id<MTLComputeCommandEncoder> to, const Argument* begin, const Argument* end,
                                   NSUInteger index) const {
  id<MTLBuffer> buffers[kMaxBuffers];
  NSUInteger offsets[kMaxBuffers];
  size_t n = 0;
  for (const Argument* a = begin; a != end && a->kind == Argument::Kind::buffer; ++a, ++n) {
    buffers[n] = a->data ? as_buffer(a->data) : null_buffer_.get();
    offsets[n] = a->data ? a->size : 0;
  }
  [to setBuffers:buffers offsets:offsets withRange:NSMakeRange(index, n)];
  return n;
}

// Tensor dispatches run in a separate queue. An empty command buffer that waits for the dispatch is committed to this
// queue, so that later work in this queue runs after the dispatch.
uint64_t CommandStream::dispatch_tensors(const MetalKernel& kernel, const Argument* arguments, size_t count,
                                         const Dispatch& dispatch) {
  commit_open();
  if (!tensor_queue_) tensor_queue_ = std::make_unique<TensorQueue>(device_);
  auto buffer = new_command_buffer();
  const Label label = current_label();
  auto work = tensor_queue_->dispatch(kernel, arguments, count, dispatch, label, null_buffer_.get(), progress_.get(),
                                      committed_);
  [buffer.get() encodeWaitForEvent:work->event.get() value:work->value];
  buffer.get().label = to_ns("mpsx " + std::to_string(committed_ + 1));
  open_ = {committed_ + 1, std::move(buffer), {{&kernel, label}}, 0, std::move(work), {}};
  submit();
  return committed_;
}

bool CommandStream::should_commit() {
  const size_t kernels = open_.kernels.size();
  if (kernels >= kBatch || open_.bytes >= kBatchBytes || synchronous_) return true;
  if (kernels % kFirstBatch) return false;
  retire_completed();
  return in_flight_.empty();
}

void CommandStream::commit_open() {
  if (!encoder_) return;
  if (debug_group_) set_debug_group(nullptr);
  if (!serial_) [encoder_.get() updateFence:fence_.get()];
  fenced_ = !serial_;
  [encoder_.get() endEncoding];
  encoder_.reset();
  hazards_.clear();
  submit();
}

void CommandStream::submit() {
  residency_.commit();
  [open_.buffer.get() encodeSignalEvent:progress_.get() value:open_.number];
  [open_.buffer.get() commit];
  committed_ = open_.number;
  last_ = open_.buffer;
  in_flight_.push_back(std::move(open_));
  open_ = {};
}

// Removes completed batches, records their errors, and frees the memory that they kept.
void CommandStream::retire_completed() {
  bool removed = false;
  while (!in_flight_.empty() && finished(in_flight_.front().buffer.get())) {
    const Batch& batch = in_flight_.front();
    id<MTLCommandBuffer> buffer = batch.buffer.get();
    if (buffer.status == MTLCommandBufferStatusError) {
      record_failure(batch, describe(buffer.error), buffer.error.code == MTLCommandBufferErrorOutOfMemory);
    } else if (batch.tensors) {
      TensorDispatch::Failure& failure = *batch.tensors->failure;
      std::lock_guard<std::mutex> lock(failure.mutex);
      if (!failure.message.empty()) record_failure(batch, failure.message, failure.out_of_memory);
    }
    for (const auto& released : batch.released) residency_.remove(released.get());
    removed = removed || !batch.released.empty();
    in_flight_.pop_front();
  }
  if (removed) residency_.commit();
}

void CommandStream::record_failure(const Batch& batch, const std::string& reason, bool out_of_memory) {
  if (failures_++) return;
  failure_ = "the GPU failed in " + to_string(batch.buffer.get().label) + ": " + reason + "; " +
             (batch.kernels.size() == 1 ? "kernel " : "among the kernels ") + describe_kernels(batch.kernels);
  if (!synchronous_ && batch.kernels.size() > 1) failure_ += " (MPSX_METAL_DEBUG=1 runs them one at a time)";
  // Allocation succeeds as long as there is address space. Memory runs out only when the GPU makes buffers resident.
  out_of_memory_ = out_of_memory;
}

void CommandStream::throw_failure() {
  if (failures_ == 0) return;
  std::string message = std::exchange(failure_, {});
  const uint64_t others = std::exchange(failures_, 0) - 1;
  if (others) message += "; " + std::to_string(others) + " command buffers after it failed too";
  if (out_of_memory_) throw OutOfMemory(message);
  throw Error(message);
}

void CommandStream::add(id<MTLBuffer> buffer) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  residency_.add(buffer);
}

void CommandStream::release(Owned<id<MTLBuffer>> buffer) noexcept {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  retire_completed();
  if (encoder_ || !in_flight_.empty())
    return (encoder_ ? open_ : in_flight_.back()).released.push_back(std::move(buffer));
  residency_.remove(buffer.get());
  residency_.commit();
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
    for (const Batch& batch : in_flight_) waited.push_back(batch.buffer);
  }
  // Wait without holding the lock, so that other threads can continue to encode.
  for (const auto& buffer : waited) [buffer.get() waitUntilCompleted];
  std::lock_guard<std::mutex> lock(mutex_);
  retire_completed();
  throw_failure();
}

void CommandStream::wait_until_nothrow(uint64_t batch) noexcept {
  AutoreleasePool pool;
  Owned<id<MTLCommandBuffer>> waited;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (batch > committed_) commit_open();
    for (const Batch& b : in_flight_)
      if (b.number <= batch) waited = b.buffer;
  }
  // Batches complete in order, so wait only for the last one. Do not hold the lock while waiting.
  if (waited) [waited.get() waitUntilCompleted];
  std::lock_guard<std::mutex> lock(mutex_);
  retire_completed();
}

void CommandStream::wait_until(uint64_t batch) {
  wait_until_nothrow(batch);
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
}

bool CommandStream::is_complete(uint64_t batch) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  retire_completed();
  return batch <= committed_ && (in_flight_.empty() || batch < in_flight_.front().number);
}

bool CommandStream::idle() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();  // the caller may be polling for this work, so start it
  retire_completed();
  return in_flight_.empty();
}

Checkpoint CommandStream::checkpoint() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  commit_open();
  return {committed_, progress_, last_, host_time()};
}

}  // namespace mpsx::driver::metal
