#include "driver/cuda/command_stream.h"

#include <algorithm>
#include <cstdlib>

namespace mpsx::driver::cuda {
namespace {

constexpr uint64_t kMarkEvery = 64;  // dispatches
constexpr uint32_t kMostGroups[3] = {0x7fffffffu, 65535, 65535};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value && std::string_view(value) != "0";
}

CUstream new_stream(const Device& device) {
  CUstream stream = nullptr;
  device.api.check(device.api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

}  // namespace

CommandStream::CommandStream(const Device& device)
    : device_(device), stream_(new_stream(device)), one_by_one_(is_set("MPSX_CUDA_DEBUG")), upload_(device) {}

uint64_t CommandStream::dispatch(const CudaKernel& kernel, const Argument* arguments, size_t count,
                                 const Dispatch& dispatch) {
  if (dispatch.grid.count() == 0) return 0;
  check(kernel, arguments, count, dispatch);
  device_.bind();
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
  Parameters parameters(kernel, arguments, count, upload_, [&] {
    note(device_.api.cuStreamSynchronize(stream_));
    throw_failure();
  });
  launch(kernel, parameters, dispatch);
  flying_.push_back(&kernel);
  const uint64_t place = ++last_;
  if (one_by_one_) {
    note(device_.api.cuStreamSynchronize(stream_));
    throw_failure();
    complete(place);
  } else if (place % kMarkEvery == 0) {
    mark();
    collect();
  }
  return place;
}

// CUDA's grids are smaller than Metal's along y and z: what is beyond their limits is launches of its own.
void CommandStream::launch(const CudaKernel& kernel, Parameters& parameters, const Dispatch& dispatch) {
  const uint32_t units[3] = {dispatch.grid.x, dispatch.grid.y, dispatch.grid.z};
  const uint32_t group[3] = {dispatch.group.x, dispatch.group.y, dispatch.group.z};
  Grid grid;
  for (int d = 0; d < 3; ++d) {
    grid.group[d] = group[d];
    grid.groups[d] = dispatch.by_threads ? uint32_t((uint64_t(units[d]) + group[d] - 1) / group[d]) : units[d];
    grid.threads[d] = dispatch.by_threads ? units[d] : units[d] * group[d];
  }
  uint32_t* const at = grid.first;
  const auto part = [&](int d) { return std::min(grid.groups[d] - at[d], kMostGroups[d]); };
  for (at[2] = 0; at[2] < grid.groups[2]; at[2] += part(2))
    for (at[1] = 0; at[1] < grid.groups[1]; at[1] += part(1))
      for (at[0] = 0; at[0] < grid.groups[0]; at[0] += part(0)) {
        const CUresult result =
            device_.api.cuLaunchKernel(kernel.function, part(0), part(1), part(2), uint32_t(dispatch.group.count()), 1,
                                       1, parameters.threadgroup_bytes(), stream_, parameters.get(grid), nullptr);
        if (result == CUDA_SUCCESS) continue;
        note(result);
        throw_failure();
      }
}

CommandStream::Mark CommandStream::mark() {
  CUevent event = nullptr;
  const Api& api = device_.api;
  api.check(api.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  Mark mark{last_, {event, [&api](CUevent e) { api.cuEventDestroy(e); }}};
  api.check(api.cuEventRecord(event, stream_), "cuEventRecord");
  marks_.push_back(mark);
  return mark;
}

// Forgets the work that is complete.
void CommandStream::collect() {
  while (!marks_.empty()) {
    const CUresult result = device_.api.cuEventQuery(marks_.front().event.get());
    if (result == CUDA_ERROR_NOT_READY) return;
    if (result != CUDA_SUCCESS) return note(result);
    complete(marks_.front().place);
    marks_.pop_front();
  }
}

void CommandStream::complete(uint64_t place) {
  if (place <= completed_) return;
  flying_.erase(flying_.begin(), flying_.begin() + std::ptrdiff_t(place - completed_));
  completed_ = place;
}

// "softmax_f32, add_f32 x3"
std::string CommandStream::list() const {
  std::string text;
  for (size_t i = 0, n; i < flying_.size(); i += n) {
    for (n = 1; i + n < flying_.size() && flying_[i + n] == flying_[i];) ++n;
    text += (i ? ", " : "") + flying_[i]->name + (n > 1 ? " x" + std::to_string(n) : "");
  }
  return text;
}

// Errors of kernels come with whatever is called next, and the process' context is of no use after them.
void CommandStream::note(CUresult result) {
  if (result == CUDA_SUCCESS || !failure_.empty()) return;
  failure_ = "the GPU failed: " + device_.api.describe(result);
  if (!flying_.empty()) failure_ += (flying_.size() == 1 ? "; kernel " : "; among the kernels ") + list();
  if (flying_.size() > 1) failure_ += " (MPSX_CUDA_DEBUG=1 runs them one by one)";
  failure_ += ". This process cannot use the GPU any more";
}

void CommandStream::throw_failure() {
  if (!failure_.empty()) throw Error(failure_);
}

// For events too, which may come after the last kernel.
void CommandStream::synchronize() {
  device_.bind();
  uint64_t place = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    place = last_;
  }
  const CUresult result =
      device_.api.cuStreamSynchronize(stream_);  // without the lock: other threads go on dispatching
  std::lock_guard<std::mutex> lock(mutex_);
  note(result);
  throw_failure();
  collect();
  complete(place);
}

void CommandStream::reach(uint64_t place) {
  finish(place);
  std::lock_guard<std::mutex> lock(mutex_);
  throw_failure();
}

void CommandStream::finish(uint64_t place) noexcept {
  try {
    device_.bind();
    Mark awaited{0, nullptr};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      place = std::min(place, last_);
      if (place <= completed_ || !failure_.empty()) return;
      for (const Mark& m : marks_)
        if (!awaited.event && m.place >= place) awaited = m;
      if (!awaited.event) awaited = mark();
    }
    // Without the lock: other threads go on dispatching.
    const CUresult result = device_.api.cuEventSynchronize(awaited.event.get());
    std::lock_guard<std::mutex> lock(mutex_);
    note(result);
    collect();
  } catch (const Error& e) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.empty()) failure_ = e.what();
  }
}

bool CommandStream::reached(uint64_t place) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (place <= completed_) return true;
  device_.bind();
  collect();
  return place <= completed_ || (place <= last_ && device_.api.cuStreamQuery(stream_) == CUDA_SUCCESS);
}

bool CommandStream::idle() {
  device_.bind();
  return device_.api.cuStreamQuery(stream_) != CUDA_ERROR_NOT_READY;
}

}  // namespace mpsx::driver::cuda
