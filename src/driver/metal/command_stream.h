// The single ordered sequence of work: kernels are encoded into an open command buffer, which is committed when it is
// full or when somebody waits.
//
// Serial: a compute encoder of MTLDispatchTypeSerial runs its dispatches one after the other, each seeing the memory
// that those before it wrote, and buffers tracked for hazards order command buffers. So nothing here needs a fence or a
// barrier, and a block of memory can be reused as soon as it is freed: its next user comes later in the sequence.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "driver/metal/labels.h"
#include "driver/metal/memory.h"
#include "driver/metal/pipelines.h"

namespace mpsx::driver::metal {

// A place in the stream: the GPU has reached it when `progress` is at `batch` and the clock has passed `since`.
struct Mark {
  uint64_t batch = 0;  // the last one committed; 0: there has been no work
  Owned<id<MTLSharedEvent>> progress;
  Owned<id<MTLCommandBuffer>> last;  // the batch's
  double since = 0;                  // seconds of the host's clock, which GPU times are in too
};

class CommandStream {
 public:
  explicit CommandStream(Owned<id<MTLDevice>> device);
  ~CommandStream();  // waits for the GPU

  // Returns the batch that the dispatch is in, which is its place in the stream.
  uint64_t dispatch(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&);
  void commit();
  void synchronize();      // throws Error, or OutOfMemory, for work that failed since the last call
  void finish() noexcept;  // waits, and keeps what failed for synchronize()
  // The same for the batches up to one.
  void reach(uint64_t batch);
  void finish(uint64_t batch) noexcept;
  bool reached(uint64_t batch);
  bool idle();  // commits
  Mark mark();  // commits

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
    uint64_t bytes = 0;  // of the buffers bound
  };

  id<MTLComputeCommandEncoder> encoder();
  void group(const Label&);
  static std::string list(const std::vector<Encoded>&);
  void check(const MetalKernel&, const Argument* arguments, size_t count, const Dispatch&) const;
  bool full();
  void commit_open();
  void collect();
  void throw_failure();

  const Owned<id<MTLDevice>> device_;
  const Owned<id<MTLCommandQueue>> queue_;
  const Owned<id<MTLBuffer>> absent_;         // bound for arguments that are null
  const Owned<id<MTLSharedEvent>> progress_;  // the GPU sets it to the number of each batch that it has done
  const size_t threadgroup_limit_;
  const bool one_by_one_;  // a command buffer a kernel, so that an error names the kernel

  std::mutex mutex_;  // of everything below
  Batch open_;
  Owned<id<MTLComputeCommandEncoder>> encoder_;
  Label group_;               // the encoder's debug group
  std::deque<Batch> flying_;  // committed, and not seen complete yet
  uint64_t committed_ = 0;
  Owned<id<MTLCommandBuffer>> last_;  // committed
  std::string failure_;               // of the first batch that failed since the last synchronize()
  bool out_of_memory_ = false;        // it did for lack of memory
  uint64_t failures_ = 0;
};

}  // namespace mpsx::driver::metal
