// The driver's only command queue. Kernels are encoded into an open command buffer, which is committed when it is full
// or when a thread waits.
//
// Each command buffer has one concurrent compute encoder, whose dispatches overlap. Barriers separate conflicting
// dispatches (hazards.h), and a fence orders the encoders, because the buffers opt out of Metal's hazard tracking. A
// freed memory block can be reused immediately, because its next user comes later in the queue. Command buffers do not
// retain the objects they use. The stream keeps released buffers until their batch completes, and all other objects
// outlive the work.
//
// MPSX_METAL_SERIAL=1 uses serial encoders, retained references and Metal's hazard tracking instead.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "driver/metal/hazards.h"
#include "driver/metal/labels.h"
#include "driver/metal/memory.h"
#include "driver/metal/pipelines.h"
#include "driver/metal/residency.h"
#include "driver/metal/tensor_queue.h"

namespace mpsx::driver::metal {

// A position in the stream. The work before it is complete when `progress` reaches `batch`.
struct Checkpoint {
  uint64_t batch = 0;  // the last committed batch; 0 before any work
  Owned<id<MTLSharedEvent>> progress;
  Owned<id<MTLCommandBuffer>> last;  // the command buffer of `batch`
  double recorded_at = 0;            // in seconds on the host's clock, which GPU times also use
};

class CommandStream {
 public:
  explicit CommandStream(Owned<id<MTLDevice>> device);
  ~CommandStream();  // waits for the GPU

  // Returns the sequence number of the dispatch, which is the number of the batch that contains it.
  uint64_t dispatch(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&);
  void commit();
  void synchronize();                // throws Error or OutOfMemory if any work has failed since the last call
  void wait_all_nothrow() noexcept;  // waits, but leaves errors to synchronize()
  // Like synchronize() and wait_all_nothrow(), but wait only for batches up to `batch`.
  void wait_until(uint64_t batch);
  void wait_until_nothrow(uint64_t batch) noexcept;
  bool is_complete(uint64_t batch);
  bool idle();              // commits first
  Checkpoint checkpoint();  // commits first

  // Keeps a new buffer resident until release(), which takes ownership of the caller's reference and drops it once
  // the GPU no longer uses the buffer.
  void add(id<MTLBuffer>);
  void release(Owned<id<MTLBuffer>>) noexcept;

 private:
  struct Encoded {
    const MetalKernel* kernel;
    Label label;
    bool operator==(const Encoded& other) const { return kernel == other.kernel && label == other.label; }
  };
  struct Batch {
    uint64_t number = 0;  // 1, 2, 3 … in the order of commits
    Owned<id<MTLCommandBuffer>> buffer;
    std::vector<Encoded> kernels;
    uint64_t bytes = 0;                          // total size of the kernels' memory
    std::shared_ptr<TensorDispatch> tensors;     // the tensor dispatch that the empty command buffer waits for, or null
    std::vector<Owned<id<MTLBuffer>>> released;  // buffers to free once the batch is complete
  };

  Owned<id<MTLCommandBuffer>> new_command_buffer();
  id<MTLComputeCommandEncoder> open_encoder();
  void set_debug_group(const Label&);
  static std::string describe_kernels(const std::vector<Encoded>&);
  uint64_t check(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&) const;
  size_t bind_buffers(id<MTLComputeCommandEncoder>, const Argument* begin, const Argument* end,
                      NSUInteger index) const;
  bool should_commit();
  uint64_t dispatch_tensors(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&);
  void commit_open();
  void submit();
  void record_failure(const Batch&, const std::string& reason, bool out_of_memory);
  void retire_completed();
  void throw_failure();

  const bool serial_;
  const Owned<id<MTLDevice>> device_;
  const Owned<id<MTLCommandQueue>> queue_;
  const Owned<id<MTLFence>> fence_;           // every encoder waits for it at its start and updates it at its end
  const Owned<id<MTLBuffer>> null_buffer_;    // bound in place of null arguments
  const Owned<id<MTLSharedEvent>> progress_;  // the GPU sets it to the number of the last completed batch
  const size_t threadgroup_limit_;
  const bool synchronous_;  // one command buffer per kernel, so that errors name the kernel

  std::mutex mutex_;  // guards everything below
  Residency residency_;
  Hazards hazards_;      // of the open encoder
  bool fenced_ = false;  // whether an encoder has updated the fence
  Batch open_;
  Owned<id<MTLComputeCommandEncoder>> encoder_;
  Label debug_group_;                          // the encoder's current debug group
  std::unique_ptr<TensorQueue> tensor_queue_;  // null until first used
  std::deque<Batch> in_flight_;                // committed, may still be running
  uint64_t committed_ = 0;
  Owned<id<MTLCommandBuffer>> last_;  // the last committed command buffer
  std::string failure_;               // message of the first failed batch since the last synchronize()
  bool out_of_memory_ = false;        // whether that batch ran out of memory
  uint64_t failures_ = 0;             // number of failed batches since the last synchronize()
};

}  // namespace mpsx::driver::metal
