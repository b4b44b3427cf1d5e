// The driver's only CUDA stream. Its dispatches are numbered consecutively.
//
// As on Metal, all streams share this one. Freed memory can therefore be reused immediately, regardless of which stream
// used it last.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/cuda/arguments.h"

namespace mpsx::driver::cuda {

class CommandStream {
 public:
  explicit CommandStream(const Device&);
  CUstream get() const { return stream_; }

  uint64_t dispatch(const CudaKernel&, const Argument* arguments, size_t count, const Dispatch&);
  // Launches a graph. Errors call it by the name of `label`, which must live until the graph has completed.
  uint64_t launch(CUgraphExec, const CudaKernel& label);
  bool is_synchronous() const { return synchronous_; }
  void synchronize();                              // throws Error if any work has failed
  void wait_until(uint64_t seq);                   // throws like synchronize()
  void wait_until_nothrow(uint64_t seq) noexcept;  // leaves errors to the next call that throws
  bool is_complete(uint64_t seq);
  bool idle();

 private:
  // An event that is recorded after all work up to `seq`. The threads that wait for it share it.
  struct Checkpoint {
    uint64_t seq;
    std::shared_ptr<CUevent_st> event;
  };

  void launch(const CudaKernel&, Parameters&, const Dispatch&);
  uint64_t add_in_flight(const CudaKernel&);
  Checkpoint checkpoint();
  void retire_completed();
  void retire(uint64_t seq);
  void record_failure(CUresult);
  void throw_failure();
  std::string list() const;

  const Device& device_;
  const CUstream stream_;
  const bool synchronous_;  // wait for every kernel, so that errors name it

  std::mutex mutex_;  // guards everything below
  UploadRing upload_;
  std::optional<bool> last_fills_processor_;  // of the last kernel (dependent_launch.h); empty before and after a graph
  uint64_t last_ = 0, completed_ = 0;         // sequence numbers
  std::deque<Checkpoint> checkpoints_;        // checkpoints that may not have been reached yet
  std::deque<const CudaKernel*> in_flight_;   // kernels dispatched after `completed_`
  std::string failure_;                       // message of the first fatal error; empty if there is none
};

}  // namespace mpsx::driver::cuda
