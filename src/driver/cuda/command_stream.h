// The one ordered sequence of work, a stream of CUDA's. Places in it are numbers that grow with each dispatch.
//
// One serves as every stream, as on Metal: freed memory may then be used again at once, whatever stream its last user
// was on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "driver/cuda/arguments.h"

namespace mpsx::driver::cuda {

class CommandStream {
 public:
  explicit CommandStream(const Device&);
  CUstream get() const { return stream_; }

  uint64_t dispatch(const CudaKernel&, const Argument* arguments, size_t count, const Dispatch&);
  void synchronize();                    // throws Error for work that failed
  void reach(uint64_t place);            // waits for the work up to a place, and throws as synchronize() does
  void finish(uint64_t place) noexcept;  // waits, and leaves what failed to the next that throws
  bool reached(uint64_t place);
  bool idle();

 private:
  // An event behind the work up to a place. Shared with whoever waits for it.
  struct Mark {
    uint64_t place;
    std::shared_ptr<CUevent_st> event;
  };

  void launch(const CudaKernel&, Parameters&, const Dispatch&);
  Mark mark();
  void collect();
  void complete(uint64_t place);
  void note(CUresult);
  void throw_failure();
  std::string list() const;

  const Device& device_;
  const CUstream stream_;
  const bool one_by_one_;  // waits for each kernel, so that an error names it

  std::mutex mutex_;  // of everything below
  Upload upload_;
  uint64_t last_ = 0, completed_ = 0;     // places
  std::deque<Mark> marks_;                // not seen complete yet
  std::deque<const CudaKernel*> flying_;  // dispatched behind `completed_`
  std::string failure_;                   // why the GPU does not work any more; empty: it does
};

}  // namespace mpsx::driver::cuda
