// Dispatches kernels with MTLTensor arguments.
//
// Metal can bind tensors only through an MTL4ArgumentTable, so these kernels need a Metal 4 command queue (macOS 26).
// This queue neither retains resources nor tracks hazards. Each dispatch waits for the earlier work in its stream, and
// later work in the stream waits for the dispatch (command_stream.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "driver/metal/labels.h"
#include "driver/metal/memory.h"
#include "driver/metal/pipelines.h"

namespace mpsx::driver::metal {

// A committed dispatch, and the objects that it keeps alive.
struct TensorDispatch {
  Owned<id<MTLSharedEvent>> event;  // reaches `value` when the dispatch has completed or failed
  uint64_t value = 0;
  std::vector<Owned<id>> kept;

  struct Failure {
    std::mutex mutex;
    std::string message;  // empty if the dispatch succeeded
    bool out_of_memory = false;
  };
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
};

class TensorQueue {
 public:
  // Throws Error if this system does not support Metal 4.
  explicit TensorQueue(Owned<id<MTLDevice>> device);

  // Throws Error if Metal does not support one of the tensors. Binds `null_buffer` in place of null arguments. The
  // dispatch starts when `event` reaches `after`.
  std::shared_ptr<TensorDispatch> dispatch(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&,
                                           const Label&, id<MTLBuffer> null_buffer, id<MTLSharedEvent> event,
                                           uint64_t after);

 private:
  const Owned<id<MTLDevice>> device_;
  Owned<id> queue_;  // an MTL4CommandQueue, which older SDKs do not declare
  Owned<id<MTLSharedEvent>> done_;
  uint64_t last_ = 0;
};

// Throws an Error that names the parameter if an argument does not match the kernel's tensor or if Metal does not
// support it.
void check_tensors(const MetalKernel&, const Argument* arguments, size_t count);

}  // namespace mpsx::driver::metal
