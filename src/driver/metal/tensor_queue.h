// Dispatches of kernels that have MTLTensors as arguments.
//
// Metal binds a tensor through an MTL4ArgumentTable only, so these kernels run in a command queue of Metal 4 (needs
// macOS 26). It retains nothing and tracks no hazards: each dispatch waits for earlier work of the stream, and later
// work of the stream waits for the dispatch (command_stream.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "driver/metal/labels.h"
#include "driver/metal/memory.h"
#include "driver/metal/pipelines.h"

namespace mpsx::driver::metal {

// A committed dispatch, and everything that it uses.
struct TensorDispatch {
  Owned<id<MTLSharedEvent>> event;  // reaches `value` once the dispatch has completed or failed
  uint64_t value = 0;
  std::vector<Owned<id>> kept;

  struct Failure {
    std::mutex mutex;
    std::string message;  // empty if it succeeded
    bool out_of_memory = false;
  };
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
};

class TensorQueue {
 public:
  // Throws Error if this system has no Metal 4.
  explicit TensorQueue(Owned<id<MTLDevice>> device);

  // Throws Error for a tensor that Metal does not support. `null_buffer` is bound for null arguments. The dispatch
  // starts once `event` has reached `after`.
  std::shared_ptr<TensorDispatch> dispatch(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&,
                                           const Label&, id<MTLBuffer> null_buffer, id<MTLSharedEvent> event,
                                           uint64_t after);

 private:
  const Owned<id<MTLDevice>> device_;
  Owned<id> queue_;  // an MTL4CommandQueue, which older SDKs do not declare
  Owned<id<MTLSharedEvent>> done_;
  uint64_t last_ = 0;
};

// Throws Error, which names the parameter, unless the arguments match the kernel's tensors and Metal supports them.
void check_tensors(const MetalKernel&, const Argument* arguments, size_t count);

}  // namespace mpsx::driver::metal
