#include "driver/cuda/command_stream.h"

#include <algorithm>

#include "driver/cuda/dependent_launch.h"
#include "driver/environment.h"

namespace mpsx::driver::cuda {
namespace {

constexpr uint64_t kCheckpointInterval = 64;  // number of dispatches

CUstream new_stream(const Device& device) {
  CUstream stream = nullptr;
  device.api.check(device.api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

}  // namespace

CommandStream::CommandStream(const Device& device)
    : device_(device), stream_(new_stream(device)), synchronous_(env_flag("MPSX_CUDA_DEBUG")), upload_(device) {}

uint64_t CommandStream::dispatch(const CudaKernel& kernel, const Argument* arguments, size_t count,
                                 const Dispatch& requested) {
  if (requested.grid.count() == 0) return 0;
  check(kernel, arguments, count, requested);
  const Dispatch dispatch = with_additional_threads(kernel, requested);
  device_.bind();
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
  Parameters parameters(kernel, arguments, count, dispatch, device_, upload_, [&] {
    record_failure(device_.api.cuStreamSynchronize(stream_));
    throw_failure();
  });
  launch(kernel, parameters, dispatch);
  return add_in_flight(kernel);
}

void CommandStream::launch(const CudaKernel& kernel, Parameters& parameters, const Dispatch& dispatch) {
  parameters.check_shared_memory(kernel, device_);
  const bool fills_processor = parameters.fills_processor(kernel, device_);
  CUlaunchAttribute early_start{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, {}, {}};
  early_start.value.programmaticStreamSerializationAllowed =
      last_fills_processor_ && should_start_early(fills_processor, *last_fills_processor_);
  last_fills_processor_ = fills_processor;
  for_each_part(dispatch, [&](Grid& grid, unsigned x, unsigned y, unsigned z) {
    const CUlaunchConfig config = {x,
                                   y,
                                   z,
                                   uint32_t(dispatch.group.count()),
                                   1,
                                   1,
                                   parameters.threadgroup_bytes(),
                                   stream_,
                                   &early_start,
                                   device_.overlaps_kernels};
    record_failure(device_.api.cuLaunchKernelEx(&config, kernel.function, parameters.get(grid), nullptr));
    throw_failure();
  });
}

uint64_t CommandStream::launch(CUgraphExec graph, const CudaKernel& label) {
  device_.bind();
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
  last_fills_processor_.reset();
  record_failure(device_.api.cuGraphLaunch(graph, stream_));
  throw_failure();
  return add_in_flight(label);
}

uint64_t CommandStream::add_in_flight(const CudaKernel& kernel) {
  in_flight_.push_back(&kernel);
  const uint64_t seq = ++last_;
  if (synchronous_) {
    record_failure(device_.api.cuStreamSynchronize(stream_));
    throw_failure();
    retire(seq);
  } else if (seq % kCheckpointInterval == 0) {
    checkpoint();
    retire_completed();
  }
  return seq;
}

CommandStream::Checkpoint CommandStream::checkpoint() {
  CUevent event = nullptr;
  const Api& api = device_.api;
  api.check(api.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  Checkpoint checkpoint{last_, {event, [&api](CUevent e) { api.cuEventDestroy(e); }}};
  api.check(api.cuEventRecord(event, stream_), "cuEventRecord");
  checkpoints_.push_back(checkpoint);
  return checkpoint;
}

void CommandStream::retire_completed() {
  while (!checkpoints_.empty()) {
    const CUresult result = device_.api.cuEventQuery(checkpoints_.front().event.get());
    if (result == CUDA_ERROR_NOT_READY) return;
    if (result != CUDA_SUCCESS) return record_failure(result);
    retire(checkpoints_.front().seq);
    checkpoints_.pop_front();
  }
}

void CommandStream::retire(uint64_t seq) {
  if (seq <= completed_) return;
  in_flight_.erase(in_flight_.begin(), in_flight_.begin() + std::ptrdiff_t(seq - completed_));
  completed_ = seq;
}

// Returns a list such as "softmax_f32, add_f32 x3".
std::string CommandStream::list() const {
  std::string text;
  for (size_t i = 0, n; i < in_flight_.size(); i += n) {
    for (n = 1; i + n < in_flight_.size() && in_flight_[i + n] == in_flight_[i];) ++n;
    text += (i ? ", " : "") + in_flight_[i]->name + (n > 1 ? " x" + std::to_string(n) : "");
  }
  return text;
}

// Any later call may report a kernel's error, which also makes the process's CUDA context unusable.
void CommandStream::record_failure(CUresult result) {
  if (result == CUDA_SUCCESS || !failure_.empty()) return;
  failure_ = "the GPU failed: " + device_.api.describe(result);
  if (!in_flight_.empty()) failure_ += (in_flight_.size() == 1 ? "; kernel " : "; among the kernels ") + list();
  if (in_flight_.size() > 1) failure_ += " (MPSX_CUDA_DEBUG=1 runs them one at a time)";
  failure_ += ". This process can no longer use the GPU";
}

void CommandStream::throw_failure() {
  if (!failure_.empty()) throw Error(failure_);
}

// Waits for the whole stream, not only for the last kernel, because events may come after that kernel.
void CommandStream::synchronize() {
  device_.bind();
  uint64_t seq = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    seq = last_;
  }
  // Wait without holding the lock, so that other threads can dispatch.
  const CUresult result = device_.api.cuStreamSynchronize(stream_);
  std::lock_guard<std::mutex> lock(mutex_);
  record_failure(result);
  throw_failure();
  retire_completed();
  retire(seq);
}

void CommandStream::wait_until(uint64_t seq) {
  wait_until_nothrow(seq);
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
}

void CommandStream::wait_until_nothrow(uint64_t seq) noexcept {
  try {
    device_.bind();
    Checkpoint awaited{0, nullptr};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      seq = std::min(seq, last_);
      if (seq <= completed_ || !failure_.empty()) return;
      for (const Checkpoint& m : checkpoints_)
        if (!awaited.event && m.seq >= seq) awaited = m;
      if (!awaited.event) awaited = checkpoint();
    }
    // Wait without holding the lock, so that other threads can dispatch.
    const CUresult result = device_.api.cuEventSynchronize(awaited.event.get());
    std::lock_guard<std::mutex> lock(mutex_);
    record_failure(result);
    retire_completed();
  } catch (const Error& e) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.empty()) failure_ = e.what();
  }
}

bool CommandStream::is_complete(uint64_t seq) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (seq <= completed_) return true;
  device_.bind();
  retire_completed();
  return seq <= completed_ || (seq <= last_ && device_.api.cuStreamQuery(stream_) == CUDA_SUCCESS);
}

bool CommandStream::idle() {
  device_.bind();
  return device_.api.cuStreamQuery(stream_) != CUDA_ERROR_NOT_READY;
}

}  // namespace mpsx::driver::cuda
